"""phase(): a program marks what it is doing, at no risk.

A marker is one line that is sent and not answered, over a connection that is kept. One that the
daemon has no room for waits here, and goes before the next. When too many wait a phase is not
begun, which is counted and told; one that was begun is always ended.
"""

from __future__ import annotations

import atexit
import collections
import errno
import fcntl
import functools
import json
import os
import select
import socket
import termios
import threading
import time
from socket import MSG_NOSIGNAL, MSG_PEEK, SO_ERROR, SOL_SOCKET
from typing import Any, Callable, Deque, Dict, List, Literal, Optional, Tuple, TypeVar, Union

from ._address import connect_once, socket_paths
from ._errors import Error

RETRY_SECONDS = 10.0  # until a daemon is looked for again
LOCK_SECONDS = 0.05  # another thread holds it for microseconds
MAX_WAITING = 4096  # the kernel keeps some 200 markers besides
SETTLE_MS = 500  # without a sign of the daemon, at the end of the program…
SETTLE_SECONDS = 5.0  # …and with some
MAX_NAME_CHARS = 256
BOX_VARIABLE = "PROCTOR_PHASES"  # of the runner
F = TypeVar("F", bound=Callable[..., Any])
QUESTION = b'{"jsonrpc":"2.0","method":"daemon.status","id":1}\n'  # behind all markers


class _Box:
    """Where the job's runner looks for markers if there is no daemon: a file."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def fileno(self) -> int:
        return self._fd

    def send(self, line: bytes, _flags: int) -> int:
        """Of what was meant for a daemon only markers, and with whose they are."""
        if line is QUESTION:
            return len(line)
        if b'"pid": ' in line:
            return os.write(self._fd, line)
        request = json.loads(line)
        request["params"]["pid"] = os.getpid()
        os.write(self._fd, json.dumps(request).encode("ascii") + b"\n")
        return len(line)

    def close(self) -> None:
        os.close(self._fd)

    def detach(self) -> None:
        """The descriptor is somebody else's by now."""


class _Sender:
    """Sends markers for all threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.pid = os.getpid()
        self._connection: Union[socket.socket, _Box, None] = None
        self._identity: Optional[Tuple[int, int]] = None  # of the socket behind its descriptor
        self._retry_at = 0.0  # on the monotonic clock
        self._waiting: Deque[bytes] = collections.deque()  # lines
        self._lost = 0  # beginnings that had no room, and were not told of
        self._unread = 0  # lines that were sent, and that the daemon may not have read

    def send(self, what: str, name: str) -> bool:
        """Whether it is on its way. Never raises."""
        try:
            if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
                return False
            if not self._lock.acquire(timeout=LOCK_SECONDS):
                return self._put_aside(what, name)
            try:
                return self._take(what, name)
            finally:
                self._lock.release()
        except Exception:  # the program goes on, whatever this is
            return False

    def _put_aside(self, what: str, name: str) -> bool:
        """Another thread holds the lock, or this one does and is in a handler of a signal."""
        if what == "enter":
            self._lost += 1
            return False
        self._waiting.append(self._render(what, name))
        return True

    def _take(self, what: str, name: str) -> bool:
        self._flush()
        if what == "enter" and self._connection is None:
            return False
        if what == "enter" and len(self._waiting) >= MAX_WAITING:
            self._lost += 1
            return False
        self._waiting.append(self._render(what, name))
        self._flush()
        return True

    def _render(self, what: str, name: str) -> bytes:
        return self._render_params({what: name, "at": time.time()})

    def _render_params(self, params: Dict[str, Any]) -> bytes:
        if self._lost:
            params["lost"], self._lost = self._lost, 0
        if isinstance(self._connection, _Box):  # a daemon sees it by itself
            params["pid"] = self.pid
        request = {"jsonrpc": "2.0", "method": "phase", "params": params}
        return json.dumps(request).encode("ascii") + b"\n"

    def settle(self) -> None:
        """The daemon finds out whose a marker is by asking the kernel about this process, so what
        was sent last is lost if the process is gone by then: waits until all of it was read, for as
        long as the daemon goes on reading. Of one that does not, the runner is told."""
        try:
            if self._connection is None or not self._is_still_ours():
                return
            if self._lost:
                self._waiting.appendleft(self._render_params({}))
            if not self._await_reader():
                self._leave_in_box()
        except Exception:
            pass

    def _await_reader(self) -> bool:
        """Whether all that was sent has been read."""
        end = time.monotonic() + SETTLE_SECONDS
        if not self._drain(end):
            return False
        if isinstance(self._connection, _Box):
            return True
        self._waiting.append(QUESTION)
        return self._drain(end) and self._is_answered()

    def _is_answered(self) -> bool:
        """A daemon that was killed is not one that has read all."""
        connection = self._connection
        if self._lost or not isinstance(connection, socket.socket):
            return False
        if not self._poll(select.POLLIN):
            return False
        try:
            connection.recv(1, MSG_PEEK)
        except OSError:
            return False
        return True

    def _drain(self, end: float) -> bool:
        """Whether nothing waits here any more."""
        while self._flush() and self._waiting and time.monotonic() < end:
            if not self._poll(select.POLLOUT):
                break
        return self._connection is not None and not self._waiting

    def _leave_in_box(self) -> None:
        """What was not sent is left with the runner, and how many the daemon has not read: it may
        still do so, and find nobody whose they are."""
        unread, self._lost = self._unread + self._lost, 0
        box = _Box(os.environ[BOX_VARIABLE])
        for line in self._waiting:
            box.send(line, 0)
        if unread:
            request = {"jsonrpc": "2.0", "method": "phase", "params": {"lost": unread}}
            box.send(json.dumps(request).encode("ascii") + b"\n", 0)
        box.close()

    def _poll(self, events: int) -> bool:
        if self._connection is None:
            return False
        poll = select.poll()
        poll.register(self._connection, events)
        return bool(poll.poll(SETTLE_MS))

    def _note_read(self) -> None:
        """The kernel knows whether something is left unread, and not how many lines."""
        if not isinstance(self._connection, socket.socket):
            return
        left = fcntl.ioctl(self._connection.fileno(), termios.TIOCOUTQ, bytes(4))
        if left == bytes(4):
            self._unread = 0

    def _flush(self) -> bool:
        """Sends what waits, as far as there is room. False: there is no daemon, and only ends of
        phases that one has heard of are waiting for another."""
        had_connection = self._connection is not None
        try:
            connection = self._connect()
            if connection is not None:
                self._send_waiting(connection)
                return True
        except OSError:
            self.forget()
            if had_connection:  # the daemon may have been started anew
                return self._flush()
            self._retry_at = time.monotonic() + RETRY_SECONDS
        return False

    def _send_waiting(self, connection: Union[socket.socket, _Box]) -> None:
        while self._waiting:
            unread = self._unread
            self._note_read()
            try:
                sent = connection.send(self._waiting[0], MSG_NOSIGNAL)
            except BlockingIOError:
                return
            except OSError:  # nothing is left unread, for nobody is left
                self._unread = unread
                raise
            if sent < len(self._waiting[0]):
                raise OSError("half a line: nothing can follow it")
            line = self._waiting.popleft()
            self._unread += line is not QUESTION and not isinstance(self._connection, _Box)

    def _connect(self) -> Union[socket.socket, _Box, None]:
        if self._connection is not None and not self._is_still_ours():
            self.forget()
        if self._connection is None:
            if time.monotonic() < self._retry_at:
                return None
            self._connection = self._find()
            self._identity = self._identify(self._connection)
        return self._connection

    @staticmethod
    def _find() -> Union[socket.socket, _Box]:
        for path in socket_paths():
            try:
                return connect_once(path)
            except (Error, OSError, ValueError):
                continue
        if BOX_VARIABLE not in os.environ:
            raise OSError("no daemon is running")
        return _Box(os.environ[BOX_VARIABLE])

    @staticmethod
    def _identify(connection: Union[socket.socket, _Box]) -> Tuple[int, int]:
        status = os.fstat(connection.fileno())
        return status.st_dev, status.st_ino

    def _is_still_ours(self) -> bool:
        """A program may close all descriptors, and then one of its own has the number."""
        try:
            return (
                self._connection is not None
                and self._identify(self._connection) == self._identity
            )
        except OSError:
            return False

    def forget(self) -> None:
        """Closes this process's copy of the socket."""
        if self._connection is None:
            return
        self._lost += self._count_dropped()
        self._unread = 0
        if self._is_still_ours():
            self._connection.close()
        else:
            self._connection.detach()
        self._connection = None

    def _count_dropped(self) -> int:
        """How many went with a daemon that had not read them: of one that had read all the kernel
        tells no error. Telling it once is all that it does, so a forked child does not ask."""
        connection = self._connection
        if not self._unread or self.pid != os.getpid() or not self._is_still_ours():
            return 0
        if not isinstance(connection, socket.socket):
            return 0
        error = connection.getsockopt(SOL_SOCKET, SO_ERROR)
        return self._unread if error == errno.ECONNRESET else 0


_last_sender = _Sender()


def _sender() -> _Sender:
    """A forked child has its parent's connection, and perhaps a lock that nobody releases: so it
    gets a sender of its own."""
    global _last_sender
    if _last_sender.pid != os.getpid():
        _last_sender.forget()
        _last_sender = _Sender()
    return _last_sender


os.register_at_fork(after_in_child=_sender)
atexit.register(lambda: _sender().settle())


class phase:
    """Marks a phase of the program's work: a context manager, and a decorator.

    with phase("load"): ...

    It never raises, swallows no exception of the program's, and waits for nothing but, when the
    program ends, for a daemon that still reads: not for one that does nothing for half a second;
    what that may have missed is counted in the report. The phase of a coroutine or generator
    function lasts as long as its body runs; an asynchronous generator function is left as it is.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._sent_by: List[Optional[_Sender]] = []  # it may be entered again inside itself

    def __enter__(self) -> phase:
        sender = _sender()
        self._sent_by.append(sender if sender.send("enter", self.name) else None)
        return self

    def __exit__(self, *_: Any) -> Literal[False]:
        # Of a child that was forked inside the phase it is not the phase.
        if self._sent_by and self._sent_by.pop() is _sender():
            _sender().send("exit", self.name)
        return False

    def __call__(self, function: F) -> F:
        import inspect  # large, and for decorators only

        wrapper: Any
        if inspect.isasyncgenfunction(function):
            return function
        if inspect.iscoroutinefunction(function):

            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                with phase(self.name):
                    return await function(*args, **kwargs)

        elif inspect.isgeneratorfunction(function):

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with phase(self.name):
                    return (yield from function(*args, **kwargs))

        else:

            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with phase(self.name):
                    return function(*args, **kwargs)

        wrapped: F = functools.wraps(function)(wrapper)
        return wrapped
