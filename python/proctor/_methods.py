"""The daemon's methods by name, written once for both clients."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Generic, Optional, Sequence, TypeVar, Union

Json = Dict[str, Any]
JobFile = Union[str, "os.PathLike[str]", Json]

# An object, a list of objects, an object or None: themselves, or an awaitable of them.
O = TypeVar("O")
L = TypeVar("L")
N = TypeVar("N")


def text_of(job: JobFile) -> str:
    """A job file's text: of a path, of the text itself, or of its content (JSON is YAML)."""
    if isinstance(job, os.PathLike):
        with open(job, encoding="utf-8") as file:
            return file.read()
    return job if isinstance(job, str) else json.dumps(job)


def _given(**params: Any) -> Json:
    return {name: value for name, value in params.items() if value is not None}


def estimate_params(
    job: Union[Sequence[str], JobFile], sheet: Optional[int], input_bytes: Optional[int]
) -> Json:
    params = _given(sheet=sheet, input_bytes=input_bytes)
    if isinstance(job, (list, tuple)):
        params["command"] = [os.fspath(word) for word in job]
    else:
        params["file"] = text_of(job)  # type: ignore[arg-type]  # any other Sequence is a str
    return params


class Methods(Generic[O, L, N]):
    """docs/rpc.md describes the methods and what they answer: JSON, as it came."""

    def _object(self, method: str, params: Optional[Json] = None, **options: Any) -> O:
        raise NotImplementedError

    def _list(self, method: str, params: Optional[Json] = None) -> L:
        raise NotImplementedError

    def _object_or_none(self, method: str, params: Optional[Json] = None) -> N:
        raise NotImplementedError

    # ---- the daemon ----

    def status(self) -> O:
        return self._object("daemon.status")

    def top(self) -> O:
        """The latest snapshot."""
        return self._object("daemon.top")

    def events(
        self,
        job_id: Optional[str] = None,
        since: Optional[float] = None,
        limit: Optional[int] = None,
    ) -> L:
        """The last events, oldest first: of one job, since a unix time, at most so many."""
        return self._list("daemon.events", _given(job_id=job_id, since=since, limit=limit))

    def context(self, pid: Optional[int] = None) -> O:
        """What a process of a job uses now; of the host without a pid."""
        return self._object("resource.context", _given(pid=pid))

    def admit(self, **params: Any) -> O:
        """Whether a scheduler should start something now: "answer", "delay_seconds", "reason"."""
        return self._object("admit", params)

    def estimate(
        self,
        job: Union[Sequence[str], JobFile],
        sheet: Optional[int] = None,
        input_bytes: Optional[int] = None,
    ) -> N:
        """The expected needs of a job: a list of words that is a command (run as that sheet; 1 if
        none is named), or a job as in submit(). None where nothing is known. input_bytes is the
        size of the files that it names, which the daemon does not look at."""
        return self._object_or_none("estimate", estimate_params(job, sheet, input_bytes))

    # ---- jobs ----

    def jobs(self) -> L:
        """Those that run or wait for their turn."""
        return self._list("job.list")

    def report(self, job_id: str, attempt: Optional[int] = None) -> O:
        """As "proctor report --json" has it; of the latest attempt if none is named."""
        return self._object("job.report", _given(job_id=job_id, attempt=attempt))

    def submit(
        self,
        job: JobFile,
        job_id: Optional[str] = None,
        workdir: Optional[str] = None,
        input_bytes: Optional[int] = None,
    ) -> O:
        """Hands in a job: a path (pathlib) of a job file, its text, or a dict of what is in it.

        It runs in workdir (this process's, if none is named). Its id is in the answer. input_bytes
        is as in estimate().
        """
        name = os.fspath(job) if isinstance(job, os.PathLike) else None
        params = _given(name=name, job_id=job_id, input_bytes=input_bytes)
        params.update(file=text_of(job), workdir=os.path.abspath(workdir or os.getcwd()))
        return self._object("job.submit", params)

    def attach(self, pid: int, job_id: str) -> O:
        """Makes a process that runs, and all below it, a job: "job_id" and "attempt"."""
        return self._object("job.attach", {"pid": pid, "job_id": job_id})

    def cancel(self, job_id: str) -> O:
        """Its processes get SIGTERM, then SIGKILL. Returns when that has begun."""
        return self._object("job.cancel", {"job_id": job_id})

    def wait(self, job_id: str, timeout: Optional[float] = None) -> O:
        """Waits until a job is over; the answer has its "outcome". timeout: None: for ever."""
        # Without timeout_seconds the daemon would wait on, and count it.
        params = _given(job_id=job_id, timeout_seconds=timeout or None)
        return self._object("job.wait", params, timeout=timeout)

    def enter_phase(self, name: str) -> O:
        """What phase() does, but it waits for the daemon and raises."""
        return self._object("phase", {"enter": name})

    def exit_phase(self, name: str) -> O:
        return self._object("phase", {"exit": name})
