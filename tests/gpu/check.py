#!/usr/bin/env python3
"""check.py PROCTOR - what proctor says of a real NVIDIA GPU, beside what nvidia-smi says.

Needs a GPU, nvidia-smi and a python3 with PyTorch ("run" looks for them). Prints what it measured, and at the end
'N passed, N failed'. Nothing is left behind.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROCTOR = os.path.abspath(sys.argv[1])
HERE = os.path.dirname(os.path.abspath(__file__))
results = []


def check(ok, what):
    results.append(bool(ok))
    print(("ok   " if ok else "FAIL ") + what, flush=True)


def proctor(*args, **more):
    return subprocess.run([PROCTOR, *args], capture_output=True, text=True, **more)


def worker(*args):
    return [sys.executable, os.path.join(HERE, "worker.py"), *map(str, args)]


def ask_smi(query):
    out = subprocess.run(
        ["nvidia-smi", query, "--format=csv,noheader,nounits"], capture_output=True, text=True
    ).stdout
    return [[field.strip() for field in line.split(",")] for line in out.splitlines() if line]


class Smi(threading.Thread):
    """Asks nvidia-smi all the time, as a witness."""

    def __init__(self):
        super().__init__(daemon=True)
        self.rows, self.apps, self.is_over = [], [], False

    def run(self):
        while not self.is_over:
            (first, *_) = ask_smi("--query-gpu=utilization.gpu,memory.used,temperature.gpu")
            self.rows.append((time.time(), *map(float, first)))
            for pid, mib in ask_smi("--query-compute-apps=pid,used_memory"):
                self.apps.append((time.time(), int(pid), float(mib)))
            time.sleep(0.2)

    def stop(self):
        self.is_over = True
        self.join()
        return self


def sql(query):
    lines = proctor("sql", "--json", query).stdout
    return json.loads(lines) if lines.startswith("[") else [json.loads(x) for x in lines.splitlines()]


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else float("nan")


def near(a, b, share, least=0.0):
    return abs(a - b) <= max(share * abs(b), least)


def watched_run(job, *command, options=("--interval", "1"), **more):
    smi = Smi()
    smi.start()
    done = proctor("run", *options, "--job", job, "--", *command, **more)
    smi.stop()
    return done, smi


def samples_of(job):
    return sql(
        "SELECT timestamp, pid, command, gpu_memory_mb, gpu_pct FROM process_metrics "
        f"WHERE job_id = '{job}' AND gpu_memory_mb > 0"
    )


def devices():
    rows = sql("SELECT timestamp, gpus FROM snapshots WHERE gpus IS NOT NULL")
    return [(row["timestamp"], json.loads(row["gpus"])[0]) for row in rows if row["gpus"] != "[]"]


def check_one_job():
    done, smi = watched_run("one", *worker(8192, 20, 1.0))
    check(done.returncode == 0, "the job runs as without proctor")
    ours = [(t, g) for t, g in devices() if g["memory_used_mb"] > 8192]
    theirs = [r for r in smi.rows if r[2] > 8192]
    used, smi_used = median([g["memory_used_mb"] for _, g in ours]), median([r[2] for r in theirs])
    util = median([g["utilization_pct"] for _, g in ours])
    smi_util = median([r[1] for r in theirs])
    print(f"device memory: {used:.0f} MiB, nvidia-smi {smi_used:.0f} MiB")
    print(f"utilisation: {util:.0f} %, nvidia-smi {smi_util:.0f} %, {len(ours)} readings")
    check(near(used, smi_used, 0.02), "device memory is within 2 % of nvidia-smi")
    check(near(util, smi_util, 0, 10), "utilisation is within 10 points of nvidia-smi")
    mine = samples_of("one")
    held = median([row["gpu_memory_mb"] for row in mine])
    shares = [row["gpu_pct"] for row in mine if row["gpu_pct"] is not None]
    smi_held = median([mib for _, _, mib in smi.apps if mib > 8192])
    print(f"process: {held:.0f} MiB, nvidia-smi {smi_held:.0f} MiB; share {median(shares):.0f} %")
    check(near(held, smi_held, 0.02), "the process's memory is within 2 % of nvidia-smi")
    check(len({row["pid"] for row in mine}) == 1, "one process holds the GPU")
    check(near(median(shares), smi_util, 0, 10), "its share is within 10 points")
    check_gpu_seconds("one", done, 0, "its GPU time is within 15 % of what it says itself")


def worked(done):
    """What the worker says of itself."""
    said = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("worked ")]
    return float(said[-1]) if said else float("nan")


def check_gpu_seconds(job, done, least, what):
    report = json.loads(proctor("report", job, "--format", "json").stdout)
    truth, ours = worked(done), report["gpu_seconds"]
    print(f"GPU time of {job}: {ours} s, by its own clock {truth} s")
    print(f"idle: {report['gpu_idle_seconds']} s, unknown: {report['unknown']}")
    check(ours is not None and near(ours, truth, 0.15, least), what)


def check_short_job():
    """Readings come every second: what begins between two is seen a second late at most."""
    done, _ = watched_run("short", *worker(1024, 4, 1.0))
    check(done.returncode == 0, "a short job runs")
    check_gpu_seconds("short", done, 1.5, "GPU time of 4 s is right, but for a reading or two")


def check_two_processes():
    script = " ".join(worker(4096, 20, 0.5)) + " & " + " ".join(worker(12288, 20, 0.5)) + "; wait"
    done, smi = watched_run("two", "sh", "-c", script)
    check(done.returncode == 0, "two processes run on one GPU")
    held = {}
    for row in samples_of("two"):
        held.setdefault(row["pid"], []).append(row["gpu_memory_mb"])
    theirs = {}
    for _, pid, mib in smi.apps:
        theirs.setdefault(pid, []).append(mib)
    ours = {pid: median(values) for pid, values in held.items()}
    smi_says = {pid: median(values) for pid, values in theirs.items()}
    print(f"two processes: {ours}, nvidia-smi {smi_says}")
    check(len(ours) == 2, "both are seen")
    check(
        all(near(mib, smi_says.get(pid, -1), 0.02) for pid, mib in ours.items()),
        "each with its own memory, within 2 %",
    )


def check_idle_holder():
    """Memory held, nothing done: what people wait for when a GPU is blocked."""
    done, _ = watched_run("idle", *worker(2048, 25, 0.0))
    check(done.returncode == 0, "a process that only holds memory runs")
    report = json.loads(proctor("report", "idle", "--format", "json").stdout)
    print("idle holder:", {k: v for k, v in report.items() if "gpu" in k})
    check((report["gpu_idle_seconds"] or 0) >= 12, "its idle time is counted")
    check((report["gpu_seconds"] or 0) <= 3, "and it was not busy")
    shares = [row["gpu_pct"] for row in samples_of("idle")]
    check(shares and shares[-1] == 0, "its share is 0, and not unknown")


def check_busy_then_idle(job, options, least_idle):
    """What was busy once and still holds its memory is not busy on, nor was it idle before."""
    done, _ = watched_run(job, *worker(2048, 6, 1.0, 10), options=options)
    check(done.returncode == 0, "a process that works and then holds its memory runs")
    report = json.loads(proctor("report", job, "--format", "json").stdout)
    busy, idle, truth = report["gpu_seconds"], report["gpu_idle_seconds"], worked(done)
    shares = [(round(row["timestamp"], 1), row["gpu_pct"]) for row in samples_of(job)]
    print(f"busy, then idle ({job}): {busy} s busy, by its own clock {truth} s; {idle} s idle of 10; {shares}")
    check(busy is not None and near(busy, truth, 0, 2), "its GPU time is within 2 s of what it says")
    check(idle is not None and least_idle <= idle <= 11, "the time for which it held memory in vain is told")
    held = [p for p in report["processes"] if (p["peak_gpu_memory_mb"] or 0) > 2048]
    check(
        len(held) == 1 and held[0]["gpu_seconds"] == busy and held[0]["gpu_idle_seconds"] == idle,
        "and both of the process that was it",
    )


def without_library(folder):
    """An environment in which proctor cannot load NVIDIA's library, and nvidia-smi can."""
    libraries = os.environ.get("LD_LIBRARY_PATH", "")
    open(os.path.join(folder, "libnvidia-ml.so.1"), "w").close()
    program = os.path.join(folder, "nvidia-smi")
    with open(program, "w") as script:
        script.write(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {shutil.which("nvidia-smi")} "$@"\n')
    os.chmod(program, 0o755)
    both = {"LD_LIBRARY_PATH": f"{folder}:{libraries}", "PATH": f"{folder}:{os.environ['PATH']}"}
    return {**os.environ, **both}, ["env", f"LD_LIBRARY_PATH={libraries}"]


def check_smi_rung():
    with tempfile.TemporaryDirectory() as folder:
        environment, plain = without_library(folder)
        done, smi = watched_run("smi", *plain, *worker(4096, 30, 0.5), env=environment)
    check(done.returncode == 0, "a job runs where the library cannot be loaded")
    report = json.loads(proctor("report", "smi", "--format", "json").stdout)
    check(report["rungs"].get("GPU") == "nvidia-smi", f"the rung is {report['rungs'].get('GPU')}")
    held = median([row["gpu_memory_mb"] for row in samples_of("smi")])
    theirs = median([mib for _, _, mib in smi.apps])
    print(f"process by nvidia-smi: {held:.0f} MiB, nvidia-smi {theirs:.0f} MiB")
    check(near(held, theirs, 0.02), "its memory is within 2 %")


CRASHING_LIBRARY = """
#include <stdlib.h>
#include <sys/resource.h>
int nvmlInit_v2(void) { struct rlimit none = { 0, 0 }; setrlimit(RLIMIT_CORE, &none); abort(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int result) { return result ? "failed" : "well"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 0; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **ret) { *ret = NULL; return i != 0; }
"""


def put_crashing_library(folder):
    if not shutil.which("gcc"):
        return False
    library = os.path.join(folder, "libnvidia-ml.so.1")
    build = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
    return subprocess.run(build, input=CRASHING_LIBRARY, text=True).returncode == 0


def check_crash():
    """A library that takes its process with it gives way to nvidia-smi."""
    with tempfile.TemporaryDirectory() as folder:
        environment, _ = without_library(folder)
        if not put_crashing_library(folder):
            print("not tested: a library that crashes (it takes gcc)")
            return
        snap = json.loads(proctor("snapshot", "--json", env=environment).stdout)
        proctor("run", "-q", "--interval", "1", "--job", "crash", "--", "sleep", "8", env=environment)
        said = proctor("doctor", env=environment).stdout
    print("after a crash:", json.dumps(snap["gpus"]))
    check(snap["gpus"] and snap["gpus"][0]["memory_total_mb"], "a snapshot has the GPU all the same")
    report = json.loads(proctor("report", "crash", "--format", "json").stdout)
    print("unknown:", report["unknown"])
    check(report["rungs"].get("GPU") == "nvidia-smi", f"the rung is {report['rungs'].get('GPU')}")
    check(any("NVML crashed (Aborted)" in u["why"] for u in report["unknown"]), "and why is said")
    check("NVML: it crashes the process that asks it" in said, "doctor says it too")


def without_rights(*command):
    """The command where the GPU's device files are there and nobody may open them."""
    script = (
        "for node in /dev/nvidia*; do [ -c $node ] || continue;"
        ' mount --bind $node $node && mount -o remount,bind,nodev $node || exit 125; done; exec "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", script, "sh", *command]


def check_log_without_rights():
    """A daemon that has looked has nothing to say either."""
    with tempfile.TemporaryDirectory() as home:
        with open(os.path.join(home, "proctor.yaml"), "w") as config:
            config.write("interval_seconds: 1\n")
        script = '"$1" start && sleep 8; "$1" stop'
        environment = {**os.environ, "PROCTOR_HOME": home}
        done = subprocess.run(
            without_rights("sh", "-c", script, "sh", PROCTOR),
            capture_output=True, text=True, env=environment,
        )
        check(done.returncode == 0, f"a daemon runs without rights {done.stderr!r}")
        with open(os.path.join(home, "daemon.log")) as log:
            words = [line for line in log if "GPU" in line or "NVML" in line or "nvidia" in line]
        check(not words, f"its log has no word about GPUs: {words}")


def check_no_rights():
    """Neither a GPU nor a word about it, but in doctor."""
    if subprocess.run(without_rights("true"), capture_output=True).returncode != 0:
        print("not tested: whether a GPU without rights is passed over (it takes a mount namespace)")
        return
    run = lambda *args: subprocess.run(
        without_rights(PROCTOR, *args), capture_output=True, text=True
    )
    snap = run("snapshot", "--json")
    check(json.loads(snap.stdout)["gpus"] == [] and not snap.stderr, "without rights there is no GPU")
    done = run("run", "-q", "--interval", "1", "--job", "norights", "--", "sleep", "8")
    check(done.returncode == 0 and not done.stderr, f"a job runs without a word {done.stderr!r}")
    report = json.loads(proctor("report", "norights", "--format", "json").stdout)
    # No driver answers, but who has no device file open uses no GPU, whatever there is.
    check(report["gpu_seconds"] == 0, f"its GPU time is 0, and not unknown: {report['gpu_seconds']}")
    check(
        not any(u["what"] == "gpus" for u in report["unknown"]),
        f"the report has no word about GPUs: {report['unknown']}",
    )
    text = proctor("report", "norights").stdout
    check("NVML" not in text and "nvidia" not in text.lower(), "nor has it as text")
    check_log_without_rights()
    said = run("doctor").stdout
    print("doctor without rights:", said[said.find("GPU") : said.find("memory truth")])
    rungs = json.loads(run("doctor", "--json").stdout)["rungs"]
    check(rungs["GPU"] == "none", "doctor says that none can be read, and why")


def check_report():
    report = json.loads(proctor("report", "one", "--format", "json").stdout)
    print("rung:", report["rungs"].get("GPU"), "unknown:", report["unknown"])
    print("report gpu:", {k: v for k, v in report.items() if "gpu" in k})
    check("NVML" in str(report["rungs"].get("GPU")), "NVML was asked")


def check_nothing_left():
    time.sleep(2.5)
    left = subprocess.run(["ps", "-eo", "pid,comm"], capture_output=True, text=True).stdout
    check("proctor-gpu" not in left, "no process that reads GPUs is left")


def main():
    home = tempfile.mkdtemp(prefix="proctor-gpu-")
    os.environ["PROCTOR_HOME"] = home
    try:
        print(proctor("doctor").stdout)
        rungs = json.loads(proctor("doctor", "--json").stdout)["rungs"]
        check(rungs["GPU"] == "NVML", "doctor names the rung")
        snap = json.loads(proctor("snapshot", "--json").stdout)
        print("snapshot gpus:", json.dumps(snap["gpus"]))
        check(snap["gpus"], "a snapshot has the GPU")
        check_one_job()
        check_short_job()
        check_two_processes()
        check_idle_holder()
        check_busy_then_idle("rest", ("--interval", "1"), 7)
        check_busy_then_idle("rest-default", (), 6)  # samples are up to 3 s apart by its end
        check_smi_rung()
        check_crash()
        check_no_rights()
        check_report()
        check_nothing_left()
    finally:
        shutil.rmtree(home)
    print(f"\n{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


sys.exit(main())
