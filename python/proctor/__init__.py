"""Talks to the proctor daemon of this host.

    import proctor

    with proctor.Client() as client:
        print(client.report("nightly")["peak_rss_mb"])
        for event in client.subscribe("job.*"):
            print(event.topic, event.data["job_id"])

    with proctor.phase("load"):  # never fails, and waits for nothing
        ...

    @proctor.phase("train")
    def train(): ...

Client has the calls, and raises what is below Error. phase() marks what a program is
doing; without a daemon it does nothing. Only the standard library is needed.
"""

from ._address import socket_paths
from ._client import Client, Event, Subscription
from ._errors import (
    BadAnswer,
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
    NotAllowed,
    NotFound,
    NotSupported,
    NotTrusted,
    RpcError,
    TimedOut,
    TimedOutInside,
    TooLarge,
    TooManyClients,
    WrongProcess,
)
from ._phase import phase

__version__ = "0.1.0"  # as in meson.build

__all__ = [
    "BadAnswer",
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
    "NotAllowed",
    "NotFound",
    "NotSupported",
    "NotTrusted",
    "RpcError",
    "Subscription",
    "TimedOut",
    "TimedOutInside",
    "TooLarge",
    "TooManyClients",
    "WrongProcess",
    "phase",
    "socket_paths",
]
