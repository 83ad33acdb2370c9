"""What can go wrong: on the way to the daemon, and what the daemon answers instead."""

from __future__ import annotations

from typing import Any, Optional, Tuple


class Error(Exception):
    """All errors of this module."""


# ---- nothing was answered ----


class NoDaemon(Error):
    """Nobody listens where daemons do."""


class NotTrusted(Error):
    """Whoever listens is neither root nor this user."""


class ConnectionLost(Error, ConnectionError):
    """The daemon or the way to it is gone. A new Client may find it again."""


class TimedOut(Error, TimeoutError):
    """No answer in time. The connection can still be used."""


class BadAnswer(Error, ValueError):
    """What came is no answer, or too long for one. The connection is closed."""


class WrongProcess(Error):
    """The connection is that of a process which this one was forked from."""


class BadData(Error, ValueError):
    """JSON whose shape is not that of the model; the message names the place."""


# ---- the proctor program ----


class NoProgram(Error):
    """There is no proctor program to run."""


class ProgramFailed(Error):
    """The program printed why, and ended with this status (below 0: a signal)."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (str(self), self.status)


class BadInput(ProgramFailed, ValueError):
    """The program refuses its input, or finds invalid records in it."""


# ---- the daemon said no ----


class RpcError(Error):
    """An error of the daemon: code (JSON-RPC's), message, and data, which is often None."""

    def __init__(self, code: Optional[int], message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.code, self.message, self.data)


class InvalidRequest(RpcError):
    """It was no request, or not even JSON."""


class MethodNotFound(RpcError):
    """This daemon has no such method."""


class InvalidParams(RpcError, ValueError):
    """The params are not what the method takes."""


class DaemonFailed(RpcError):
    """Something failed inside the daemon."""


class NotAllowed(RpcError):
    """This user may not do that."""


class NotFound(RpcError, LookupError):
    """There is no such job or process, or it is somebody else's."""


class Busy(RpcError):
    """Not now; later it may work."""


class TooLarge(RpcError):
    """The request or its answer is too large."""


class TooManyClients(RpcError):
    """The daemon has no place for another client."""


class TimedOutInside(RpcError, TimedOut):
    """That took the daemon too long."""


class Exists(RpcError):
    """That is already there."""


class NotSupported(RpcError):
    """That cannot be done on this machine."""


class Ending(RpcError):
    """The daemon is ending."""


# JSON-RPC's code, and the class of the error.
CODES = {
    -32700: InvalidRequest,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: DaemonFailed,
    -32000: NotAllowed,
    -32001: NotFound,
    -32002: Busy,
    -32003: TooLarge,
    -32004: TooManyClients,
    -32005: TimedOutInside,
    -32006: Exists,
    -32007: NotSupported,
    -32008: Ending,
}


def error_of(answer: Any) -> RpcError:
    """The exception for the "error" of an answer, whatever that is."""
    if not isinstance(answer, dict):
        return RpcError(None, "the daemon said that something failed")
    code, message = answer.get("code"), answer.get("message")
    kind = CODES.get(code, RpcError) if isinstance(code, int) else RpcError
    if not isinstance(message, str):
        message = "the daemon said that something failed"
    return kind(code, message, answer.get("data"))
