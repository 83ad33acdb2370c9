#!/usr/bin/env python3
"""Runs many jobs, ends processes of proctor with SIGKILL, and compares what is recorded with what happened.

    stress.py kill PROCTOR [--jobs N] [--early N] [--daemon-kills N] [--at-once N] [--seed N] [--as USER]
    stress.py many PROCTOR [--jobs N] [--at-once N]

kill: N jobs of about a second, whose runners are killed at random moments but for every fourth; N more are killed
within 20 ms after their command began; meanwhile the daemon, if there is one, is killed and started so often.
many: N short runs of one job. With --as they are another user's, whose home is its HOME. Prints one JSON object:

harmed       jobs whose command began and did not end with all of its output, or with another status
lost_ends    runs that passed a status on, which the record does not have
unrecorded   jobs whose command began and which are not in the record; killed later than 20 ms after that
unrecorded_early   of those killed earlier, and of how many (early)
lost_by_daemon   with --as: of the same runs, those that root's daemon has without their status
unmet        with --as: how many of them root's daemon does not have, as it was never there when their runners looked
twice        jobs with more than one attempt
wrong        jobs whose record has a status that is not theirs
ticks_lost   the most samples of a killed run that proctor.jsonl has and the record does not (null: there was a daemon, or no log)
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pwd
import random
import signal
import subprocess
import tempfile
import time

LINES = 20
DEADLINE_S = 120

# Its first line comes before all else; it has all lines however its runner ends.
COMMAND = ('echo begin; i=0; while [ $i -lt %d ]; do echo line $i; sleep 0.05; i=$((i + 1)); done; echo end; exit "$0"' % LINES)
OUTPUT = "begin\n" + "".join(f"line {i}\n" for i in range(LINES)) + "end\n"


class Host:
    """Where jobs run: as whom, and where they write."""

    def __init__(self, options):
        self.proctor = options.proctor
        self.prefix = []
        self.folder = tempfile.mkdtemp(prefix="stress.", dir=os.environ.get("TMP"))
        os.chmod(self.folder, 0o777)
        if options.user:
            home = pwd.getpwnam(options.user).pw_dir
            self.prefix = ["setpriv", f"--reuid={options.user}", f"--regid={options.user}", "--init-groups",
                           "env", "-i", f"HOME={home}", f"PATH={os.environ['PATH']}"]

    def start(self, job, out, *command, interval="0.1"):
        argv = [*self.prefix, self.proctor, "run", "-q", "--interval", interval, "--job", job, "--", *command]
        with open(out, "w") as f:
            return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.DEVNULL, cwd="/")

    def ask(self, *arguments, as_root=False):
        text = subprocess.run([*([] if as_root else self.prefix), self.proctor, *arguments, "--json"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, cwd="/").stdout
        return json.loads(text or "[]")

    def attempts(self, as_root=False):
        """The record: attempts by job."""
        found = collections.defaultdict(list)
        for attempt in self.ask("jobs", "--all", as_root=as_root):
            found[attempt["job_id"]].append(attempt)
        return found


def wait_until(is_so):
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


class Run:
    """One job, whose runner is killed so long after its command began; None: not at all."""

    def __init__(self, host, number, kill_after):
        self.job = f"kill-{os.getpid()}-{number}"
        self.code = number % 100 + 1
        self.out = os.path.join(host.folder, self.job)
        self.kill_after = kill_after
        self.host = host
        self.status = None

    def do(self):
        process = self.host.start(self.job, self.out, "sh", "-c", COMMAND, str(self.code))
        if self.kill_after is not None:
            wait_until(lambda: self.output() or process.poll() is not None)
            time.sleep(self.kill_after)
            process.kill()
        self.status = process.wait()

    def output(self):
        with open(self.out) as f:
            return f.read()

    def is_killed(self):
        return self.status == -signal.SIGKILL

    def is_early(self):
        return self.kill_after is not None and self.kill_after <= 0.02


def kill_daemon_often(host, n_kills, is_over, rng):
    """How often it was; it is there again when this is over."""
    done = 0
    while done < n_kills and not is_over():
        time.sleep(rng.uniform(0.1, 0.5))
        status = subprocess.run([host.proctor, "status", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        if status:
            os.kill(json.loads(status)["pid"], signal.SIGKILL)
            done += 1
        subprocess.run([host.proctor, "start"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done


def count_ticks_lost(host, runs):
    """Of the run that lost most."""
    logged = collections.defaultdict(set)
    log = os.path.join(os.environ["PROCTOR_HOME"], "proctor.jsonl")
    for path in (log + ".2", log + ".1", log):
        if os.path.exists(path):
            with open(path) as f:
                for snapshot in map(json.loads, filter(lambda line: line.endswith("\n"), f)):
                    for process in snapshot["processes"]:
                        logged[process["job_id"]].add(snapshot["timestamp"])
    lost = []
    for run in runs:
        if run.is_killed() and run.job in logged:
            recorded = {s["timestamp"] for s in host.ask("history", "--job", run.job)}
            lost.append(len(logged[run.job] - recorded))
    return max(lost, default=None)


def kill(options):
    rng = random.Random(options.seed)
    host = Host(options)
    host.start("first", os.devnull, "true").wait()  # there is a database
    delays = [None if i % 4 == 3 else rng.uniform(0.02, 1) for i in range(options.jobs)]
    delays += [rng.uniform(0, 0.02) for _ in range(options.early)]
    rng.shuffle(delays)
    runs = [Run(host, i, delay) for i, delay in enumerate(delays)]
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        futures = [pool.submit(run.do) for run in runs]
        n_daemon_kills = kill_daemon_often(host, options.daemon_kills, lambda: all(f.done() for f in futures), rng)
        for future in futures:
            future.result()

    begun = [run for run in runs if run.output()]
    wait_until(lambda: all(run.output() == OUTPUT for run in begun))
    passed_on = [run for run in runs if not run.is_killed()]

    def is_recorded(run, attempts):
        return [a["exit_code"] for a in attempts.get(run.job, [])] == [run.code]

    def lost_ends():
        attempts = host.attempts()
        return [run.job for run in passed_on if not is_recorded(run, attempts)]

    def lost_by_daemon():
        attempts = host.attempts(as_root=True)
        return [run.job for run in passed_on if run.job in attempts and not is_recorded(run, attempts)]

    wait_until(lambda: not lost_ends())
    wait_until(lambda: not options.user or not lost_by_daemon())
    attempts = host.attempts()
    met = host.attempts(as_root=True) if options.user else None
    unrecorded = [run for run in begun if run.job not in attempts]
    return {
        "jobs": len(runs),
        "killed": sum(run.is_killed() for run in runs),
        "daemon_kills": n_daemon_kills,
        "harmed": [run.job for run in begun if run.output() != OUTPUT] +
                  [run.job for run in passed_on if run.status != run.code],
        "lost_ends": lost_ends(),
        "lost_by_daemon": lost_by_daemon() if options.user else [],
        "unmet": None if met is None else sum(run.job not in met for run in passed_on),
        "unrecorded": [run.job for run in unrecorded if not run.is_early()],
        "unrecorded_early": sum(run.is_early() for run in unrecorded),
        "early": sum(run.is_early() for run in begun),
        "twice": [run.job for run in runs if len(attempts.get(run.job, [])) > 1],
        "wrong": [run.job for run in runs for a in attempts.get(run.job, []) if a["exit_code"] not in (None, run.code)],
        "ticks_lost": count_ticks_lost(host, runs) if options.daemon_kills == 0 and not options.user else None,
    }


def many(options):
    host = Host(options)

    def do(number):
        return number % 200, host.start("many", os.devnull, "sh", "-c", 'exit "$0"', str(number % 200), interval="1").wait()

    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        ends = list(pool.map(do, range(options.jobs)))
    wait_until(lambda: len([a for a in host.attempts()["many"] if a["status"] == "done"]) >= options.jobs)
    attempts = host.attempts()["many"]
    return {
        "jobs": options.jobs,
        "harmed": sum(wanted != got for wanted, got in ends),
        "recorded": len(attempts),
        "is_numbered": sorted(a["attempt"] for a in attempts) == list(range(1, options.jobs + 1)),
        "has_ends": sorted(str(a["exit_code"]) for a in attempts) == sorted(str(wanted) for wanted, _ in ends),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["kill", "many"])
    parser.add_argument("proctor")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--early", type=int, default=0)
    parser.add_argument("--daemon-kills", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=4711)
    parser.add_argument("--as", dest="user")
    options = parser.parse_args()
    print(json.dumps({"kill": kill, "many": many}[options.what](options)))


main()
