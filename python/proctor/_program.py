"""The proctor program, for what is read without a daemon."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from ._errors import BadInput, Error, NoDaemon, NoProgram, ProgramFailed, TimedOut
from ._wire import parse

BAD_INPUT_STATUS = 2
NAME = "the program"


def _duration(wall_seconds: float) -> str:
    """How long ago that was, for --since: a second early, as the clock goes on."""
    return f"{max(0, int(time.time() - wall_seconds)) + 2}s"


def _list(text: bytes) -> List[Any]:
    rows = parse(text or b"[]", NAME)
    if not isinstance(rows, list):
        raise Error("the program printed no list")
    return rows


def _lines(text: bytes) -> List[Any]:
    return [parse(line, NAME) for line in text.splitlines() if line]


def _value(text: bytes) -> Any:
    return parse(text, NAME)


class Verb(NamedTuple):
    words: Tuple[str, ...]
    parse: Callable[[bytes], Any]
    options: Tuple[str, ...] = ()  # params that are options of the same name


# What answers as a method of the daemon does: docs/rpc.md. Where the daemon puts a list into an
# object with the beginning of the next page, this is the list.
VERBS = {
    "daemon.top": Verb(("snapshot", "--json"), _value),
    "job.samples": Verb(("history", "--json"), _list, ("job_id", "pid")),
    "job.events": Verb(("events", "--json"), _lines, ("job_id",)),
    "job.anomalies": Verb(("anomalies", "--json"), _list, ("job_id",)),
    "job.attempts": Verb(("jobs", "--json"), _list),
    "job.report": Verb(("report", "--json"), _value, ("attempt",)),
    "correlate": Verb(("correlate", "--json"), _value),
    "estimate": Verb(("estimate", "--json"), _value, ("sheet",)),
    # No methods.
    "patterns": Verb(("patterns", "--json"), _list),
    "snapshots": Verb(("top", "--json"), _lines, ("job_id",)),
}
OPTIONS = {"job_id": "--job"}


def _words_of(method: str, params: Dict[str, Any]) -> Tuple[List[str], Optional[bytes]]:
    """The words of a command line, and its standard input."""
    verb = VERBS.get(method)
    if verb is None:
        raise NoDaemon(f"only a daemon answers {method}")
    words = list(verb.words)
    for name in verb.options:
        if params.get(name) is not None:
            words.append(f"{OPTIONS.get(name, '--' + name)}={params[name]}")
    if method == "snapshots":
        words.append("--history=" + _duration(params["since"]))
    elif params.get("since") is not None:
        words.append("--since=" + _duration(params["since"]))
    if method == "job.attempts" and not params.get("latest"):
        words.append("--all")
    if method == "job.report":
        words += ["--", params["job_id"]]
    if "command" in params:
        words += ["--"] + params["command"]
    if "file" in params:
        words.append("--file=/dev/stdin")
        return words, params["file"].encode("utf-8", "surrogateescape")
    return words, None


class Program:
    """Runs `path` (a name is looked for in PATH) for each question.

    timeout: of each run in seconds; None: for ever. home: its PROCTOR_HOME; None: this process's.
    All that it prints is in memory at once.
    """

    def __init__(
        self, path: str = "proctor", timeout: Optional[float] = 60.0, home: Optional[str] = None
    ) -> None:
        self.path = path
        self.timeout = timeout
        self._environment = dict(os.environ)
        if home is not None:
            self._environment["PROCTOR_HOME"] = home

    # ---- running it ----

    def _result(self, status: int, out: bytes, complaint: bytes) -> bytes:
        if status == 0:
            return out
        text = complaint.decode("utf-8", "replace").strip()
        message = text[len("proctor: ") :] if text.startswith("proctor: ") else text
        if status < 0:
            message = message or f"proctor was ended by {signal.Signals(-status).name}"
        kind = BadInput if status == BAD_INPUT_STATUS else ProgramFailed
        raise kind(message or f"proctor ended with status {status}", status)

    def run(self, words: List[str], text: Optional[bytes] = None) -> bytes:
        """What it prints. text: its standard input."""
        try:
            done = subprocess.run(
                [self.path, *words],
                input=b"" if text is None else text,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                timeout=self.timeout,
                env=self._environment,
            )
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{self.path} did not end in time") from None
        except OSError as error:
            raise NoProgram(f"cannot run {self.path}: {error.strerror}") from error
        return self._result(done.returncode, done.stdout, done.stderr)

    async def run_async(self, words: List[str], text: Optional[bytes] = None) -> bytes:
        """The same for asyncio; cancelled, it ends the program."""
        try:
            child = await asyncio.create_subprocess_exec(
                self.path,
                *words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=self._environment,
            )
        except OSError as error:
            raise NoProgram(f"cannot run {self.path}: {error.strerror}") from error
        try:
            out, complaint = await asyncio.wait_for(child.communicate(text or b""), self.timeout)
        except asyncio.TimeoutError:
            raise TimedOut(f"{self.path} did not end in time") from None
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
        return self._result(child.returncode or 0, out, complaint)

    # ---- asking as one asks a daemon ----

    def call(self, method: str, params: Dict[str, Any]) -> Any:
        """NoDaemon: the program has no such answer. params["since"] is a unix time."""
        words, text = _words_of(method, params)
        return VERBS[method].parse(self.run(words, text))

    async def call_async(self, method: str, params: Dict[str, Any]) -> Any:
        words, text = _words_of(method, params)
        return VERBS[method].parse(await self.run_async(words, text))


def encode_lines(rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode("ascii") + b"\n" for row in rows)
