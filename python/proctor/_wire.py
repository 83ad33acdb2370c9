"""Lines of JSON: what a message is on its way, and what comes out of the bytes that arrive.

Nothing here waits or knows a socket, so both clients use it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, Optional

from ._errors import BadAnswer

CHUNK_BYTES = 65536
MAX_LINE_BYTES = 65 << 20  # the daemon's longest answer, and what is around it
MAX_DIGITS = 40  # older Pythons take minutes for an integer of a megabyte


def _parse_int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_int=_parse_int, parse_constant=_refuse_constant)


def parse(line: bytes, sender: str = "the daemon") -> Any:
    try:
        return _decoder.decode(line.decode("utf-8"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadAnswer(f"{sender} sent something that is no JSON: {error}") from None


def encode(message: Any) -> bytes:
    return json.dumps(message, allow_nan=False).encode("ascii") + b"\n"


class Message(NamedTuple):
    body: Any
    n_bytes: int


class Lines:
    """The bytes that have arrived, and the messages in them."""

    def __init__(self, max_line_bytes: int) -> None:
        self._max_line_bytes = max_line_bytes
        self._bytes = bytearray()
        self._searched = 0  # so many of them have no newline

    def feed(self, chunk: bytes) -> None:
        self._bytes += chunk

    def take(self) -> Optional[Message]:
        """The next message that is there in full. BadAnswer: the order of lines is lost."""
        end = self._bytes.find(b"\n", self._searched)
        length = len(self._bytes) if end < 0 else end
        if length > self._max_line_bytes:
            raise BadAnswer(f"the daemon's answer is longer than {self._max_line_bytes} bytes")
        if end < 0:
            self._searched = len(self._bytes)
            return None
        line = bytes(self._bytes[:end])
        del self._bytes[: end + 1]
        self._searched = 0
        body = parse(line)
        if not isinstance(body, dict):
            raise BadAnswer("the daemon sent something that is no answer")
        return Message(body, length)
