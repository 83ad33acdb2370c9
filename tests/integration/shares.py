# A client of the socket of the host's daemon, for 87-shares.sh.
import json
import socket
import time


class Client:
    def __init__(self, path="/run/proctor/proctor.sock"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(path)
        self.lines = self.socket.makefile()

    def send(self, method, params=None, id=1):
        self.write({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}})

    def write(self, message):
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def read(self):
        return json.loads(self.lines.readline())

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
