"""phase(): a program marks what it is doing, at no risk.

A marker is one line that is sent and not answered, over a connection that is kept. Where there
is no daemon, or one that does not keep up, there is no marker.
"""

import atexit
import functools
import json
import os
import select
import threading
import time
from socket import MSG_NOSIGNAL

from ._address import connect_once, socket_paths
from ._errors import Error

RETRY_SECONDS = 10.0  # until a daemon is looked for again
LOCK_SECONDS = 0.05  # another thread holds it for microseconds
BURST_MS = 5  # the kernel keeps some 280 markers; how long a daemon may take to make room
STUCK_SECONDS = 1.0  # until one that took longer is waited for again
SETTLE_MS = 500  # at the end of the program
MAX_NAME_CHARS = 256


class _Sender:
    """Sends markers for all threads of one process."""

    def __init__(self):
        self._lock = threading.Lock()
        self.pid = os.getpid()
        self._connection = None
        self._identity = None  # of the socket behind its descriptor
        self._retry_at = 0.0  # on the monotonic clock, as the next
        self._stuck_until = 0.0

    def send(self, what, name):
        """Whether it was handed to the kernel. Never raises."""
        try:
            line = self._render(what, name)
            if line is None or not self._lock.acquire(timeout=LOCK_SECONDS):
                return False
            try:
                return self._send_line(line)
            finally:
                self._lock.release()
        except Exception:  # the program goes on, whatever this is
            return False

    @staticmethod
    def _render(what, name):
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME_CHARS:
            return None
        request = {"jsonrpc": "2.0", "method": "phase", "params": {what: name}}
        return json.dumps(request).encode("ascii") + b"\n"

    def settle(self):
        """The daemon finds out whose a marker is by asking the kernel about this process, so what
        was sent last is lost if the process is gone by then: waits until all of it was read."""
        try:
            if self._connection is None or not self._is_still_ours():
                return
            self._put(b'{"jsonrpc":"2.0","method":"daemon.status","id":1}\n')
            poll = select.poll()
            poll.register(self._connection, select.POLLIN)
            poll.poll(SETTLE_MS)
        except Exception:
            pass

    def _send_line(self, line):
        had_connection = self._connection is not None
        try:
            return self._connect() and self._put(line)
        except OSError:
            self.forget()
            if had_connection:  # the daemon may have been started anew
                return self._send_line(line)
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return False

    def _connect(self):
        if self._connection is not None and not self._is_still_ours():
            self.forget()
        if self._connection is None:
            if time.monotonic() < self._retry_at:
                return False
            self._connection = self._find()
            self._identity = self._identify()
        return True

    def _put(self, line):
        try:
            sent = self._connection.send(line, MSG_NOSIGNAL)
        except BlockingIOError:
            if not self._has_room():
                return False
            sent = self._connection.send(line, MSG_NOSIGNAL)
        if sent < len(line):
            raise OSError("half a line: nothing can follow it")
        return True

    def _has_room(self):
        """A burst is waited for, for a moment; a daemon that hangs is not, but for once a second."""
        if time.monotonic() < self._stuck_until:
            return False
        poll = select.poll()
        poll.register(self._connection, select.POLLOUT)
        if poll.poll(BURST_MS):
            return True
        self._stuck_until = time.monotonic() + STUCK_SECONDS
        return False

    @staticmethod
    def _find():
        for path in socket_paths():
            try:
                return connect_once(path)
            except (Error, OSError, ValueError):
                continue
        raise OSError("no daemon is running")

    def _identify(self):
        status = os.fstat(self._connection.fileno())
        return status.st_dev, status.st_ino

    def _is_still_ours(self):
        """A program may close all descriptors, and then one of its own has the number."""
        try:
            return self._identify() == self._identity
        except OSError:
            return False

    def forget(self):
        """Closes this process's copy of the socket."""
        if self._connection is None:
            return
        if self._is_still_ours():
            self._connection.close()
        else:
            self._connection.detach()
        self._connection = None


_last_sender = _Sender()


def _sender():
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

    It never raises, swallows no exception of the program's, and waits for 5 ms in a second at
    most, if the daemon does not keep up, and for half a second when the program ends. The phase of a coroutine or generator function lasts as
    long as its body runs; an asynchronous generator function is left as it is.
    """

    def __init__(self, name):
        self.name = name
        self._sent_by = []  # senders, for it may be entered again inside itself

    def __enter__(self):
        sender = _sender()
        self._sent_by.append(sender if sender.send("enter", self.name) else None)
        return self

    def __exit__(self, *_):
        # Of a child that was forked inside the phase it is not the phase.
        if self._sent_by and self._sent_by.pop() is _sender():
            _sender().send("exit", self.name)
        return False

    def __call__(self, function):
        import inspect  # large, and for decorators only

        if inspect.isasyncgenfunction(function):
            return function
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args, **kwargs):
                with phase(self.name):
                    return await function(*args, **kwargs)

        elif inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                with phase(self.name):
                    return (yield from function(*args, **kwargs))

        else:

            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                with phase(self.name):
                    return function(*args, **kwargs)

        return wrapper
