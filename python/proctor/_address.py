"""Where daemons listen, and a connection to one that can be trusted."""

import errno
import os
import socket
import stat
import struct
import time

from ._errors import Error, NoDaemon, NotTrusted, TimedOut

RETRY_SECONDS = 0.01
UCRED = struct.Struct("iII")  # pid, uid, gid


def _below(variable, fallback):
    """$variable, or what is below HOME; None: neither is set. XDG says to ignore relative paths."""
    value, home = os.environ.get(variable, ""), os.environ.get("HOME", "")
    if value.startswith("/"):
        return value
    return os.path.join(home, fallback) if home.startswith("/") else None


def _is_run_user(path):
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _runtime_folder():
    """This user's. Without XDG_RUNTIME_DIR (cron, su) what a login session has made may be there."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    run_user = f"/run/user/{os.geteuid()}"
    if runtime.startswith("/"):
        return runtime
    return run_user if _is_run_user(run_user) else _below("XDG_STATE_HOME", ".local/state")


def socket_paths():
    """Where to look for a daemon, first things first: as the proctor program does."""
    paths = []
    if os.environ.get("PROCTOR_HOME"):
        paths.append(os.path.join(os.environ["PROCTOR_HOME"], "proctor.sock"))
    if os.geteuid() != 0 and _runtime_folder():
        paths.append(os.path.join(_runtime_folder(), "proctor", "proctor.sock"))
    return paths + ["/run/proctor/proctor.sock"]


def _check_peer(connection, path):
    _, uid, _ = UCRED.unpack(
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
    )
    if uid not in (0, os.geteuid()):
        raise NotTrusted(f"on {path} listens uid {uid}, who is neither root nor this user")


def connect_once(path):
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


def _connect_patiently(path, deadline):
    while True:
        try:
            return connect_once(path)
        except BlockingIOError:  # too many others wait; the kernel does not say when there is room
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(f"the daemon on {path} did not answer in time") from None
            time.sleep(RETRY_SECONDS)


def _is_absent(error):
    return isinstance(error, OSError) and error.errno in (
        errno.ENOENT,
        errno.ECONNREFUSED,
        errno.ENOTDIR,
    )


def connect(path, deadline):
    """To path, or where that is None to the first daemon there is.

    Where nothing is, the next place is looked at. What else keeps us from one of them is told
    if no other has a daemon.
    """
    paths = socket_paths() if path is None else [os.fsdecode(path)]
    first = None
    for candidate in paths:
        try:
            return _connect_patiently(candidate, deadline)
        except (Error, OSError, ValueError) as error:  # ValueError: a NUL in it
            if first is None and not _is_absent(error):
                first = error
    if isinstance(first, Error):
        raise first
    if first is not None:
        raise Error(f"cannot connect to the daemon: {first}") from first
    raise NoDaemon(f"no daemon is running (nobody listens on {', nor on '.join(paths)})")
