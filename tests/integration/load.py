#!/usr/bin/env python3
"""load.py SOCKET JOB - a crowd at the daemon's socket, half of which means no good.

Connects 500 clients, of which 50 always have a request under way, and beside them those that a
daemon must bear. Prints one JSON object that says what came of each. JOB is one that runs, with
snapshots large enough to be too much for who does not read.
"""

import json
import os
import resource
import selectors
import socket
import sys
import time

N_CLIENTS = 500
N_ASKING = 50
SECONDS = 6
LINE_TIMEOUT = 30  # of the daemon, see docs/rpc.md
MIB = 1024 * 1024


def line(method, params=None, **more):
    message = {"jsonrpc": "2.0", "method": method, **more}
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode() + b"\n"


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def say(self, data):
        self.socket.sendall(data)

    def hear(self):
        """The next line; None: the daemon has closed the connection."""
        try:
            text = self.file.readline()
        except ConnectionError:
            return None
        return json.loads(text) if text else None

    def ask(self, method, params=None):
        self.say(line(method, params, id=1))
        return self.hear()

    def close(self):
        self.file.close()
        self.socket.close()


def code_of(answer):
    return answer["error"]["code"] if answer and "error" in answer else answer


# ---- bad input: each line gets its error, and the connection lives on ----

TOP = b'"jsonrpc":"2.0","method":"daemon.status"'
BAD_LINES = {
    "17 MiB": (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (17 * MIB) + b'"}', -32003),
    "16 MB of brackets": (b"[" * (16 * 1000 * 1000), -32003),
    "deeply nested": (b'{"a":' * 2000 + b"1" + b"}" * 2000, -32003),
    "a million values": (b"[" + b"0," * 1000000 + b"0]", -32003),
    "binary": (bytes(b for b in range(1, 256) if b != 10), -32700),
    "NUL": (b"{" + TOP + b',"id":1,"\x00":1}', -32700),
    "invalid UTF-8": (b"{" + TOP + b',"id":"\xff\xfe"}', -32700),
    "an overlong encoding": (b"{" + TOP + b',"id":"\xc0\xaf"}', -32700),
    "half a surrogate": (b"{" + TOP + b',"id":"\\ud800"}', -32700),
    "an escaped NUL": (b"{" + TOP + b',"id":"\\u0000"}', -32700),
    "a duplicate key": (b"{" + TOP + b',"id":1,"id":2}', -32700),
    "a huge number": (b"{" + TOP + b',"id":123456789012345678901234567890}', -32700),
    "a huge fraction": (b"{" + TOP + b',"id":1e999}', -32700),
    "half an object": (b"{" + TOP, -32700),
    "two objects": (b"{" + TOP + b',"id":1}{' + TOP + b',"id":1}', -32700),
    "a number": (b"17", -32600),
    "an empty batch": (b"[]", -32600),
    "a long batch": (b"[" + b",".join([b"{" + TOP + b',"id":1}'] * 101) + b"]", -32600),
    "no version": (b'{"method":"daemon.status","id":1}', -32600),
    "an id that is an object": (b"{" + TOP + b',"id":{}}', -32600),
    "a method that is a number": (b'{"jsonrpc":"2.0","method":7,"id":1}', -32600),
    "params that are a text": (b"{" + TOP + b',"id":1,"params":"x"}', -32600),
    "no such method": (line("daemon.stauts", id=1).rstrip(), -32601),
    "a param of a wrong type": (line("job.wait", {"job_id": [1]}, id=1).rstrip(), -32602),
    "a param out of range": (line("resource.context", {"pid": 2**53}, id=1).rstrip(), -32602),
    "a negative pid": (line("resource.context", {"pid": -1}, id=1).rstrip(), -32602),
    "a param that is unknown": (line("job.wait", {"job": "x"}, id=1).rstrip(), -32602),
    **{"a param where there are none, of " + method: (line(method, {"bogus": 1}, id=1).rstrip(), -32602)
       for method in ("daemon.status", "daemon.top", "daemon.top.stream", "daemon.config", "job.list", "daemon.stop")},
    "topics that are a number": (line("events.subscribe", {"topics": 5}, id=1).rstrip(), -32602),
    "a topic that is unknown": (line("events.subscribe", {"topics": ["*", "all"]}, id=1).rstrip(), -32602),
    "a job that is not there": (line("job.cancel", {"job_id": "nobody"}, id=1).rstrip(), -32001),
}


def say_bad_lines(path):
    """Names of those that were answered in another way than they should, with the answer."""
    wrong = {}
    client = Client(path)
    for name, (text, wanted) in BAD_LINES.items():
        client.say(text + b"\n")
        got = code_of(client.hear())
        if got != wanted:
            wrong[name] = got
    if "result" not in client.ask("daemon.status"):
        wrong["afterwards"] = "no answer"
    client.close()
    return wrong


def say_batches(path):
    client = Client(path)
    client.say(b'[{"jsonrpc":"2.0","method":"daemon.status","id":"a"},5,'
               b'{"jsonrpc":"2.0","method":"daemon.status"},{"jsonrpc":"2.0","method":"none","id":"b"}]\n')
    batch = client.hear()
    client.say(line("no.such.method") + b'[{"jsonrpc":"2.0","method":"none"}]\n' + line("daemon.status", id="next"))
    after = client.hear()
    client.close()
    return {"batch": [code_of(a) if "error" in a else "result" for a in batch],
            "ids": [a["id"] for a in batch], "after_notifications": after["id"]}


# ---- the crowd ----

def keep_asking(clients, until):
    """Each of them has one request under way all the time. How many were answered, and how many wrongly."""
    methods = ["daemon.top", "daemon.status", "job.list", "resource.context"]
    selector = selectors.DefaultSelector()
    n_asked, n_answered, n_wrong = 0, 0, 0

    def ask(client):
        nonlocal n_asked
        n_asked += 1
        client.wanted = n_asked
        client.text = b""
        client.say(line(methods[n_asked % len(methods)], id=n_asked))

    for client in clients:
        selector.register(client.socket, selectors.EVENT_READ, client)
        ask(client)
    while time.monotonic() < until:
        for key, _ in selector.select(1):
            client = key.data
            client.text += client.socket.recv(MIB)
            if not client.text.endswith(b"\n"):
                continue
            answer = json.loads(client.text)
            n_answered += 1
            n_wrong += answer["id"] != client.wanted or "result" not in answer
            ask(client)
    for client in clients:
        client.file.readline()  # the rest of its last answer
    selector.close()
    return n_answered, n_wrong


def wait_for_job(path, job, n):
    """As many who wait for the end of a job, on two connections. Their answers come at its end."""
    clients = [Client(path), Client(path)]
    for i in range(n):
        clients[i % 2].say(line("job.wait", {"job_id": job}, id=i))
    return clients


def flood(path):
    """Asks without ever reading. The daemon stops reading it, and drops it in the end."""
    client = Client(path)
    client.socket.setblocking(False)
    try:
        for _ in range(100000):
            client.socket.send(line("daemon.top", id=1))
    except BlockingIOError:
        pass
    return client


def is_closed(client):
    client.socket.setblocking(False)
    try:
        while client.socket.recv(MIB):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def read_what_waits(client):
    """How many events there are from before now, and how many of those were lost."""
    now, n_events, n_lost = time.time(), 0, 0
    while True:
        params = client.hear()["params"]
        if params["topic"] == "lost":
            n_lost += params["count"]
        elif params["timestamp"] > now:
            return n_events, n_lost
        else:
            n_events += 1


def one_round(path):
    crowd = [Client(path) for _ in range(N_CLIENTS)]
    wrong = say_bad_lines(path)
    answered, n_wrong = keep_asking(crowd[:N_ASKING], time.monotonic() + SECONDS)
    held = crowd[0].ask("daemon.status")["result"]["clients"]
    for client in crowd:
        client.close()
    return {"clients": held, "answered": answered, "wrong_answers": n_wrong, "wrong": wrong}


def status_of(path):
    client = Client(path)
    status = client.ask("daemon.status")["result"]
    client.close()
    return status


def main(path, job):
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    began, before = time.monotonic(), status_of(path)

    sleeper = Client(path)
    sleeper.say(b'{"jsonrpc":"2.0","meth')
    deaf = Client(path)
    deaf.ask("daemon.top.stream")
    flooder = flood(path)
    waiters = wait_for_job(path, job, N_ASKING)

    rounds, sizes = [], []
    for _ in range(2):
        rounds.append(one_round(path))
        sizes.append(status_of(path)["rss_mb"])
    batches = say_batches(path)
    first = deaf.hear()["params"]["topic"]  # who reads nothing in the midst of an event is dropped

    time.sleep(max(0.0, began + LINE_TIMEOUT + 2 - time.monotonic()))
    after, elapsed = status_of(path), time.monotonic() - began
    half_line = code_of(sleeper.hear()), sleeper.hear()
    n_events, n_lost = read_what_waits(deaf)
    n_events += first != "lost"  # none is lost before the first
    Client(path).ask("job.cancel", {"job_id": job})
    answers = [waiters[i % 2].hear() for i in range(N_ASKING)]
    print(json.dumps({
        "rounds": rounds, "batches": batches, "half_line": half_line,
        "flooder_is_closed": is_closed(flooder), "events": n_events, "lost": n_lost,
        "waiters": sorted({a["result"]["outcome"] for a in answers}),
        "waiter_ids": sorted(a["id"] for a in answers) == list(range(N_ASKING)),
        "elapsed": elapsed, "interval": after["interval_seconds"],
        "ticks": after["ticks"] - before["ticks"], "skipped": after["ticks_skipped"] - before["ticks_skipped"],
        "rss_mb": [before["rss_mb"], *sizes, after["rss_mb"]],
        "clients_left": after["clients"], "events_lost": after["events_lost"]}))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
