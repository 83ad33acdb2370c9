"""The client for programs that wait: one thread, one call at a time."""

from __future__ import annotations

import itertools
import os
import select
import socket
import time
from socket import MSG_NOSIGNAL, MSG_PEEK
from types import TracebackType
from typing import Any, Iterator, List, Optional, Type

from ._address import AnyPath, connecting
from ._errors import BadAnswer, ConnectionLost, NoDaemon, TimedOut, WrongProcess
from ._methods import Json, Methods
from ._session import MAX_QUEUED, RECONNECTED, Answer, Event, Queue, Session
from ._wire import CHUNK_BYTES, MAX_LINE_BYTES, Lines, Message

DEFAULT_TIMEOUT = 10.0
MAX_POLL_MS = 10**9
MAX_STRAY = 1000
FIRST_RETRY_SECONDS = 0.05  # doubles with each try to connect again
MAX_RETRY_SECONDS = 5.0

USUAL: Any = object()  # the timeout of the client


def deadline_of(timeout: Optional[float]) -> Optional[float]:
    return None if timeout is None else time.monotonic() + timeout


def _is_over(deadline: Optional[float]) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def _connect(path: Optional[AnyPath], deadline: Optional[float]) -> socket.socket:
    steps = connecting(path, deadline)
    while True:
        try:
            time.sleep(next(steps))
        except StopIteration as end:
            connection: socket.socket = end.value
            return connection


class Wire:
    """A connected socket that does not block. Each wait has a deadline on the monotonic clock;
    None: for ever."""

    def __init__(self, connection: socket.socket, max_line_bytes: int) -> None:
        self._socket = connection
        self._lines = Lines(max_line_bytes)

    def close(self) -> None:
        """Closes this process's copy of the socket, and does not shut it down for others."""
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_open(self) -> bool:
        """As far as that is known by now."""
        if self.fileno() < 0:
            return False
        try:
            return self._socket.recv(1, MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _wait(self, for_writing: bool, deadline: Optional[float]) -> None:
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimedOut("the daemon did not answer in time")
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT if for_writing else select.POLLIN)
        poll.poll(None if left is None else int(min(left * 1000, MAX_POLL_MS)) + 1)

    def write(self, line: bytes, deadline: Optional[float]) -> None:
        sent = 0
        try:
            while sent < len(line):
                try:
                    sent += self._socket.send(memoryview(line)[sent:], MSG_NOSIGNAL)
                except BlockingIOError:
                    self._wait(True, deadline)
        except BaseException as error:
            is_lost = isinstance(error, OSError) and not isinstance(error, TimedOut)
            if sent > 0 or is_lost:
                self.close()  # after half a line nothing can be asked any more
            if is_lost:
                raise ConnectionLost(f"the daemon is gone ({error})") from None
            raise

    def _fill(self, deadline: Optional[float]) -> None:
        """At least one byte more."""
        while True:
            try:
                chunk = self._socket.recv(CHUNK_BYTES)
            except BlockingIOError:
                self._wait(False, deadline)
                continue
            except OSError as error:
                raise ConnectionLost(f"the daemon is gone ({error})") from None
            if not chunk:
                raise ConnectionLost("the daemon has closed the connection")
            self._lines.feed(chunk)
            return

    def read(self, deadline: Optional[float]) -> Message:
        is_first = True
        while True:
            message = self._lines.take()
            if message is not None:
                return message
            # Bytes may keep coming for ever without a newline, or without the line that is wanted.
            if not is_first and _is_over(deadline):
                raise TimedOut("the daemon did not answer in time")
            self._fill(deadline)
            is_first = False


class Client(Methods[Json, List[Json], Optional[Json]]):
    """A connection to the daemon, for one thread at a time and for the process that opened it.

    path: of the socket; None: that of the first daemon of socket_paths(). timeout: of each call in
    seconds; None: for ever. The time to parse a large answer comes on top. reconnect: a lost
    connection is made again, with its subscriptions; a request is never sent twice.
    """

    def __init__(
        self,
        path: Optional[AnyPath] = None,
        timeout: Optional[float] = DEFAULT_TIMEOUT,
        max_line_bytes: int = MAX_LINE_BYTES,
        reconnect: bool = False,
    ) -> None:
        self.timeout = timeout
        self._path = path
        self._max_line_bytes = max_line_bytes
        self._reconnects = reconnect
        self._session = Session()
        self._pid = os.getpid()
        self._wire: Optional[Wire] = Wire(_connect(path, deadline_of(timeout)), max_line_bytes)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Again is fine. In a forked child the parent's connection stays."""
        self._reconnects = False
        self._drop()

    def fileno(self) -> int:
        """For select and poll. Events may have been read already: see Subscription.get()."""
        return self._usable().fileno()

    def _drop(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def _usable(self) -> Wire:
        if self._pid != os.getpid():
            raise WrongProcess(
                f"the connection is that of process {self._pid}, which this one was forked from"
            )
        if self._wire is None or self._wire.fileno() < 0:
            raise ConnectionLost("the connection to the daemon is closed")
        return self._wire

    # ---- messages ----

    def _receive(self, deadline: Optional[float]) -> Optional[Answer]:
        wire = self._usable()
        try:
            return self._session.receive(wire.read(deadline))
        except (BadAnswer, ConnectionLost):
            self._drop()
            raise

    def _exchange(self, method: str, params: Any, deadline: Optional[float]) -> Any:
        number, line = self._session.request(method, params)
        self._usable().write(line, deadline)
        while True:
            answer = self._receive(deadline)
            if answer is not None and answer.number in (number, None):
                return answer.result()
            if _is_over(deadline):
                raise TimedOut("the daemon did not answer in time")

    def _can_return(self) -> bool:
        if not self._reconnects or self._pid != os.getpid():
            return False
        return self._wire is None or not self._wire.is_open()

    def _ensure(self, deadline: Optional[float]) -> None:
        """Connects once more where that was asked for and the connection is lost."""
        if not self._can_return():
            return
        self._drop()
        self._wire = Wire(_connect(self._path, deadline), self._max_line_bytes)
        if self._session.queues:
            try:
                self._exchange("events.subscribe", {"topics": self._session.topics()}, deadline)
            except BaseException:
                self._drop()
                raise
            self._session.push(Event(RECONNECTED))

    def call(self, method: str, params: Any = None, timeout: Optional[float] = USUAL) -> Any:
        """The result of a method. params: a dict or a list; None: none."""
        deadline = deadline_of(self.timeout if timeout is USUAL else timeout)
        self._ensure(deadline)
        return self._exchange(method, params, deadline)

    def _object(self, method: str, params: Optional[Json] = None, **options: Any) -> Json:
        result: Json = self.call(method, params, **options)
        return result

    def _list(self, method: str, params: Optional[Json] = None) -> List[Json]:
        result: List[Json] = self.call(method, params)
        return result

    def _object_or_none(self, method: str, params: Optional[Json] = None) -> Optional[Json]:
        result: Optional[Json] = self.call(method, params)
        return result

    # ---- events ----

    def subscribe(
        self, *topics: str, timeout: Optional[float] = None, max_queued: int = MAX_QUEUED
    ) -> Subscription:
        """Events from now on. topics: patterns such as "job.*"; none: all of them. A client has any
        number of subscriptions.

        timeout: how long the iteration waits for the next one before it ends; None: for ever.
        max_queued: so many events wait while others are read; then the oldest are lost.
        """
        queue = Queue(topics, max_queued)
        self.call("events.subscribe", {"topics": queue.topics})
        self._session.queues.append(queue)
        return Subscription(self, queue, timeout)

    def _retry(self, deadline: Optional[float]) -> bool:
        """Tries to connect until it works. False: the time is over."""
        wait = FIRST_RETRY_SECONDS
        while True:
            try:
                self._ensure(deadline_of(self.timeout))
                return True
            except (NoDaemon, ConnectionLost, TimedOut):
                if _is_over(deadline):
                    return False
            left = wait if deadline is None else min(wait, deadline - time.monotonic())
            time.sleep(max(0.0, left))
            wait = min(2 * wait, MAX_RETRY_SECONDS)

    def _next_event(self, queue: Queue, deadline: Optional[float]) -> Optional[Event]:
        """None: none came until then. What has been read already is given in any case."""
        for n_read in itertools.count():
            event = queue.pop()
            if event is None and self._can_return():
                if not self._retry(deadline):
                    return None
                event = queue.pop()
            if event is not None:
                return event
            # Late answers are passed over, but not for ever.
            if n_read > MAX_STRAY and _is_over(deadline):
                return None
            try:
                self._receive(deadline)
            except TimedOut:
                return None
            except ConnectionLost:
                if not self._reconnects:
                    raise
        return None


class Subscription:
    """Iterates over events. Calls may be made between two of them: the newest events that come
    meanwhile are kept, and an event has the number of the lost ones. Ends with ConnectionLost when
    the daemon does, unless the client reconnects."""

    def __init__(self, client: Client, queue: Queue, timeout: Optional[float]) -> None:
        self._client = client
        self._queue = queue
        self._timeout = timeout

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration. The daemon sends these events until the connection ends."""
        if self._queue in self._client._session.queues:
            self._client._session.queues.remove(self._queue)

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        event = self.get(self._timeout)
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next Event, or None if none comes in time. timeout: 0 is what is there already.

        Before the client is polled, get(0) until it gives None.
        """
        if self._queue not in self._client._session.queues:
            return None
        return self._client._next_event(self._queue, deadline_of(timeout))
