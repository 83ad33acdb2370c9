"""A client of the daemon's socket, as docs/rpc.md describes it.

    rpc_client.py SOCKET METHOD [PARAMS [EVENTS]]

prints the result, or the error, as JSON, and then so many of the lines that follow. Tests import Client.
"""

import json
import socket
import sys
import time


def reject_duplicates(pairs):
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


class Client:
    def __init__(self, path="/run/proctor/proctor.sock"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(100)
        self.socket.connect(path)
        self.lines = self.socket.makefile()

    def send(self, method, params=None, id=1):
        self.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})

    def write(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def read(self):
        return json.loads(self.lines.readline(), object_pairs_hook=reject_duplicates)

    def ask(self, method, params=None):
        """The answer; events that come before it are passed over."""
        self.send(method, params)
        answer = self.read()
        while "id" not in answer:
            answer = self.read()
        return answer

    def close(self):
        self.lines.close()
        self.socket.close()

    @classmethod
    def until(cls, ask, is_enough):
        """What ask(client) gives, with new clients until it is enough, for at most 100 s."""
        for _ in range(500):
            answer = ask(cls())
            if is_enough(answer):
                break
            time.sleep(0.2)
        return answer


def main(path, method, params="{}", n_events="0"):
    client = Client(path)
    answer = client.ask(method, json.loads(params))
    print(json.dumps(answer["error"] if "error" in answer else answer["result"]), flush=True)
    for _ in range(int(n_events)):
        print(json.dumps(client.read()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
