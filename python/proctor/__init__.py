"""Talks to the proctor daemon of this host, and reads what proctor has recorded.

    import proctor

    with proctor.Client() as client:
        print(client.report("nightly")["peak_rss_mb"])
        for event in client.subscribe("job.*"):
            print(event.topic, event.data["job_id"])

    async with proctor.AsyncClient() as client: ...  # the same, awaited

    with proctor.Reader() as reader:  # as dataclasses, with a daemon and without
        peak = max(sample.rss_mb or 0 for sample in reader.samples("nightly"))

    proctor.ranks.analyze(records).finding  # which rank was first

    with proctor.phase("load"):  # never fails, and waits for nothing
        ...

    @proctor.phase("train")
    def train(): ...

Everything that is raised is below Error. Only the standard library is needed. docs/python.md is the
guide.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._address import socket_paths
from ._client import Client, Subscription
from ._errors import (
    BadAnswer,
    BadData,
    BadInput,
    Busy,
    ConnectionLost,
    DaemonFailed,
    Ending,
    Error,
    Exists,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    NoDaemon,
    NoProgram,
    NotAllowed,
    NotFound,
    NotSupported,
    NotTrusted,
    ProgramFailed,
    RpcError,
    TimedOut,
    TimedOutInside,
    TooLarge,
    TooManyClients,
    WrongProcess,
)
from ._phase import phase
from ._session import Event

if TYPE_CHECKING:
    from . import models, ranks
    from ._aio import AsyncClient, AsyncSubscription
    from ._program import Program
    from ._reader import AsyncReader, Reader

__version__ = "0.1.0"  # as in meson.build

# Imported when they are used: asyncio and dataclasses take as long to load as all of the rest, and
# programs that mark phases need neither.
_LATE = {
    "AsyncClient": "_aio",
    "AsyncReader": "_reader",
    "AsyncSubscription": "_aio",
    "Program": "_program",
    "Reader": "_reader",
    "models": "models",
    "ranks": "ranks",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module("." + _LATE[name], __name__)
    value = module if name == _LATE[name] else getattr(module, name)
    globals()[name] = value
    return value


__all__ = [
    "AsyncClient",
    "AsyncReader",
    "AsyncSubscription",
    "BadAnswer",
    "BadData",
    "BadInput",
    "Busy",
    "Client",
    "ConnectionLost",
    "DaemonFailed",
    "Ending",
    "Error",
    "Event",
    "Exists",
    "InvalidParams",
    "InvalidRequest",
    "MethodNotFound",
    "NoDaemon",
    "NoProgram",
    "NotAllowed",
    "NotFound",
    "NotSupported",
    "NotTrusted",
    "Program",
    "ProgramFailed",
    "Reader",
    "RpcError",
    "Subscription",
    "TimedOut",
    "TimedOutInside",
    "TooLarge",
    "TooManyClients",
    "WrongProcess",
    "models",
    "phase",
    "ranks",
    "socket_paths",
]
