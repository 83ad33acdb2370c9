"""Where daemons listen, and a connection to one that can be trusted."""

from __future__ import annotations

import errno
import os
import socket
import stat
import struct
import time
from typing import Generator, List, Optional, Union

from ._errors import Error, NoDaemon, NotTrusted, TimedOut

RETRY_SECONDS = 0.01
AnyPath = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
UCRED = struct.Struct("iII")  # pid, uid, gid
Connecting = Generator[float, None, socket.socket]


def _below(variable: str, fallback: str) -> Optional[str]:
    """$variable, or what is below HOME; None: neither is set. XDG says to ignore relative paths."""
    value, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if value.startswith("/"):
        return value
    return os.path.join(home, fallback) if home.startswith("/") else None


def _is_run_user(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _runtime_folder() -> Optional[str]:
    """This user's. Without XDG_RUNTIME_DIR (cron, su) what a login session has made may be there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    run_user = f"/run/user/{os.geteuid()}"
    if runtime.startswith("/"):
        return runtime
    return run_user if _is_run_user(run_user) else _below("XDG_STATE_HOME", ".local/state")


def socket_paths() -> List[str]:
    """Where to look for a daemon, first things first: as the proctor program does."""
    paths = []
    if os.environ.get("PROCTOR_HOME"):
        paths.append(os.path.join(os.environ["PROCTOR_HOME"], "proctor.sock"))
    folder = _runtime_folder()
    if os.geteuid() != 0 and folder:
        paths.append(os.path.join(folder, "proctor", "proctor.sock"))
    return paths + ["/run/proctor/proctor.sock"]


def _check_peer(connection: socket.socket, path: str) -> None:
    _, uid, _ = UCRED.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
    )
    if uid not in (0, os.geteuid()):
        raise NotTrusted(f"on {path} listens uid {uid}, who is neither root nor this user")


def connect_once(path: str) -> socket.socket:
    """A socket that does not block, connected to a daemon that is root's or ours. Never waits."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
        _check_peer(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect_patiently(path: str, deadline: Optional[float]) -> Connecting:
    while True:
        try:
            return connect_once(path)
        except BlockingIOError:  # too many others wait; the kernel does not say when there is room
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"the daemon on {path} did not answer in time") from None
            yield RETRY_SECONDS


def _is_absent(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in (
        errno.ENOENT,
        errno.ECONNREFUSED,
        errno.ENOTDIR,
    )


def connecting(path: Optional[AnyPath], deadline: Optional[float]) -> Connecting:
    """To path, or where that is None to the first daemon there is. Each value that it yields is a
    time to sleep, in seconds; it returns the socket.

    Where nothing is, the next place is looked at. What else keeps us from one of them is told
    if no other has a daemon.
    """
    paths = socket_paths() if path is None else [os.fsdecode(path)]
    first: Optional[Exception] = None
    for candidate in paths:
        try:
            return (yield from _connect_patiently(candidate, deadline))
        except (Error, OSError, ValueError) as error:  # ValueError: a NUL in it
            if first is None and not _is_absent(error):
                first = error
    if isinstance(first, Error):
        raise first
    if first is not None:
        raise Error(f"cannot connect to the daemon: {first}") from first
    raise NoDaemon(f"no daemon is running (nobody listens on {', nor on '.join(paths)})")
