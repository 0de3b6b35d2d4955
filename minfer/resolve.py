"""From a part's name to the part: "module:Name" or "file.py:Name", imported late, checked against its slot.

What a part needs of the machine is read from its file without importing it: a module-level line such as `needs = {"cuda"}`.
So a machine without a GPU can list every stage and never imports Triton.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib
import importlib.util
import inspect
import shutil
import sys
from pathlib import Path
from types import FunctionType

import torch

from minfer.errors import PartError
from minfer.parts import SLOTS
from minfer.stages import DECODER, Stage

NEEDS = {  # what a part may need, and how to say that it is lacking
    "cuda": "an NVIDIA GPU that PyTorch can use (torch.cuda.is_available() is False)",
    "triton": "the triton package (pip install triton; Linux only)",
    "compiler": "a C++ compiler (install g++ or clang)",
    "ray": 'the ray package (pip install "minfer[ray]")',
    "onednn": "a PyTorch built with oneDNN (torch.backends.mkldnn.is_available() is False)",
}


@functools.cache
def machine() -> frozenset[str]:
    """Which of NEEDS this machine has."""
    has = {
        "cuda": torch.cuda.is_available(),
        "triton": _find("triton") is not None,
        "ray": _find("ray") is not None,
        "onednn": torch.backends.mkldnn.is_available(),
        "compiler": any(shutil.which(name) for name in ("c++", "g++", "clang++")),
    }
    return frozenset(name for name, present in has.items() if present)


def resolve(slot: str, name: str, lift: frozenset[str] = frozenset()):
    """The part called `name`, checked to fit `slot`.

    lift: needs that count as met: a Triton kernel under Triton's interpreter needs no GPU.

    Raises:
        PartError: no such slot, file, module or name; a signature that does not fit; or a need that this machine lacks.
    """
    if slot not in SLOTS:
        raise PartError(f"no slot is called {slot!r}; the slots are {', '.join(SLOTS)}")
    lacking = [need for need in missing(name) if need not in lift]
    if lacking:
        plain = getattr(DECODER, slot)
        instead = f"; {slot}={plain} runs without" if plain != name and not missing(plain) else ""
        raise PartError(f"{slot}={name} needs {'; '.join(NEEDS[need] for need in lacking)}{instead}")
    module = _load(name)
    attribute = name.rpartition(":")[2]
    part = getattr(module, attribute, None)
    if part is None:
        own = [(key, value) for key, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        public = [key for key, value in own if callable(value)]
        has = ", ".join(public) or "no functions or classes"
        raise PartError(f"{slot}={name}: {_source(name)} has no {attribute!r}; it has {has}")
    _check(slot, name, part)
    return part


def missing(name: str) -> list[str]:
    """What the part needs that this machine lacks."""
    return sorted(_needs(_source(name)) - machine())


def origin(name: str) -> tuple[Path, frozenset[str]]:
    """The file that a part lives in, and what it needs of the machine."""
    path = _source(name)
    return path, _needs(path)


def why_not(stage: Stage, device: object = "auto") -> str | None:
    """Why this machine cannot run a stage on that device; None if it can."""
    for slot, name in stage.parts().items():
        lacking = missing(name)
        if not lacking and is_cpu(device) and "cuda" in _needs(_source(name)):
            return f"its {slot} ({name}) needs a GPU, and device={device!r} was asked for"
        if lacking:
            return f"its {slot} ({name}) needs {'; '.join(NEEDS[need] for need in lacking)}"
    return None


def ignored_slots(stage: Stage) -> frozenset[str]:
    """Slots whose parts the stage's executor never calls, since it has something else in their place."""
    return getattr(resolve("executor", stage.executor), "ignores", frozenset())


def is_cpu(device: object) -> bool:
    """Whether a device, as LLM takes it, is the CPU by name; "auto" is not."""
    return str(device).startswith("cpu")


def why_not_loaded(name: str) -> str | None:
    """Why the part's module cannot be imported; None if it can."""
    try:
        _load(name)
    except PartError as error:
        return str(error)
    return None


def _find(module: str):
    """Its import spec; None where there is no such module."""
    try:
        return importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None


def _source(name: str) -> Path:
    """The file that a part lives in, found without importing it. Modules built into Python have none: their path does not exist."""
    place, colon, attribute = name.rpartition(":") if isinstance(name, str) else ("", "", "")
    if not colon or not place or not attribute.isidentifier():
        raise PartError(f"{name!r} does not name a part; write module:Name or path/to/file.py:Name, as a string")
    if place.endswith(".py"):
        path = Path(place).expanduser().resolve()
        if not path.is_file():
            raise PartError(f"{name!r}: there is no file {path}")
        return path
    spec = _find(place)
    if spec is None or spec.origin is None:
        raise PartError(f"{name!r}: no module is called {place!r}; a file must be given with its ending, as in mine.py:{attribute}")
    return Path(spec.origin)


@functools.cache
def _needs_at(path: Path, modified: float) -> frozenset[str]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except SyntaxError as error:
        raise PartError(f"{path}, line {error.lineno}: {error.msg}") from error
    except ValueError as error:
        raise PartError(f"{path} is no Python file: {error}") from error
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        if any(isinstance(target, ast.Name) and target.id == "needs" for target in targets):
            try:
                declared = ast.literal_eval(node.value)
            except ValueError:
                declared = None
            if not isinstance(declared, set | list | tuple) or not set(declared) <= set(NEEDS):
                raise PartError(
                    f"{path}, line {node.lineno}: needs must be written out, as a set of {', '.join(map(repr, NEEDS))}; "
                    f"it is {ast.unparse(node.value)}"
                )
            return frozenset(declared)
    return frozenset()


def _needs(path: Path) -> frozenset[str]:
    return _needs_at(path, path.stat().st_mtime) if path.suffix == ".py" and path.is_file() else frozenset()


def _load(name: str):
    place = name.rpartition(":")[0]
    try:
        if not place.endswith(".py"):
            return importlib.import_module(place)
        path = _source(name)
        # Loaded afresh each time, so that an edited file counts; known to sys.modules, so that pickle and inspect find it.
        module_name = f"minfer_part_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        exec(compile(path.read_bytes(), path, "exec"), vars(module))  # not by its loader: that may find an older version cached
        return module
    except PartError:
        raise  # it says itself what it lacks
    except (Exception, SystemExit) as error:  # it is somebody's code, and may do anything
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise PartError(f"{name}: it cannot be imported: {reason}") from error


def _check(slot: str, name: str, part) -> None:
    """Refuse a part that its callers could not call."""
    protocol = SLOTS[slot]
    is_function = "__call__" in vars(protocol)
    if is_function:
        if inspect.isclass(part) or not callable(part):
            raise PartError(f"{slot}={name} must be a function {_signature(protocol.__call__)}; it is a {type(part).__name__}")
        _check_signature(slot, name, protocol.__call__, part)
        return
    if not inspect.isclass(part):
        raise PartError(f"{slot}={name} must be a class with {', '.join(_methods(protocol))}; it is a {type(part).__name__}")
    for method, expected in _methods(protocol).items():
        actual = getattr(part, method, None)
        if actual in (None, object.__init__):
            raise PartError(f"{slot}={name} lacks the method {method}{_signature(expected)}")
        bound = inspect.isfunction(inspect.getattr_static(part, method))
        _check_signature(slot, f"{name}.{method}", expected, actual, bound)


def _methods(protocol: type) -> dict:
    return {
        key: getattr(protocol, key)
        for key, value in vars(protocol).items()
        if isinstance(value, FunctionType | staticmethod) and (key == "__init__" or not key.startswith("_"))
    }


def _signature(function) -> str:
    """Its parameters as a reader would write them: without self and without types."""
    parameters = [p.replace(annotation=p.empty) for p in inspect.signature(function).parameters.values() if p.name != "self"]
    return str(inspect.Signature(parameters))


def _check_signature(slot: str, name: str, expected, actual, bound: int = 0) -> None:
    """`actual` must take the arguments of `expected` by position, with and without the optional ones, and require no others.

    bound: how many arguments come before them (a method's self).
    """
    try:
        signature = inspect.signature(actual)
    except ValueError:
        return  # a builtin without a signature: the first call will tell
    wanted = [p for p in inspect.signature(expected).parameters.values() if p.name != "self"]
    for count in {len(wanted), sum(p.default is p.empty for p in wanted)}:
        try:
            signature.bind(*[None] * (bound + count))
        except TypeError:
            raise PartError(f"{slot}={name} must take {_signature(expected)}; it takes {_signature(actual)}") from None
