"""What a submission may not do inside Python: an audit hook, which cannot be taken away again once it is there.

It is the second wall, and on systems without namespaces the only one against network, other processes and files. Code that is no
Python gets past it: the walls of `jail.py` are for that.

From: `worker.py` installs it just before the submission is loaded. To: what is refused raises PermissionError in the submission.
"""

from __future__ import annotations

import os
import sys

REFUSED = {
    "socket": "the network",
    "subprocess": "other programs",
    "os.system": "other programs",
    "os.exec": "other programs",
    "os.posix_spawn": "other programs",
    "os.spawn": "other programs",
    "os.fork": "other processes",
    "os.forkpty": "other processes",
    "os.kill": "signals",
    "os.killpg": "signals",
    "ctypes.dlopen": "foreign libraries",
    "gc.get_objects": "the objects of the grader",
    "gc.get_referrers": "the objects of the grader",
    "gc.get_referents": "the objects of the grader",
}
MOST_WRITES = 64  # files opened for writing, made, moved or taken away
# Events that change files: which arguments are their paths, and which are folders as file descriptors that these start from.
CHANGES = {
    "os.remove": ((0,), (1,)),
    "os.rmdir": ((0,), (1,)),
    "os.mkdir": ((0,), (2,)),
    "os.rename": ((0, 1), (2, 3)),
    "os.link": ((0, 1), (2, 3)),
    "os.symlink": ((1,), (2,)),
    "os.chmod": ((0,), (2,)),
    "os.chown": ((0,), (3,)),
    "os.utime": ((0,), (3,)),
    "os.truncate": ((0,), ()),
    "os.chdir": ((0,), ()),
}


def install(home: str, hidden: list[str]) -> None:
    """From now on: no network, no other processes, nothing read in `hidden`, nothing written outside `home`."""
    home, hidden = os.path.realpath(home), [os.path.realpath(path) for path in hidden]
    writes = 0

    def inside(path: str, folder: str) -> bool:
        return path == folder or path.startswith(folder + os.sep)

    def real(path: object) -> str | None:
        return os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else None

    def change(path: str | None) -> None:
        nonlocal writes
        if path is None or path == os.devnull:
            return
        writes += 1
        if not inside(path, home) or writes > MOST_WRITES:
            raise PermissionError(f"a submission changes at most {MOST_WRITES} files, and only in its own folder; not {path}")

    def hook(event: str, args: tuple) -> None:
        what = REFUSED.get(event) or REFUSED.get(event.partition(".")[0])
        if what is not None:
            raise PermissionError(f"a submission has no access to {what} ({event})")
        if event in CHANGES:
            paths, folders = CHANGES[event]
            if any(isinstance(args[i], int) and args[i] >= 0 for i in folders if i < len(args)):
                raise PermissionError(f"a submission names files by their paths, not from an open folder ({event})")
            for i in paths:
                change(real(args[i]))
        elif event in ("open", "os.listdir", "os.scandir"):
            path = real(args[0])
            if path is None:
                return
            if any(inside(path, folder) for folder in hidden):
                raise PermissionError(f"a submission has no access to {path}")
            by_descriptor = event == "open" and args[1] is None  # os.open: what comes of it may be a folder
            if event == "open" and (_writes(args) or (by_descriptor and os.path.isdir(path) and not inside(path, home))):
                change(path)

    sys.addaudithook(hook)


def _writes(args: tuple) -> bool:
    """Of the event "open": (path, mode, flags)."""
    _, mode, flags = args
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) and flags else "r" not in str(mode or "r")
