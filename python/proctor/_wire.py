"""Lines of JSON on a socket, each with a deadline and a bound."""

import json
import select
import time
from socket import MSG_NOSIGNAL

from ._errors import BadAnswer, ConnectionLost, TimedOut

CHUNK_BYTES = 65536
MAX_POLL_MS = 10**9
MAX_DIGITS = 40  # older Pythons take minutes for an integer of a megabyte


def _parse_int(digits):
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)


def _refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_int=_parse_int, parse_constant=_refuse_constant)


def _parse(line):
    try:
        return _decoder.decode(line.decode("utf-8"))
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadAnswer(f"the daemon sent something that is no JSON: {error}") from None


class Wire:
    """Takes over a connected socket that does not block."""

    def __init__(self, connection, max_line_bytes):
        self._socket = connection
        self._max_line_bytes = max_line_bytes
        self._bytes = bytearray()
        self._searched = 0  # so many of them have no newline

    def close(self):
        """Closes this process's copy of the socket, and does not shut it down for others."""
        self._socket.close()

    def fileno(self):
        return self._socket.fileno()

    def _wait(self, for_writing, deadline):
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise TimedOut("the daemon did not answer in time")
        poll = select.poll()
        poll.register(self._socket, select.POLLOUT if for_writing else select.POLLIN)
        poll.poll(None if left is None else int(min(left * 1000, MAX_POLL_MS)) + 1)

    def write(self, message, deadline):
        line = json.dumps(message, allow_nan=False).encode("ascii") + b"\n"
        sent = 0
        try:
            while sent < len(line):
                try:
                    sent += self._socket.send(memoryview(line)[sent:], MSG_NOSIGNAL)
                except BlockingIOError:
                    self._wait(True, deadline)
        except BaseException as error:
            if sent > 0:
                self.close()  # after half a line nothing can be asked any more
            if isinstance(error, OSError) and not isinstance(error, TimedOut):
                raise ConnectionLost(f"the daemon is gone ({error})") from None
            raise

    def _take_line(self):
        """The next line that is there in full, or None."""
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
        return line

    def _fill(self, deadline):
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
            self._bytes += chunk
            return

    def read(self, deadline):
        """The next message. deadline: on the monotonic clock; None: for ever."""
        is_first = True
        while True:
            line = self._take_line()
            if line is not None:
                return _parse(line)
            # Bytes may keep coming for ever without a newline, or without the line that is wanted.
            if not is_first and deadline is not None and time.monotonic() >= deadline:
                raise TimedOut("the daemon did not answer in time")
            self._fill(deadline)
            is_first = False
