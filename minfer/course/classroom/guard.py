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
MOST_WRITES = 64  # files opened for writing, folders made


def install(home: str, hidden: list[str]) -> None:
    """From now on: no network, no other processes, nothing read in `hidden`, nothing written outside `home`."""
    home, hidden = os.path.realpath(home), [os.path.realpath(path) for path in hidden]
    writes = 0

    def inside(path: str, folder: str) -> bool:
        return path == folder or path.startswith(folder + os.sep)

    def hook(event: str, args: tuple) -> None:
        nonlocal writes
        what = REFUSED.get(event) or REFUSED.get(event.partition(".")[0])
        if what is not None:
            raise PermissionError(f"a submission has no access to {what} ({event})")
        if event in ("open", "os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.symlink", "os.link", "os.chmod", "os.listdir"):
            if not isinstance(args[0], str | bytes | os.PathLike):
                return
            path = os.path.realpath(os.fsdecode(args[0]))
            reads = event == "os.listdir" or (event == "open" and not _writes(args))
            if any(inside(path, folder) for folder in hidden):
                raise PermissionError(f"a submission has no access to {path}")
            if not reads and path != os.devnull:
                writes += 1
                if not inside(path, home) or writes > MOST_WRITES:
                    raise PermissionError(f"a submission writes at most {MOST_WRITES} files, and only in its own folder; not {path}")

    sys.addaudithook(hook)


def _writes(args: tuple) -> bool:
    """Of the event "open": (path, mode, flags)."""
    _, mode, flags = args
    return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) if isinstance(flags, int) and flags else "r" not in str(mode or "r")
