"""Work in which nothing is wrong, for tests/data/record: workloads.py NAME SECONDS.

Each lasts about so many seconds and then ends by itself.
"""

import array
import http.client
import http.server
import math
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

MB = 1 << 20
ROOT = Path(__file__).resolve().parents[2]


def compile(seconds):
    """Builds this repository, as often as there is time for."""
    end = time.monotonic() + seconds
    env = dict(os.environ, CCACHE_DISABLE="1")
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as build:
            for command in (["meson", "setup", build, ROOT], ["ninja", "-C", build, "-j2"]):
                left = max(1, end - time.monotonic())
                try:
                    subprocess.run(command, env=env, timeout=left, stdout=subprocess.DEVNULL, check=True)
                except subprocess.TimeoutExpired:
                    return


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers after a little work, and remembers the last thousand answers."""

    protocol_version = "HTTP/1.1"
    cache = {}

    def do_GET(self):
        body = self.cache.get(self.path) or bytes(sum(range(2000)) % 256 for _ in range(20000))
        if len(self.cache) < 1000:
            self.cache[self.path] = body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def ask(port, path):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    client.request("GET", path)
    client.getresponse().read()
    client.close()


def serve(seconds, pause_at):
    """A server with four processes, which is asked for something after each pause."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    workers = [multiprocessing.Process(target=server.serve_forever, daemon=True) for _ in range(4)]
    for worker in workers:
        worker.start()
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        ask(server.server_port, f"/{random.randrange(3000)}")
        time.sleep(pause_at(passed))


def server(seconds):
    serve(seconds, lambda _: 10)


def busy(seconds):
    """More and less of it, in waves of two minutes."""
    serve(seconds, lambda t: 0.03 + 0.1 * (1 + math.sin(t / 120 * 2 * math.pi)))


def sawtooth(seconds):
    """Takes up to 400 MB bit by bit, gives all of it back, and begins again."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        held = []
        for _ in range(random.randrange(30, 40)):
            held.append(bytearray(10 * MB))
            time.sleep(random.uniform(0.5, 1.5))
        del held


def batch(seconds):
    """One short job after the other, three at a time."""
    jobs = (
        ["sh", "-c", "seq 1 2000000 | sort -R | sort -n | tail -1"],
        ["sh", "-c", "tar -c -C / usr/include | gzip -1 | wc -c"],
        ["find", "/usr/share", "-name", "*.h"],
        ["python3", "-c", "print(sum(i * i for i in range(3000000)))"],
        ["python3", "-c", "x = [bytearray(1 << 20) for _ in range(120)]; print(len(x))"],
        ["sleep", "2"],
    )
    end = time.monotonic() + seconds

    def work():
        while time.monotonic() < end:
            subprocess.run(random.choice(jobs), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.uniform(0, 2))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def load_batches(out, end):
    """Reads ahead for the training."""
    while time.monotonic() < end:
        out.put(array.array("d", (random.random() for _ in range(50000))))


def training(seconds):
    """Loads its data, then learns in epochs from what two helpers read, and writes down how far it is."""
    end = time.monotonic() + seconds
    data = []
    for _ in range(40):
        data.append(array.array("d", range(MB // 2)))
        time.sleep(0.2)
    queue = multiprocessing.Queue(8)
    helpers = [multiprocessing.Process(target=load_batches, args=(queue, end), daemon=True) for _ in range(2)]
    for helper in helpers:
        helper.start()
    folder = tempfile.mkdtemp()
    weights = array.array("d", bytes(8 * 50000))
    saved = time.monotonic()
    while time.monotonic() < end:
        for i, value in enumerate(queue.get()):
            weights[i] += 0.01 * (value - weights[i])
        if time.monotonic() - saved > 60:
            Path(folder, "checkpoint").write_bytes(b"".join(part.tobytes() for part in data[:12]))
            saved = time.monotonic()
    shutil.rmtree(folder)


if __name__ == "__main__":
    globals()[sys.argv[1]](float(sys.argv[2]))
