"""The application: which path does what.

From: HTTP, by way of uvicorn and `guard.py`. To: `answers.py` for completions; the rest is answered here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import minfer
from minfer.serve.answers import Answer, Asked
from minfer.serve.convert import detokenize, params_of, prompts_of, tokenize
from minfer.serve.errors import ApiError, from_validation
from minfer.serve.front import Front
from minfer.serve.guard import Guard
from minfer.serve.protocol import ChatCompletionRequest, CompletionRequest, DetokenizeRequest, SamplingRequest, TokenizeRequest
from minfer.serve.replies import json_response
from minfer.serve.responses import ChatCompletionResponse, CompletionResponse
from minfer.serve.shapes import Detokenized, ErrorResponse, Health, ModelCard, ModelList, Tokenized

ERRORS = {"4XX": {"model": ErrorResponse}, "5XX": {"model": ErrorResponse}}
TEXT = {"schema": {"type": "string"}}
EVENT = {"type": "object", "properties": {"data": {"type": "string"}}, "required": ["data"]}
STREAM = {"text/event-stream": {"schema": EVENT}}
PAGE = {"html": "text/html", "css": "text/css", "mjs": "text/javascript"}


def create_app(front: Front, names: list[str], api_key: str | None = None) -> Guard:
    """The server as an ASGI application.

    Args:
        front: the event loop's side of a running engine; it begins to listen when the application starts.
        names: under which the model is served; answers say the one that was asked for.
        api_key: None lets everybody in.
    """
    app = FastAPI(
        title="minfer", version=minfer.__version__, docs_url=None, redoc_url=None, lifespan=lambda app: _lifespan(front, started)
    )
    thread = ThreadPoolExecutor(1, "minfer-tokenizer")  # one: a tokenizer is not made to be used by two at once
    started = int(time.time())
    for kind, handler in _HANDLERS.items():
        app.add_exception_handler(kind, handler)

    async def in_thread(function: Callable, *arguments):
        """Long texts take long: the streams must not wait for them."""
        return await asyncio.get_running_loop().run_in_executor(thread, function, *arguments)

    def served(name: str | None) -> str:
        if name is not None and name not in names:
            text = f"no model is called {name!r} here; this server has {', '.join(map(repr, names))}"
            raise ApiError(404, text, param="model", code="model_not_found")
        return name or names[0]

    async def answer(request: SamplingRequest) -> Answer:
        model = served(request.model)
        params = params_of(request)
        return Answer(front, Asked(request, await in_thread(prompts_of, request, front.tokenizer), params, model))

    @app.post("/v1/completions", response_model=None, responses={200: {"model": CompletionResponse, "content": STREAM}, **ERRORS})
    async def completions(request: CompletionRequest) -> Response:
        """Continue a text."""
        return await answer(request)

    @app.post(
        "/v1/chat/completions", response_model=None, responses={200: {"model": ChatCompletionResponse, "content": STREAM}, **ERRORS}
    )
    async def chat_completions(request: ChatCompletionRequest) -> Response:
        """Answer a chat."""
        return await answer(request)

    @app.post("/tokenize", responses=ERRORS)
    async def to_tokens(request: TokenizeRequest) -> Tokenized:
        """The ids of a text or a chat."""
        served(request.model)
        ids = await in_thread(tokenize, request, front.tokenizer)
        return Tokenized(tokens=ids, count=len(ids), max_model_len=front.info.max_len)

    @app.post("/detokenize", responses=ERRORS)
    async def to_text(request: DetokenizeRequest) -> Detokenized:
        """The text of ids."""
        served(request.model)
        return Detokenized(prompt=await in_thread(detokenize, request, front.tokenizer))

    def card(name: str) -> ModelCard:
        return ModelCard(id=name, created=started, root=front.info.name, max_model_len=front.info.max_len)

    @app.get("/v1/models", responses=ERRORS)
    async def models() -> ModelList:
        """The model, under each of its names."""
        return ModelList(data=[card(name) for name in names])

    @app.get("/v1/models/{name:path}", responses=ERRORS)
    async def model(name: str) -> ModelCard:
        """The model, if this is one of its names."""
        return card(served(name))

    @app.get("/health", responses=ERRORS)
    async def health() -> Health:
        """200 as long as the engine is there and new requests are taken."""
        front.check_open()
        return Health(status="ok")

    @app.get("/metrics", responses={200: {"content": {"text/plain": TEXT}}, **ERRORS}, response_class=Response)
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(front.metrics.text(), media_type="text/plain; version=1.0.0; charset=utf-8")

    @app.get("/engine/state", responses=ERRORS)
    async def state() -> dict:
        """Queues, block tables and the batch of the last step, for the page."""
        return await front.state()

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        return _file(name)

    return Guard(app, api_key, front.limits)


@asynccontextmanager
async def _lifespan(front: Front, started: int) -> AsyncIterator[None]:
    front.start()
    yield
    front.close()


def _file(name: str) -> Response:
    """A file of the page, or a module of the trace player, which it draws with."""
    kind = PAGE.get(name.rpartition(".")[2])
    for package, folder in (("minfer.serve", "page"), ("minfer.trace", "player")):
        for path in files(package).joinpath(folder).iterdir():
            if path.name == name and kind is not None:
                return Response(path.read_bytes(), media_type=f"{kind}; charset=utf-8", headers=PAGE_HEADERS)
    raise ApiError(404, f"there is no {name!r} here")


# The page asks nobody else for anything, and nobody else may show it in a frame.
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}


async def _api_error(request: Request, error: ApiError) -> Response:
    return json_response(error.body, error.status, error.headers)


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    if "json" not in request.headers.get("content-type", ""):
        return await _api_error(request, ApiError(415, "the body must be JSON, with the header 'Content-Type: application/json'"))
    return await _api_error(request, from_validation(error.errors()))


async def _http_error(request: Request, error: HTTPException) -> Response:
    return json_response(ApiError(error.status_code, str(error.detail)).body, error.status_code, error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    return await _api_error(request, ApiError(500, f"an error of the server itself ({type(error).__name__}); its log says more"))


_HANDLERS = {ApiError: _api_error, RequestValidationError: _invalid, HTTPException: _http_error, Exception: _unexpected}
