"""What a connection carries: calls with their answers, and events with their subscriptions.

Nothing here waits or knows a socket, so both clients use it.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ._errors import BadAnswer, error_of
from ._wire import Message, encode

if TYPE_CHECKING:
    from .models import AnyEvent

MAX_QUEUED = 4096  # events of a subscription that wait for their reader
MAX_QUEUED_BYTES = 64 << 20
LOST = "lost"
RECONNECTED = "reconnected"


class Event(NamedTuple):
    """Something that happened: topic, timestamp (unix seconds), data (a dict), lost (0).

    Where topic is "lost", that many events were, for this client was too slow. Where it is
    "reconnected", the connection was lost and is there again: events between may be missing, and
    their number is unknown. data is None in both.
    """

    topic: str
    timestamp: Optional[float] = None
    data: Any = None
    lost: int = 0

    def parse(self) -> Optional[AnyEvent]:
        """Its data as a model: ProcessEvent, Anomaly, SystemSnapshot or JobEvent, by the topic."""
        from .models import parse_event  # large, and not always needed

        return None if self.data is None else parse_event(self.topic, self.data)


def _event_of(message: Dict[str, Any]) -> Optional[Event]:
    """None: it is something else."""
    params = message.get("params")
    if message.get("method") != "event" or not isinstance(params, dict):
        return None
    topic, count = params.get("topic"), params.get("count")
    if topic == LOST:
        return Event(LOST, lost=count) if isinstance(count, int) and count > 0 else None
    if not isinstance(topic, str):
        return None
    return Event(topic, params.get("timestamp"), params.get("data"))


def _chooses(pattern: str, topic: str) -> bool:
    return pattern in ("*", topic) or (pattern.endswith(".*") and topic.startswith(pattern[:-1]))


class Queue:
    """The events of one subscription: the newest ones, and how many older ones had no room."""

    def __init__(self, topics: Sequence[str], max_queued: int) -> None:
        self.topics = list(topics) or ["*"]
        self._max_queued = max(1, max_queued)
        self._events: Deque[Tuple[Event, int]] = collections.deque()
        self._n_bytes = 0
        self._lost = 0

    def push(self, event: Event, n_bytes: int = 0) -> None:
        is_chosen = any(_chooses(pattern, event.topic) for pattern in self.topics)
        if not is_chosen and event.topic not in (LOST, RECONNECTED):
            return
        self._events.append((event, n_bytes))
        self._n_bytes += n_bytes
        while len(self._events) > self._max_queued or (
            self._n_bytes > MAX_QUEUED_BYTES and len(self._events) > 1
        ):
            oldest, size = self._events.popleft()
            self._n_bytes -= size
            self._lost += oldest.lost or 1

    def pop(self) -> Optional[Event]:
        if self._lost > 0:
            count, self._lost = self._lost, 0
            return Event(LOST, lost=count)
        if not self._events:
            return None
        event, size = self._events.popleft()
        self._n_bytes -= size
        return event


class Answer(NamedTuple):
    number: Optional[int]  # of its call; None: an error about whatever was asked
    body: Dict[str, Any]

    def result(self) -> Any:
        """Raises the daemon's error."""
        if "error" in self.body:
            raise error_of(self.body["error"])
        if "result" not in self.body:
            raise BadAnswer("the daemon's answer has neither result nor error")
        return self.body["result"]


class Session:
    """The calls and subscriptions of one client, over all its connections."""

    def __init__(self) -> None:
        self._number = 0  # of the last call
        self.queues: List[Queue] = []

    def request(self, method: str, params: Any) -> Tuple[int, bytes]:
        """params: a dict or a list; None: none."""
        self._number += 1
        request = {"jsonrpc": "2.0", "method": method, "id": self._number}
        if params is not None:
            request["params"] = params
        return self._number, encode(request)

    def receive(self, message: Message) -> Optional[Answer]:
        """The answer that it is; an event goes to the queues."""
        body = message.body
        number = body.get("id")
        if isinstance(number, int) and not isinstance(number, bool):
            return Answer(number, body)
        if number is None and "error" in body and "method" not in body:
            return Answer(None, body)
        event = _event_of(body)
        if event is not None:
            self.push(event, message.n_bytes)
        return None

    def push(self, event: Event, n_bytes: int = 0) -> None:
        for queue in self.queues:
            queue.push(event, n_bytes)

    def topics(self) -> List[str]:
        """Of all subscriptions: what a new connection subscribes to."""
        return sorted({topic for queue in self.queues for topic in queue.topics})
