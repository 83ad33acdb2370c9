#!/usr/bin/env python3
"""Plants causes and counts how often "proctor why" names them.

verdicts.py PROCTOR [--runs 20] [--daemon] [--only disk_full,...]

By hand, as it takes minutes: once as root with --daemon (a daemon of its own, with eBPF), once as an
unprivileged user without. Wants 90 % right and at most 2 % wrong of each cause, and no cause in 95 %
of the runs with nothing wrong. Nothing it starts outlives it, and no run takes longer than 30 s.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PYTHON = [sys.executable, "-S", "-c"]
LIMIT = "1s"

DEADLOCK = """import threading
a, b = threading.Lock(), threading.Lock()
gate = threading.Barrier(2)
def take(x, y):
    with x:
        gate.wait()
        y.acquire()
t = threading.Thread(target=take, args=(a, b), daemon=True)
t.start()
take(b, a)"""
EAT = "l = []\nwhile True: l.append(bytearray(b'x' * (8 << 20)))"


class Bench:
    def __init__(self, args):
        self.proctor = os.path.abspath(args.proctor)
        self.folder = tempfile.mkdtemp(prefix="verdicts.")
        self.n = 0
        self.env = dict(os.environ, PROCTOR_HOME=self.folder + "/home", XDG_RUNTIME_DIR=self.folder,
                        LANG="C", TMPDIR="/tmp")
        self.env.pop("PROCTOR_DB", None)
        os.mkdir(self.folder + "/home")
        self.full = self.folder + "/full"
        os.mkdir(self.full)
        self.has_full = os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.full]).returncode == 0
        self.cgroup = None
        if os.geteuid() == 0 and os.path.exists("/sys/fs/cgroup/cgroup.subtree_control"):
            self.cgroup = f"/sys/fs/cgroup/verdicts.{os.getpid()}"
            try:
                os.mkdir(self.cgroup)
                for name, value in (("memory.max", "120M"), ("memory.swap.max", "0")):
                    if os.path.exists(f"{self.cgroup}/{name}"):
                        with open(f"{self.cgroup}/{name}", "w") as f:
                            f.write(value)
            except OSError:
                self.cgroup = None

    def close(self):
        if self.has_full:
            subprocess.run(["umount", self.full])
        if self.cgroup:
            for _ in range(50):
                try:
                    os.rmdir(self.cgroup)
                    break
                except OSError:
                    time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words, **more):
        return subprocess.run([self.proctor, *words], env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, **more)

    def run(self, command, limit=None, during=None, before=None):
        """Returns the cause in one word: "unknown" where it is not found, None if all is well."""
        self.n += 1
        job = f"job{self.n}"
        words = ["run", "-q", "--kill-after", "1", "--job", job]
        if limit:
            path = f"{self.folder}/{job}.yaml"
            with open(path, "w") as f: # JSON is YAML
                json.dump({"sheets": [{"run": command, "timeout": limit}]}, f)
            words += ["-f", path]
        else:
            words += ["--", *command]
        p = subprocess.Popen([self.proctor, *words], env=self.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=before)
        try:
            if during:
                during(p)
            p.wait(30)
        finally:
            if p.poll() is None:
                p.terminate()
                p.wait()
        return json.loads(self.call("why", job, "--json").stdout)["cause"]

    def lock(self):
        path = self.folder + "/lock"
        holder = subprocess.Popen(["flock", "-o", path, "sleep", "30"])
        while subprocess.run(["flock", "-n", path, "true"]).returncode == 0:
            time.sleep(0.01)
        try:
            return self.run(["flock", path, "true"], LIMIT)
        finally:
            subprocess.run(["pkill", "-P", str(holder.pid)])
            holder.wait()

    def peer(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
            return self.run([*PYTHON, f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"],
                            LIMIT)

    def refused(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        return self.run([*PYTHON, f"import socket; socket.create_connection(('127.0.0.1', {port}))"])

    def disk_full(self):
        if not self.has_full:
            return "skipped"
        for name in os.listdir(self.full):
            os.unlink(f"{self.full}/{name}")
        return self.run(["dd", "if=/dev/zero", f"of={self.full}/big", "bs=64k", "count=64"])

    def killed(self):
        def kill(runner):
            for _ in range(500):
                found = subprocess.run(["pgrep", "-P", str(runner.pid), "sleep"],
                                       stdout=subprocess.PIPE, text=True).stdout.split()
                if found:
                    os.kill(int(found[0]), signal.SIGTERM)
                    return
                time.sleep(0.01)
        return self.run(["sleep", "20"], during=kill)

    def leak(self):
        if not self.cgroup:
            return "skipped"
        def enter():
            with open(self.cgroup + "/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))
        return self.run([*PYTHON, EAT], before=enter)


# What is planted, and which words name it.
PLANTS = [
    ("file lock", {"lock"}, Bench.lock),
    ("deadlock (futex)", {"wait", "futex"}, lambda b: b.run([*PYTHON, DEADLOCK], LIMIT)),
    ("slow peer on a socket", {"wait", "socket"}, Bench.peer),
    ("infinite loop", {"busy"}, lambda b: b.run([*PYTHON, "while True: pass"], LIMIT)),
    ("full disk", {"disk_full"}, Bench.disk_full),
    ("missing file", {"missing_file"}, lambda b: b.run(["cat", b.folder + "/none"])),
    ("missing file, script", {"missing_file"}, lambda b: b.run([*PYTHON, "open('none.csv')"])),
    ("missing command", {"not_found"}, lambda b: b.run(["sh", "-c", "proctor-none"])),
    ("refused connection", {"connection"}, Bench.refused),
    ("open files", {"file_limit"}, lambda b: b.run(
        ["sh", "-c", "ulimit -n 20; exec \"$@\"", "sh", *PYTHON, "l = [open('/dev/null') for _ in range(99)]"])),
    ("signal", {"signal"}, Bench.killed),
    ("crash", {"crash"}, lambda b: b.run(["sh", "-c", "kill -SEGV $$"])),
    ("leak", {"memory", "memory_likely"}, Bench.leak),
    ("failing step", {"child"}, lambda b: b.run(["sh", "-c", "sh -c 'exit 3'; exit $?"])),
]
FINE = [
    ("nothing wrong", lambda b: b.run(["sh", "-c", "ls / >/dev/null; cat /proctor-none 2>/dev/null; true"])),
    ("its own exit code", lambda b: b.run([*PYTHON, "import sys; sys.exit(3)"])),
]


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("proctor")
    p.add_argument("--runs", type=int, default=3, choices=range(1, 41))
    p.add_argument("--daemon", action="store_true", help="a daemon of its own follows the runs")
    p.add_argument("--only", default="", help="such as \"full disk,leak\"")
    args = p.parse_args()
    bench = Bench(args)
    is_good = True
    try:
        if args.daemon:
            bench.call("start", check=True)
        print(f"{'planted':24} {'runs':>4} {'right':>6} {'none':>6} {'wrong':>6}  named")
        for name, right, plant in PLANTS + [(n, {None, "unknown"}, f) for n, f in FINE]:
            if args.only and name not in args.only.split(","):
                continue
            n = args.runs * (2 if plant in [f for _, f in FINE] else 1)
            named = [plant(bench) for _ in range(n)]
            if "skipped" in named:
                print(f"{name:24} skipped: this user can plant none")
                continue
            n_right = sum(c in right for c in named)
            n_none = sum(c in (None, "unknown") for c in named) if None not in right else 0
            n_wrong = n - n_right - n_none
            is_good &= n_right >= (0.95 if None in right else 0.9) * n and n_wrong <= 0.02 * n
            print(f"{name:24} {n:4} {100 * n_right / n:5.0f}% {100 * n_none / n:5.0f}% "
                  f"{100 * n_wrong / n:5.0f}%  {', '.join(sorted({str(c) for c in named}))}", flush=True)
    finally:
        if args.daemon:
            bench.call("stop")
        bench.close()
    sys.exit(not is_good)


main()
