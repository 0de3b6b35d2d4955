"""Walls around a submission's process, put up by the process itself before it reads the submission.

Linux, where the system allows: its own network (none), processes, and file system, in which only the interpreter, its packages and an
empty home are visible, all but the home read-only; then another user without rights. Everywhere: limits on time, memory, files and
processes. `guard.py` adds what can be refused inside Python. What could not be put up is missing in the list that `enter` returns.

Imports the standard library only: namespaces must be entered before threads exist. From: `worker.py`. To: the grader's report.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
from pathlib import Path

NEW = {"files": 0x00020000, "ipc": 0x08000000, "network": 0x40000000, "processes": 0x20000000}  # CLONE_NEWNS, NEWIPC, NEWNET, NEWPID
NEW_USER = 0x10000000
READ_ONLY, NO_SUID, NO_DEV, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
NO_NEW_PRIVILEGES, DIE_WITH_PARENT, DROP_BOUND = 38, 1, 24  # prctl
SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/localtime", "/sys/devices/system/cpu")
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
USER = 61234  # nobody's number
FILE_BYTES, OPEN_FILES, PROCESSES = 4 << 20, 64, 32


class Refused(Exception):
    """The system does not allow it."""


def enter(home: Path, visible: list[str], hidden: list[str], memory: int, seconds: int) -> list[str]:
    """Put up what can be put up → which walls stand.

    Args:
        home: the folder to work in; the only place that can be written.
        visible: folders that must stay readable.
        hidden: folders in them that must not be.
        memory: bytes of address space; seconds: of processor time.
    """
    walls = []
    if sys.platform == "linux":
        is_root = os.geteuid() == 0
        walls += _unshare(is_root)
        if "processes" in walls:
            _become_first()
        if "files" in walls:
            try:
                _change_root(home, visible, hidden)
            except (Refused, OSError):
                walls.remove("files")
        if is_root and _drop_user(home, visible, "files" in walls):
            walls.append("user")
        _drop_rights()
    os.chdir(home)
    return walls + _limit(memory, seconds, "user" in walls)


def _libc():
    return ctypes.CDLL(None, use_errno=True)


def _unshare(is_root: bool) -> list[str]:
    """Leave the namespaces that the system lets us leave. Others than root need a user namespace, all in one call."""
    libc, uid, gid = _libc(), os.geteuid(), os.getegid()
    if is_root:
        return [name for name, flag in NEW.items() if libc.unshare(flag) == 0]
    if libc.unshare(NEW_USER | sum(NEW.values())) != 0:
        return []
    with contextlib.suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    return list(NEW)


def _become_first() -> None:
    """Go on as the first process of the new namespace: when it ends, so does every other one there. The old one waits for it."""
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -code)
        os._exit(code)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    as_bytes = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    if _libc().mount(*as_bytes, ctypes.c_ulong(flags), None if options is None else options.encode()) != 0:
        raise Refused(f"mount {target}: {os.strerror(ctypes.get_errno())}")


def _change_root(home: Path, visible: list[str], hidden: list[str]) -> None:
    """A new root in memory, with the paths that are needed at their old places, read-only, and an empty home."""
    root = str(home.parent / "root")
    os.makedirs(root, exist_ok=True)
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("tmpfs", root, "tmpfs", NO_SUID | NO_DEV, "size=64m,mode=755")
    for path in dict.fromkeys((*SYSTEM, *DEVICES, *visible)):
        if os.path.lexists(path) and not os.path.lexists(root + path):
            _bind(path, root + path)
    for path in hidden:
        if os.path.isdir(root + path):
            _mount("tmpfs", root + path, "tmpfs", READ_ONLY | NO_SUID | NO_DEV, "size=4k,mode=755")
    for path in (str(home), "/proc", "/tmp"):
        os.makedirs(root + path, exist_ok=True)
    os.chmod(root + "/tmp", 0o1777)
    for entry in home.iterdir():
        Path(root + str(entry)).write_bytes(entry.read_bytes())
    with contextlib.suppress(Refused):  # some containers refuse it; nothing needs it
        _mount("proc", root + "/proc", "proc", NO_SUID | NO_DEV)
    os.chroot(root)
    os.chdir("/")


def _bind(path: str, target: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()
    _mount(path, target, None, BIND | RECURSIVE)
    no_dev = 0 if path in DEVICES else NO_DEV
    _mount(None, target, None, REMOUNT | BIND | READ_ONLY | NO_SUID | no_dev)


def _drop_user(home: Path, visible: list[str], changed_root: bool) -> bool:
    """From root to a user without rights, unless that user could not read the interpreter."""
    if not changed_root and not all(_passable(Path(path)) for path in (*visible, str(home))):
        return False
    for path in (home, *home.iterdir()):
        os.chown(path, USER, USER)
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    return True


def _passable(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in path.resolve().parents)


def _drop_rights() -> None:
    """No way back: no capabilities, no programs that grant them; and an end when the parent ends."""
    libc = _libc()
    libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for capability in range(64):
        libc.prctl(DROP_BOUND, capability, 0, 0, 0)
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capset(header, nothing)
    libc.prctl(DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)


def _limit(memory: int, seconds: int, own_user: bool) -> list[str]:
    limits = {"RLIMIT_CPU": seconds, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_NOFILE": OPEN_FILES, "RLIMIT_CORE": 0, "RLIMIT_AS": memory}
    if own_user:  # for a user with other processes the number would have to depend on them
        limits["RLIMIT_NPROC"] = PROCESSES
    done = []
    for name, value in limits.items():
        with contextlib.suppress(ValueError, OSError, AttributeError):
            resource.setrlimit(getattr(resource, name), (value, value))
            done.append(name)
    names = {"RLIMIT_CPU": "time", "RLIMIT_AS": "memory", "RLIMIT_NPROC": "number of processes", "RLIMIT_FSIZE": "file size"}
    return [names[name] for name in done if name in names]
