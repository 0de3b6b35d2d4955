"""The small responses, as pydantic models: errors, models, tokens.

From: `app.py`. To: JSON, and the OpenAPI document.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorResponse(BaseModel):
    error: ErrorDetail


class Health(BaseModel):
    status: Literal["ok"]


class ModelCard(BaseModel):
    id: str
    object: Literal["model"] = "model"
    created: int  # when the server was started, Unix time
    owned_by: str = "minfer"
    root: str  # the model as the server was given it
    max_model_len: int  # tokens of prompt and output together


class ModelList(BaseModel):
    object: Literal["list"] = "list"
    data: list[ModelCard]


class Tokenized(BaseModel):
    tokens: list[int]
    count: int
    max_model_len: int


class Detokenized(BaseModel):
    prompt: str
