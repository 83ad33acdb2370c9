#!/usr/bin/env python3
"""Asks the page of proctor's daemon over HTTP.

    web_client.py PORT get|post PATH [HEADER: VALUE]...   prints the status, and the body behind it
    web_client.py PORT login LINK                         the same, of the exchange for a cookie
    web_client.py PORT raw TEXT                           sends TEXT (with \\r\\n escapes) as it is
    web_client.py PORT headers BYTES                      a request with so many bytes of headers
    web_client.py PORT crowd N                            N connections with half a request; how many answers came
    web_client.py PORT events N [ID]                      prints the names and ids of N events behind ID
    web_client.py PORT slow                               asks much and reads nothing; "dropped" when it is hung up on

COOKIE is the cookie that is sent.
"""

import os
import re
import socket
import sys
import time

PATIENCE = 60


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    return s


def head_of(port, method, path, headers):
    lines = [f"{method.upper()} {path} HTTP/1.1"]
    if not any(h.lower().startswith("host:") for h in headers):
        lines.append(f"Host: 127.0.0.1:{port}")
    if method == "post" and not any(h.lower().startswith("origin:") for h in headers):
        lines.append(f"Origin: http://127.0.0.1:{port}")
    if os.environ.get("COOKIE"):
        lines.append(f"Cookie: {os.environ['COOKIE']}")
    return "\r\n".join([*lines, *headers, "Connection: close", "", ""]).encode()


def read_all(s):
    data = b""
    try:
        while chunk := s.recv(65536):
            data += chunk
    except OSError:
        pass
    return data.decode(errors="replace")


def show(answer):
    head, _, body = answer.partition("\r\n\r\n")
    status = re.match(r"HTTP/1\.1 (\d+)", head)
    cookie = re.search(r"(?im)^set-cookie: ([^;]*)", head)
    print(status[1] if status else "none")
    if cookie:
        print(cookie[1])
    print(body)


def ask(port, method, path, headers):
    s = connect(port)
    s.sendall(head_of(port, method, path, headers))
    show(read_all(s))


def send_headers(port, n):
    s = connect(port)
    try:
        s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        line = b"X-Much: " + b"a" * 8000 + b"\r\n"
        for _ in range(n // len(line)):
            s.sendall(line)
        s.sendall(b"\r\n")
    except OSError:
        pass
    show(read_all(s))


def crowd(port, n):
    connections = []
    for _ in range(n):
        try:
            s = connect(port)
            s.sendall(b"GET / HTTP/1.1\r\nHo")
            s.setblocking(False)
            connections.append(s)
        except OSError:
            pass
    answers = 0
    end = time.monotonic() + PATIENCE
    while answers < n // 2 and time.monotonic() < end:
        time.sleep(0.2)
        for s in list(connections):
            try:
                answers += s.recv(4096).startswith(b"HTTP/1.1 503")
                connections.remove(s)
            except BlockingIOError:
                pass
            except OSError:
                connections.remove(s)
    print(answers)


def events(port, n, last_id):
    s = connect(port)
    s.sendall(head_of(port, "get", "/events", [f"Last-Event-ID: {last_id}"] if last_id else []))
    text = ""
    while text.count("\nevent: ") < n or not text.endswith("\n\n\r\n"):
        chunk = s.recv(65536).decode(errors="replace")
        if not chunk:
            break
        text += chunk
    for event, topic in re.findall(r"(?m)^id: (\S+)\nevent: (\S+)$", text):
        print(event, topic)


def slow(port):
    s = connect(port)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    request = head_of(port, "get", "/dygraph.min.js", []).replace(b"Connection: close\r\n", b"")
    s.settimeout(1)
    try:
        s.sendall(request * 200)
    except OSError:
        pass
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(1)
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
        if info[0] != 1:  # no longer established: the other side has closed it
            print("dropped")
            return
    print("kept")


def main(port, action, *rest):
    if action in ("get", "post"):
        ask(port, action, rest[0], list(rest[1:]))
    elif action == "login":
        ask(port, "post", "/session", [f"X-Proctor-Link: {rest[0].rpartition('=')[2]}"])
    elif action == "raw":
        s = connect(port)
        s.sendall(rest[0].encode().decode("unicode_escape").encode("latin-1"))
        show(read_all(s))
    elif action == "headers":
        send_headers(port, int(rest[0]))
    elif action == "crowd":
        crowd(port, int(rest[0]))
    elif action == "events":
        events(port, int(rest[0]), rest[1] if len(rest) > 1 else "")
    elif action == "slow":
        slow(port)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(int(sys.argv[1]), *sys.argv[2:])
