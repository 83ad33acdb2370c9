"""The client for asyncio: any number of calls and subscriptions at once."""

from __future__ import annotations

import asyncio
import os
import time
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Coroutine, Dict, List, Optional, Set, Type

from ._address import AnyPath, connecting
from ._client import (
    DEFAULT_TIMEOUT,
    FIRST_RETRY_SECONDS,
    MAX_RETRY_SECONDS,
    USUAL,
    deadline_of,
)
from ._errors import (
    Busy,
    ConnectionLost,
    Ending,
    Error,
    NoDaemon,
    TimedOut,
    TooManyClients,
    WrongProcess,
)
from ._methods import Json, Methods
from ._session import MAX_QUEUED, RECONNECTED, Answer, Event, Queue, Session
from ._wire import CHUNK_BYTES, MAX_LINE_BYTES, Lines

PASSING = (NoDaemon, ConnectionLost, TimedOut, Busy, TooManyClients, Ending)


async def _within(awaitable: Awaitable[Any], timeout: Optional[float]) -> Any:
    try:
        return await asyncio.wait_for(awaitable, timeout)
    except asyncio.TimeoutError as error:
        if isinstance(error, Error):
            raise
        raise TimedOut("the daemon did not answer in time") from None


class AsyncClient(Methods[Awaitable[Json], Awaitable[List[Json]], Awaitable[Optional[Json]]]):
    """A connection to the daemon, for the tasks of one event loop: `async with AsyncClient() as c`.

    The arguments are those of Client. A call that is cancelled is forgotten: its answer is dropped,
    and what it asked the daemon to do may be done.
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
        self._calls: Dict[int, asyncio.Future[Answer]] = {}
        self._subscriptions: Set[AsyncSubscription] = set()
        self._writer: Optional[asyncio.StreamWriter] = None
        self._tasks: Set[asyncio.Future[None]] = set()  # that receive, and that connect again
        self._opening: Optional[asyncio.Lock] = None  # belongs to the loop that runs

    async def __aenter__(self) -> AsyncClient:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Does nothing where there is a connection."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._writer is None:
                await self._open()

    async def close(self) -> None:
        """Again is fine. Calls that wait, and iterations, end with ConnectionLost."""
        self._reconnects = False
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._end(ConnectionLost("the connection to the daemon is closed"))

    def _spawn(self, steps: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        task = asyncio.ensure_future(steps)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- the connection ----

    async def _open(self) -> None:
        deadline = deadline_of(self.timeout)
        steps = connecting(self._path, deadline)
        while True:
            try:
                await asyncio.sleep(next(steps))
            except StopIteration as end:
                connection = end.value
                break
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        self._writer = writer
        receiving = self._spawn(self._receive(reader))
        try:
            if self._session.queues:
                topics = {"topics": self._session.topics()}
                await self._exchange("events.subscribe", topics, self.timeout)
                self._publish(Event(RECONNECTED))
        except BaseException:
            receiving.cancel()
            self._hang_up()
            raise

    async def _receive(self, reader: asyncio.StreamReader) -> None:
        lines = Lines(self._max_line_bytes)
        lost: Error
        try:
            while True:
                chunk = await reader.read(CHUNK_BYTES)
                if not chunk:
                    raise ConnectionLost("the daemon has closed the connection")
                lines.feed(chunk)
                message = lines.take()
                while message is not None:
                    answer = self._session.receive(message)
                    if answer is not None:
                        self._take(answer)
                    message = lines.take()
                self._wake()
        except Error as error:
            lost = error
        except OSError as error:
            lost = ConnectionLost(f"the daemon is gone ({error})")
        if self._reconnects and isinstance(lost, ConnectionLost):
            self._hang_up(lost)
            if self._session.queues:
                self._spawn(self._retry())
        else:
            self._end(lost)

    async def _retry(self) -> None:
        """Connects again for the subscriptions: a call does so by itself."""
        wait = FIRST_RETRY_SECONDS
        while self._reconnects and self._writer is None:
            try:
                await self.connect()
            except PASSING:
                await asyncio.sleep(wait)
                wait = min(2 * wait, MAX_RETRY_SECONDS)
            except Error as error:
                self._end(error)
                return

    def _take(self, answer: Answer) -> None:
        numbers = list(self._calls) if answer.number is None else [answer.number]
        for number in numbers:
            waiting = self._calls.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)

    def _publish(self, event: Event) -> None:
        self._session.push(event)
        self._wake()

    def _wake(self) -> None:
        for subscription in self._subscriptions:
            subscription._wake()

    def _hang_up(self, error: Optional[Error] = None) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        calls, self._calls = self._calls, {}
        for waiting in calls.values():
            if not waiting.done():
                waiting.set_exception(error or ConnectionLost("the daemon is gone"))

    def _end(self, error: Error) -> None:
        self._hang_up(error)
        for subscription in self._subscriptions:
            subscription._fail(error)

    # ---- calls ----

    async def _exchange(self, method: str, params: Any, timeout: Optional[float]) -> Any:
        writer = self._writer
        if writer is None:
            raise ConnectionLost("the connection to the daemon is closed")
        number, line = self._session.request(method, params)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._calls[number] = waiting

        async def send(writer: asyncio.StreamWriter) -> Answer:
            writer.write(line)
            try:
                await writer.drain()
            except OSError as error:
                raise ConnectionLost(f"the daemon is gone ({error})") from None
            return await waiting

        try:
            return (await _within(send(writer), timeout)).result()
        finally:
            self._calls.pop(number, None)
            waiting.cancel()

    async def call(self, method: str, params: Any = None, timeout: Optional[float] = USUAL) -> Any:
        """The result of a method. params: a dict or a list; None: none."""
        if self._pid != os.getpid():
            raise WrongProcess(
                f"the connection is that of process {self._pid}, which this one was forked from"
            )
        if self._writer is None and self._reconnects:
            await self.connect()
        return await self._exchange(method, params, self.timeout if timeout is USUAL else timeout)

    async def _object(self, method: str, params: Optional[Json] = None, **options: Any) -> Json:
        result: Json = await self.call(method, params, **options)
        return result

    async def _list(self, method: str, params: Optional[Json] = None) -> List[Json]:
        result: List[Json] = await self.call(method, params)
        return result

    async def _object_or_none(self, method: str, params: Optional[Json] = None) -> Optional[Json]:
        result: Optional[Json] = await self.call(method, params)
        return result

    # ---- events ----

    async def subscribe(
        self, *topics: str, timeout: Optional[float] = None, max_queued: int = MAX_QUEUED
    ) -> AsyncSubscription:
        """As Client.subscribe(): `async with await client.subscribe("job.*") as events`."""
        queue = Queue(topics, max_queued)
        subscription = AsyncSubscription(self, queue, timeout)
        # Before the answer is there: events may follow it before this task goes on.
        self._session.queues.append(queue)
        self._subscriptions.add(subscription)
        try:
            await self.call("events.subscribe", {"topics": queue.topics})
        except BaseException:
            subscription.close()
            raise
        return subscription


class AsyncSubscription:
    """Iterates over events. The newest are kept for a reader that is busy; how many were lost is an
    event of its own. No event is lost where the wait for it is cancelled."""

    def __init__(self, client: AsyncClient, queue: Queue, timeout: Optional[float]) -> None:
        self._client = client
        self._queue = queue
        self._timeout = timeout
        self._news = asyncio.Event()
        self._error: Optional[Error] = None
        self._is_closed = False

    def _wake(self) -> None:
        self._news.set()

    def _fail(self, error: Error) -> None:
        self._error = error
        self._news.set()

    async def __aenter__(self) -> AsyncSubscription:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Keeps no more events, and ends the iteration."""
        if self in self._client._subscriptions:
            self._client._subscriptions.remove(self)
            self._client._session.queues.remove(self._queue)
        self._is_closed = True
        self._wake()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        event = await self.get(self._timeout)
        if event is None:
            raise StopAsyncIteration
        return event

    async def get(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next Event, or None if none comes in time. timeout: 0 is what is there already."""
        deadline = deadline_of(timeout)
        while not self._is_closed:
            event = self._queue.pop()
            if event is not None:
                return event
            if self._error is not None:
                raise self._error
            self._news.clear()
            left = None if deadline is None else deadline - time.monotonic()
            try:
                await asyncio.wait_for(self._news.wait(), left)
            except asyncio.TimeoutError:
                return self._queue.pop()
        return None
