#!/usr/bin/env python3
"""ranks.py PROCTOR [TIMES] - ranks of a job on one NVIDIA GPU: who began to take memory first?

Runs rank.py under proctor TIMES times (3), with another rank in the lead each time, which every
second time comes to the GPU as much before the others, and checks that the record, its export and
its analysis name it from GPU memory. Needs a GPU, and PyTorch or
libcuda.so.1. Prints what was found, and at the end 'N passed, N failed'. Nothing is left behind.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

PROCTOR = os.path.abspath(sys.argv[1])
TIMES = int(sys.argv[2]) if len(sys.argv) > 2 else 3
HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 4
LEAD = 2.0  # as rank.py has it
results = []


def check(ok, what):
    results.append(bool(ok))
    print(("ok   " if ok else "FAIL ") + what, flush=True)


def proctor(*args):
    done = subprocess.run([PROCTOR, *args], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"proctor {' '.join(args)}: exit {done.returncode}\n{done.stderr}", flush=True)
    return done


def read_json(*args):
    try:
        return json.loads(proctor(*args).stdout)
    except json.JSONDecodeError:
        return {}


def tell(finding):
    at = [
        (c["rank"], c["shape"], f"{c['onset_ns'] / 1e9 % 1000:.2f}", c["gain_bytes"] >> 20)
        for c in finding.get("candidates", [])
    ]
    print("finding:", finding.get("verdict"), finding.get("reason"))
    print("rank, shape, onset in s, gain in MiB:", at)


def check_finding(finding, leader, where):
    check(
        finding.get("verdict") == "named" and finding.get("rank") == leader,
        f"{where} names rank {leader}",
    )


def check_export(job, leader, folder):
    path = os.path.join(folder, job + ".jsonl")
    check(proctor("export", "telemetry", "--job", job, "-o", path).returncode == 0, "export")
    counts = read_json("ranks", "validate", "--json", path)
    check(counts.get("invalid") == 0 and counts.get("valid", 0) > 0, "whose records are valid")
    with open(path) as lines:
        events = [json.loads(line) for line in lines]
    used = {e["rank"]: 0 for e in events}
    for e in events:
        used[e["rank"]] = max(used[e["rank"]], e["device_used_bytes"])
    print("peak of each rank, MiB:", {rank: n >> 20 for rank, n in sorted(used.items())})
    check({e["metadata"]["measure"] for e in events} == {"gpu_memory"}, "of GPU memory")
    check(sorted(used) == list(range(RANKS)), "and of all ranks")
    check_finding(read_json("ranks", "analyze", "--json", path).get("finding", {}), leader, "it")


def check_job(job, leader, ahead, folder):
    meeting = os.path.join(folder, job)
    os.mkdir(meeting)
    launch = [os.path.join(HERE, "rank.py"), "launch", str(RANKS), str(leader), str(ahead)]
    done = proctor("run", "--interval", "1", "--job", job, "--", sys.executable, *launch, meeting)
    check(done.returncode == 0, f"{job}: the job runs")
    analysis = read_json("ranks", "analyze", "--json", "--job", job)
    finding = analysis.get("finding", {})
    tell(finding)
    check_finding(finding, leader, "the analysis")
    phases = (finding.get("phase_attribution") or {}).get("phase_paths", [])
    check("load-batch" in phases, f"with its phase: {phases}")
    report = read_json("report", "--json", job).get("telemetry") or {}
    check(report.get("measure") == "gpu_memory", "the report is about GPU memory")
    check_finding(report.get("finding", {}), leader, "the report")
    check_export(job, leader, folder)


def main():
    home = tempfile.mkdtemp(prefix="proctor-ranks-")
    os.environ["PROCTOR_HOME"] = os.path.join(home, "home")
    os.environ["PROCTOR"] = PROCTOR
    try:
        for i in range(TIMES):
            check_job(f"lead-{i}", (2 + i) % RANKS, LEAD * (i % 2), home)
    finally:
        shutil.rmtree(home)
    print(f"\n{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


sys.exit(main())
