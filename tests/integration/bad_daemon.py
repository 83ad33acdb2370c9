#!/usr/bin/env python3
"""bad_daemon.py HOW SOCKET [LOG] - a daemon as it should not be, until it is killed.

HOW is a name of the table at the end. "record" is the one that does nothing wrong: it writes
"PID LINE" of each line it gets into LOG, the pid being that of whoever connected.
"""

import itertools
import os
import socket
import struct
import sys
import threading
import time

WRONG_ID = b'{"jsonrpc":"2.0","result":{},"id":999999}\n'
EVENT = b'{"jsonrpc":"2.0","method":"event","params":{"topic":"job.started","timestamp":1,"data":{}}}\n'


def peer_pid(client):
    return struct.unpack("iII", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def say(*chunks):
    """Says this to each request."""

    def serve(client):
        for _ in client.makefile("rb"):
            for chunk in chunks:
                client.sendall(chunk)

    return serve


def say_for_ever(*chunks):
    """Says this again and again, once it has been asked."""

    def serve(client):
        client.recv(1)
        for chunk in itertools.cycle(chunks):
            client.sendall(chunk)

    return serve


def flood_when_subscribed(client):
    client.recv(4096)
    client.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
    while True:
        client.sendall(EVENT * 1000)


def drip(client):
    client.recv(1)
    for byte in itertools.cycle(b'{"a":1'):
        client.sendall(bytes([byte]))
        time.sleep(0.01)


def never_read(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    time.sleep(3600)


def record(client):
    pid = peer_pid(client)
    for line in client.makefile("rb"):
        with open(sys.argv[3], "a", encoding="utf-8") as log:
            log.write(f"{pid} {line.decode()}")


HOW = {
    "nothing": say(b""),
    "end": lambda client: client.recv(1),
    "garbage": say(os.urandom(100).replace(b"\n", b"") + b"\n"),
    "text": say(b"220 mail ready\r\n"),
    "no-object": say(b"[1,2]\n", b"null\n", b"17\n"),
    "half-line": say(b'{"jsonrpc":"2.0","result":'),
    "wrong-ids": say(WRONG_ID, b'{"result":1,"id":"1"}\n', b'{"result":1}\n', b'{"result":1,"id":true}\n'),
    "no-result": say(b'{"jsonrpc":"2.0","id":1}\n'),
    "odd-error": say(b'{"jsonrpc":"2.0","id":1,"error":7}\n'),
    "deep": say(b"[" * 1000000 + b"\n"),
    "long-number": say(b'{"id":1,"result":' + b"9" * 5000000 + b"}\n"),
    "huge-line": say_for_ever(b"x" * 65536),
    "drip": drip,
    "flood": say_for_ever(WRONG_ID * 1000),
    "flood-of-events": say_for_ever(EVENT * 1000),
    "flood-when-subscribed": flood_when_subscribed,
    "answer-and-event": say(b'{"jsonrpc":"2.0","id":1,"result":{}}\n' + EVENT),
    "never-reads": never_read,
    "never-accepts": None,
    "record": record,
}


def serve(client, how):
    with client:
        try:
            how(client)
        except OSError:
            pass  # it has had enough


def main(how, path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path + ".new")
        listener.listen(0 if HOW[how] is None else 64)
        os.rename(path + ".new", path)  # who sees it can connect
        while HOW[how] is None:
            time.sleep(3600)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, HOW[how]), daemon=True).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
