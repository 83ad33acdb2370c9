"""The calls and the events of a daemon."""

import collections
import itertools
import json
import os
import time

from ._address import connect
from ._errors import BadAnswer, ConnectionLost, Error, TimedOut, TimedOutInside, WrongProcess, error_of
from ._wire import Wire

DEFAULT_TIMEOUT = 10.0
MAX_LINE_BYTES = 65 << 20  # the daemon's longest answer, and what is around it
MAX_QUEUED = 4096  # events that come while an answer is awaited
MAX_STRAY = 1000
LOST = "lost"

_USUAL = object()  # the timeout of the client


class Event(collections.namedtuple("Event", "topic timestamp data lost")):
    """Something that happened: topic, timestamp (unix seconds), data (a dict), lost (0).

    Where topic is "lost", that many events were, for this client was too slow; data is None.
    """

    __slots__ = ()


def _lost(count):
    return Event(LOST, None, None, count)


def _event_of(message):
    """The Event of a message; None: it is something else."""
    params = message.get("params")
    if message.get("method") != "event" or not isinstance(params, dict):
        return None
    topic, count = params.get("topic"), params.get("count")
    if topic == LOST:
        return _lost(count) if isinstance(count, int) and count > 0 else None
    if not isinstance(topic, str):
        return None
    return Event(topic, params.get("timestamp"), params.get("data"), 0)


def _is_answer(message, number):
    """An error without an id is about our request too: only one is under way."""
    its_number = message.get("id")
    return (its_number == number and its_number is not True) or (
        its_number is None and "error" in message and "method" not in message
    )


def _deadline(timeout):
    return None if timeout is None else time.monotonic() + timeout


def _text_of(job):
    """A job file's text: of a path, of the text itself, or of what would be in it (JSON is YAML)."""
    if isinstance(job, os.PathLike):
        with open(job, encoding="utf-8") as file:
            return file.read()
    return job if isinstance(job, str) else json.dumps(job)


class Client:
    """A connection to the daemon, for one thread at a time and for the process that opened it.

    path: of the socket; None: that of the first daemon of socket_paths(). timeout: of each call in
    seconds; None: for ever. The time to parse a large answer comes on top.
    """

    def __init__(self, path=None, timeout=DEFAULT_TIMEOUT, max_line_bytes=MAX_LINE_BYTES):
        self.timeout = timeout
        self._number = 0  # of the last call
        self._is_subscribed = False
        self._events = collections.deque()
        self._lost = 0  # events that had no room, and were not told of
        self._pid = os.getpid()
        self._wire = Wire(connect(path, _deadline(timeout)), max_line_bytes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Again is fine. In a forked child the parent's connection stays."""
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def fileno(self):
        """For select and poll. Events may be there that were read already: see Subscription.get()."""
        return self._usable().fileno()

    def _usable(self):
        if self._pid != os.getpid():
            raise WrongProcess(
                f"the connection is that of process {self._pid}, which this one was forked from"
            )
        if self._wire is None or self._wire.fileno() < 0:
            raise ConnectionLost("the connection to the daemon is closed")
        return self._wire

    # ---- messages ----

    def _read(self, deadline):
        """The next message that is an object. The order of lines is lost after one that is not."""
        wire = self._usable()
        try:
            message = wire.read(deadline)
            if not isinstance(message, dict):
                raise BadAnswer("the daemon sent something that is no answer")
            return message
        except (BadAnswer, ConnectionLost):
            self.close()
            raise

    def _queue(self, message):
        event = _event_of(message)
        if event is None or not self._is_subscribed:
            return
        self._events.append(event)
        if len(self._events) > MAX_QUEUED:
            self._lost += self._events.popleft().lost or 1

    def _await(self, number, deadline):
        while True:
            message = self._read(deadline)
            if _is_answer(message, number):
                return message
            self._queue(message)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut("the daemon did not answer in time")

    def call(self, method, params=None, timeout=_USUAL):
        """The result of a method. params: a dict or a list; None: none."""
        deadline = _deadline(self.timeout if timeout is _USUAL else timeout)
        self._number += 1
        request = {"jsonrpc": "2.0", "method": method, "id": self._number}
        if params is not None:
            request["params"] = params
        self._usable().write(request, deadline)
        answer = self._await(self._number, deadline)
        if "error" in answer:
            raise error_of(answer["error"])
        if "result" not in answer:
            raise BadAnswer("the daemon's answer has neither result nor error")
        return answer["result"]

    # ---- the daemon ----

    def status(self):
        return self.call("daemon.status")

    def top(self):
        """The latest snapshot."""
        return self.call("daemon.top")

    def events(self, job_id=None, since=None, limit=None):
        """The last events, oldest first: of one job, since a unix time, at most so many."""
        params = {"job_id": job_id, "since": since, "limit": limit}
        return self.call("daemon.events", {k: v for k, v in params.items() if v is not None})

    def context(self, pid=None):
        """What a process of a job uses now; of the host without a pid."""
        return self.call("resource.context", {} if pid is None else {"pid": pid})

    def admit(self, **params):
        """Whether a scheduler should start something now: "answer", "delay_seconds", "reason"."""
        return self.call("admit", params)

    def estimate(self, job, sheet=None, input_bytes=None):
        """What a job is expected to need: a list of words that is a command (run as that sheet; 1 if
        none is named), or a job as in submit(). None where nothing is known. input_bytes is the size
        of the files that it names, which the daemon does not look at."""
        if isinstance(job, (list, tuple)):
            params = {"command": [os.fspath(word) for word in job]}
        else:
            params = {"file": _text_of(job)}
        if sheet is not None:
            params["sheet"] = sheet
        if input_bytes is not None:
            params["input_bytes"] = input_bytes
        return self.call("estimate", params)

    # ---- jobs ----

    def jobs(self):
        """Those that run or wait for their turn."""
        return self.call("job.list")

    def report(self, job_id, attempt=None):
        """As "proctor report --json" has it; of the latest attempt if none is named."""
        params = {"job_id": job_id}
        if attempt is not None:
            params["attempt"] = attempt
        return self.call("job.report", params)

    def submit(self, job, job_id=None, workdir=None, input_bytes=None):
        """Hands in a job: a path (pathlib) of a job file, its text, or a dict of what is in it.

        It runs in workdir (this process's, if none is named). Its id is in the answer. input_bytes
        is as in estimate().
        """
        params = {"file": _text_of(job), "workdir": os.path.abspath(workdir or os.getcwd())}
        if isinstance(job, os.PathLike):
            params["name"] = os.fspath(job)
        if job_id is not None:
            params["job_id"] = job_id
        if input_bytes is not None:
            params["input_bytes"] = input_bytes
        return self.call("job.submit", params)

    def cancel(self, job_id):
        """Its processes get SIGTERM, then SIGKILL. Returns when that has begun."""
        return self.call("job.cancel", {"job_id": job_id})

    def wait(self, job_id, timeout=None):
        """Waits until a job is over; the answer has its "outcome"."""
        params = {"job_id": job_id}
        if timeout:  # else the daemon would wait on, and count it
            params["timeout_seconds"] = timeout
        try:
            return self.call("job.wait", params, timeout=timeout)
        except TimedOutInside as error:
            raise TimedOut(str(error)) from None

    def enter_phase(self, name):
        """What phase() does, but it waits for the daemon and raises."""
        return self.call("phase", {"enter": name})

    def exit_phase(self, name):
        return self.call("phase", {"exit": name})

    # ---- events ----

    def subscribe(self, *topics, timeout=None):
        """Events from now on, once per client. topics: patterns such as "job.*"; none: all of them.

        timeout: how long the iteration waits for the next one before it ends; None: for ever.
        """
        if self._is_subscribed:
            raise Error("this client has a subscription: open another for more")
        self.call("events.subscribe", {"topics": list(topics) or ["*"]})
        self._is_subscribed = True
        return Subscription(self, timeout)

    def _next_event(self, deadline):
        """None: none came until then. What has been read already is given in any case."""
        for n_read in itertools.count():
            if self._lost > 0:
                count, self._lost = self._lost, 0
                return _lost(count)
            if self._events:
                return self._events.popleft()
            # Late answers are passed over, but not for ever.
            if n_read > MAX_STRAY and deadline is not None and time.monotonic() >= deadline:
                return None
            try:
                self._queue(self._read(deadline))
            except TimedOut:
                return None


class Subscription:
    """Iterates over events. Calls may be made between two of them: events that come meanwhile are
    kept (the newest; how many were lost is told). Ends with ConnectionLost when the daemon does."""

    def __init__(self, client, timeout):
        self._client = client
        self._timeout = timeout

    def __iter__(self):
        return self

    def __next__(self):
        event = self.get(self._timeout)
        if event is None:
            raise StopIteration
        return event

    def get(self, timeout=None):
        """The next Event, or None if none comes in time. timeout: 0 is what is there already.

        Before the client is polled, get(0) until it gives None.
        """
        return self._client._next_event(_deadline(timeout))
