"""Readers of what is recorded and known, as models: with a daemon and without."""

from __future__ import annotations

import math
from datetime import datetime
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Generic,
    Iterator,
    List,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

from . import models
from ._aio import AsyncClient
from ._client import Client
from ._errors import BadAnswer, NoDaemon
from ._methods import JobFile, estimate_params
from ._program import Program
from .models import (
    Admission,
    Anomaly,
    AnyEvent,
    Attempt,
    CorrelationResult,
    JobProfile,
    ResourceEstimate,
    Sample,
    SystemSnapshot,
)

T = TypeVar("T")
Time = Union[float, datetime]  # unix seconds, or a datetime
Command = Union[Sequence[str], JobFile]
NS = 10**9
ROUNDING_NS = 1000  # unix seconds as a float are known to a quarter of that
TIMEOUT = 60.0  # of a reader's own client: an analysis takes longer than a call
MAX_RECENT_EVENTS = 4096  # that a daemon keeps of all jobs
BY_PROGRAM = ("patterns", "snapshots")  # which no method of the daemon answers


def _seconds(when: Optional[Time]) -> Optional[float]:
    if when is None:
        return None
    seconds = when.timestamp() if isinstance(when, datetime) else float(when)
    if not 0 <= seconds < 2**33:
        raise ValueError(f"{when!r} is no unix time")
    return seconds


def _given(params: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


class Ask(Generic[T]):
    """One question."""

    def __init__(self, method: str, params: Dict[str, Any], read: Callable[[Any], T]) -> None:
        self.method = method
        self.params = _given(params)
        self.read = read


class Rows(Generic[T]):
    """A question whose answer is a list, which the daemon hands out in pages."""

    def __init__(
        self,
        method: str,
        params: Dict[str, Any],
        read: Callable[[Any], T],
        since: Optional[Time] = None,
        until: Optional[Time] = None,
        is_wanted: Callable[[Dict[str, Any]], bool] = lambda row: True,
    ) -> None:
        self.method = method
        self.params = _given(params)
        self._read = read
        self._since = _seconds(since)
        self._until = _seconds(until)
        self._is_wanted = is_wanted
        self._next_ns = None if self._since is None else int(self._since * NS) - ROUNDING_NS
        self.has_more = True

    # ---- of the daemon: a page at a time ----

    def page_params(self) -> Dict[str, Any]:
        params = dict(self.params)
        if self._next_ns is not None:
            params["since_ns"] = max(0, self._next_ns)
        if self._until is not None:
            params["until_ns"] = int(self._until * NS) + ROUNDING_NS
        return params

    def take_page(self, page: Any) -> List[T]:
        key = self.method.partition(".")[2]
        following = page.get("next_ns") if isinstance(page, dict) else None
        if not isinstance(page, dict) or not isinstance(page.get(key), list):
            raise BadAnswer(f"the daemon's answer has no list of {key}")
        if following is not None and not isinstance(following, int):
            raise BadAnswer("the daemon's answer has no beginning of the next page")
        if following is not None and following <= (self._next_ns or 0):
            raise BadAnswer("the daemon's next page is not behind the last one")
        self._next_ns = following
        self.has_more = following is not None
        return [self._read(row) for row in page[key] if self._is_inside(row)]

    # ---- of the program, and of the daemon's memory: all at once ----

    def needs_program(self) -> bool:
        return self.method in BY_PROGRAM or (
            self.method == "job.samples" and "job_id" not in self.params
        )

    def is_recent(self) -> bool:
        """The daemon answers from its memory: events of all jobs."""
        return self.method == "job.events" and "job_id" not in self.params

    def all_params(self) -> Dict[str, Any]:
        return self.params if self._since is None else {**self.params, "since": self._since}

    def take_all(self, rows: Any) -> List[T]:
        if not isinstance(rows, list):
            raise BadAnswer("the answer is no list")
        wanted = [row for row in rows if self._is_inside(row)]
        return [self._read(row) for row in wanted[-self.params.get("limit", 0) :]]

    def _is_inside(self, row: Any) -> bool:
        """To the digit. A row that is no object is for _read() to refuse."""
        times = row if isinstance(row, dict) else {}
        when = times.get("began", times.get("timestamp", times.get("ended")))
        if isinstance(when, (int, float)):
            since = -math.inf if self._since is None else self._since
            until = math.inf if self._until is None else self._until
            if not since <= when <= until:
                return False
        return self._is_wanted(row)


# ---- the questions ----


def _event(row: Any) -> AnyEvent:
    if not isinstance(row, dict) or not isinstance(row.get("event"), str):
        raise BadAnswer("an event of the record has no name")
    return models.parse_event(row["event"], row)


def _is_of(job_id: Optional[str]) -> Callable[[Any], bool]:
    def is_wanted(row: Any) -> bool:
        if not isinstance(row, dict):
            return True
        return row.get("status") != "queued" and job_id in (None, row.get("job_id"))

    return is_wanted


def _snapshot() -> Ask[SystemSnapshot]:
    return Ask("daemon.top", {}, SystemSnapshot.from_json)


def _estimate(
    job: Command, sheet: Optional[int], input_bytes: Optional[int]
) -> Ask[Optional[ResourceEstimate]]:
    return Ask(
        "estimate",
        estimate_params(job, sheet, input_bytes),
        lambda found: None if found is None else ResourceEstimate.from_json(found),
    )


def _profile(job_id: str, attempt: Optional[int]) -> Ask[JobProfile]:
    return Ask("job.report", {"job_id": job_id, "attempt": attempt}, JobProfile.from_json)


def _correlate() -> Ask[CorrelationResult]:
    return Ask("correlate", {}, CorrelationResult.from_json)


def _admit(params: Dict[str, Any]) -> Ask[Admission]:
    return Ask("admit", params, Admission.from_json)


def _patterns() -> Ask[List[Dict[str, Any]]]:
    return Ask("patterns", {}, list)


def _samples(
    job_id: Optional[str], pid: Optional[int], since: Optional[Time], until: Optional[Time]
) -> Rows[Sample]:
    return Rows("job.samples", {"job_id": job_id, "pid": pid}, Sample.from_json, since, until)


def _anomalies(
    job_id: Optional[str], since: Optional[Time], until: Optional[Time]
) -> Rows[Anomaly]:
    return Rows("job.anomalies", {"job_id": job_id}, Anomaly.from_json, since, until)


def _attempts(
    job_id: Optional[str], since: Optional[Time], latest: bool, limit: Optional[int]
) -> Rows[Attempt]:
    params = {"job_id": job_id, "latest": latest or None, "limit": limit}
    return Rows("job.attempts", params, Attempt.from_json, since, None, _is_of(job_id))


def _events(
    job_id: Optional[str], since: Optional[Time], until: Optional[Time]
) -> Rows[AnyEvent]:
    return Rows("job.events", {"job_id": job_id}, _event, since, until)


def _snapshots(
    since: Time, job_id: Optional[str], until: Optional[Time]
) -> Rows[SystemSnapshot]:
    return Rows(
        "snapshots",
        {"job_id": job_id},
        SystemSnapshot.from_json,
        since,
        until,
        lambda row: not isinstance(row, dict) or "event" not in row,
    )


# ---- the readers ----


class Reader:
    """What is recorded and known, as models.

    source: a Client, or a Program, which reads without a daemon. None: the daemon, if one runs, or
    the program; such a reader is a context manager. program: for what no method of the daemon
    answers (patterns, snapshots).
    """

    def __init__(
        self, source: Union[Client, Program, None] = None, program: Optional[Program] = None
    ) -> None:
        self.program = program or (source if isinstance(source, Program) else Program())
        self._owned: Optional[Client] = None
        if source is None:
            try:
                source = self._owned = Client(timeout=TIMEOUT)
            except NoDaemon:
                source = self.program
        self.source = source

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection that the reader made."""
        if self._owned is not None:
            self._owned.close()

    def _ask(self, question: Ask[T]) -> T:
        source = self.program if question.method in BY_PROGRAM else self.source
        return question.read(source.call(question.method, question.params))

    def _all(self, question: Rows[T]) -> Iterator[T]:
        source = self.program if question.needs_program() else self.source
        if isinstance(source, Program):
            yield from question.take_all(source.call(question.method, question.all_params()))
        elif question.is_recent():
            params = {**question.all_params(), "limit": MAX_RECENT_EVENTS}
            yield from question.take_all(source.call("daemon.events", params))
        else:
            while question.has_more:
                page = source.call(question.method, question.page_params())
                yield from question.take_page(page)

    def snapshot(self) -> SystemSnapshot:
        """Now."""
        return self._ask(_snapshot())

    def snapshots(
        self, since: Time, job_id: Optional[str] = None, until: Optional[Time] = None
    ) -> Iterator[SystemSnapshot]:
        """As they were recorded, oldest first; by the program."""
        return self._all(_snapshots(since, job_id, until))

    def samples(
        self,
        job_id: Optional[str] = None,
        pid: Optional[int] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> Iterator[Sample]:
        """Of a job's processes in all attempts, oldest first. Of a pid alone: by the program."""
        return self._all(_samples(job_id, pid, since, until))

    def events(
        self,
        job_id: Optional[str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> Iterator[AnyEvent]:
        """Of all attempts, oldest first. Without a job_id: the last 4096 that a daemon has."""
        return self._all(_events(job_id, since, until))

    def anomalies(
        self,
        job_id: Optional[str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> Iterator[Anomaly]:
        """Episodes that began in that time, oldest first."""
        return self._all(_anomalies(job_id, since, until))

    def attempts(
        self,
        job_id: Optional[str] = None,
        since: Optional[Time] = None,
        latest: bool = False,
        limit: Optional[int] = None,
    ) -> Iterator[Attempt]:
        """Oldest first. latest: the last one of each job of each user. limit: the newest ones."""
        return self._all(_attempts(job_id, since, latest, limit))

    def profile(self, job_id: str, attempt: Optional[int] = None) -> JobProfile:
        """Of the latest attempt; the rest of its report is in `extra`."""
        return self._ask(_profile(job_id, attempt))

    def correlate(self) -> CorrelationResult:
        """Of the last 7 days. The daemon answers root and its own user alone."""
        return self._ask(_correlate())

    def patterns(self) -> List[Dict[str, Any]]:
        """What was learned, as "proctor patterns --json" has it; by the program."""
        return self._ask(_patterns())

    def estimate(
        self, job: Command, sheet: Optional[int] = None, input_bytes: Optional[int] = None
    ) -> Optional[ResourceEstimate]:
        """The arguments are those of Client.estimate(). None where nothing is known."""
        return self._ask(_estimate(job, sheet, input_bytes))

    def admit(self, **params: Any) -> Admission:
        """The arguments are those of Client.admit(). Without a daemon: NoDaemon."""
        return self._ask(_admit(params))


class AsyncReader:
    """Reader for asyncio, of an AsyncClient or a Program. The methods are the same: those that
    return a value are awaited, and those that iterate are for `async for`. Without a source it is a
    context manager: `async with AsyncReader() as reader`."""

    def __init__(
        self, source: Union[AsyncClient, Program, None] = None, program: Optional[Program] = None
    ) -> None:
        self.program = program or (source if isinstance(source, Program) else Program())
        self._owned: Optional[AsyncClient] = None
        self.source = source

    async def __aenter__(self) -> AsyncReader:
        if self.source is None:
            client = AsyncClient(timeout=TIMEOUT)
            try:
                await client.connect()
                self.source = self._owned = client
            except NoDaemon:
                self.source = self.program
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection that the reader made."""
        if self._owned is not None:
            await self._owned.close()

    def _source_of(self, is_by_program: bool) -> Union[AsyncClient, Program]:
        if is_by_program:
            return self.program
        if self.source is None:
            raise NoDaemon("the reader has no source: use it as a context manager")
        return self.source

    async def _ask(self, question: Ask[T]) -> T:
        source = self._source_of(question.method in BY_PROGRAM)
        if isinstance(source, Program):
            return question.read(await source.call_async(question.method, question.params))
        return question.read(await source.call(question.method, question.params))

    async def _all(self, question: Rows[T]) -> AsyncIterator[T]:
        source = self._source_of(question.needs_program())
        if isinstance(source, Program):
            rows = await source.call_async(question.method, question.all_params())
            for item in question.take_all(rows):
                yield item
        elif question.is_recent():
            params = {**question.all_params(), "limit": MAX_RECENT_EVENTS}
            for item in question.take_all(await source.call("daemon.events", params)):
                yield item
        else:
            while question.has_more:
                page = await source.call(question.method, question.page_params())
                for item in question.take_page(page):
                    yield item

    async def snapshot(self) -> SystemSnapshot:
        return await self._ask(_snapshot())

    def snapshots(
        self, since: Time, job_id: Optional[str] = None, until: Optional[Time] = None
    ) -> AsyncIterator[SystemSnapshot]:
        return self._all(_snapshots(since, job_id, until))

    def samples(
        self,
        job_id: Optional[str] = None,
        pid: Optional[int] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> AsyncIterator[Sample]:
        return self._all(_samples(job_id, pid, since, until))

    def events(
        self,
        job_id: Optional[str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> AsyncIterator[AnyEvent]:
        return self._all(_events(job_id, since, until))

    def anomalies(
        self,
        job_id: Optional[str] = None,
        since: Optional[Time] = None,
        until: Optional[Time] = None,
    ) -> AsyncIterator[Anomaly]:
        return self._all(_anomalies(job_id, since, until))

    def attempts(
        self,
        job_id: Optional[str] = None,
        since: Optional[Time] = None,
        latest: bool = False,
        limit: Optional[int] = None,
    ) -> AsyncIterator[Attempt]:
        return self._all(_attempts(job_id, since, latest, limit))

    async def profile(self, job_id: str, attempt: Optional[int] = None) -> JobProfile:
        return await self._ask(_profile(job_id, attempt))

    async def correlate(self) -> CorrelationResult:
        return await self._ask(_correlate())

    async def patterns(self) -> List[Dict[str, Any]]:
        return await self._ask(_patterns())

    async def estimate(
        self, job: Command, sheet: Optional[int] = None, input_bytes: Optional[int] = None
    ) -> Optional[ResourceEstimate]:
        return await self._ask(_estimate(job, sheet, input_bytes))

    async def admit(self, **params: Any) -> Admission:
        return await self._ask(_admit(params))
