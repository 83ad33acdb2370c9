#!/usr/bin/env python3
"""pack_ranks.py pack FOLDER... >FILE  - recordings of ranks, with their truth, as one small file
pack_ranks.py check PROCTOR FILE     - what proctor answers to each of them: a TAP line for each bound

The recordings are those of record_ranks.py and of tests/gpu/first_cause_jobs.py (whose tar is
unpacked first). A line of FILE, which is JSON and compressed with gzip, is a job: its truth and for each
rank the start of its program, its end with its peak, and its samples: milliseconds since the one
before, and KiB more than that had.
"""

import glob
import gzip
import json
import os
import subprocess
import sys

T0 = 1_700_000_000_000_000_000
TRUTH = ("name", "program", "kind", "n_ranks", "interval", "culprit", "lead")
LEAST_RIGHT, LEAST_NONE = 0.85, 0.92  # of the jobs with a culprit, and of those without
MOST_WRONG = 0.01  # of all jobs


def pack_job(path):
    with open(path.replace(".jsonl.gz", ".truth.json")) as text:
        truth = json.load(text)
    with gzip.open(path, "rt") as lines:
        events = [json.loads(line) for line in lines]
    begin = min(e["timestamp_ns"] for e in events)
    job = {"truth": {k: truth[k] for k in TRUTH}, "ranks": []}
    for rank in range(truth["n_ranks"]):
        own = sorted((e for e in events if e["rank"] == rank), key=lambda e: e["timestamp_ns"])
        record = {"start": None, "end": None, "samples": []}
        last_ms, last_kib = 0, 0
        for e in own:
            ms, kib = (e["timestamp_ns"] - begin) // 1_000_000, e["device_used_bytes"] >> 10
            if e["event_type"] == "rank_start":
                record["start"] = ms
            elif e["event_type"] == "rank_end":
                record["end"] = [ms, kib]
            elif e["event_type"] == "sample":
                record["samples"] += [ms - last_ms, kib - last_kib]
                last_ms, last_kib = ms, kib
        job["ranks"].append(record)
    return job


def unpack_job(job):
    """Its telemetry, as lines."""
    n = len(job["ranks"])
    lines = []
    for rank, record in enumerate(job["ranks"]):

        def add(kind, ms, kib):
            # Milliseconds would be taken for timestamps that were cut off: these were not.
            used, at = kib << 10, T0 + ms * 1_000_000 + 12347 + rank
            lines.append(json.dumps({
                "schema_version": 2, "timestamp_ns": at, "event_type": kind, "collector": "recorded",
                "sampling_interval_ms": int(job["truth"]["interval"] * 1000), "pid": 100 + rank, "host": "h",
                "job_id": job["truth"]["name"], "rank": rank, "local_rank": rank, "world_size": n, "device_id": rank,
                "allocator_allocated_bytes": used, "allocator_reserved_bytes": used, "allocator_active_bytes": None,
                "allocator_inactive_bytes": None, "allocator_change_bytes": 0, "device_used_bytes": used,
                "device_free_bytes": None, "device_total_bytes": None, "context": None,
                "metadata": {"boot_id": "b"}, "session_id": "s"}))

        if record["start"] is not None:
            add("rank_start", record["start"], 0)
        if record["end"] is not None:
            add("rank_end", *record["end"])
        ms, kib = 0, 0
        for i in range(0, len(record["samples"]), 2):
            ms, kib = ms + record["samples"][i], kib + record["samples"][i + 1]
            add("sample", ms, kib)
    return "\n".join(lines) + "\n"


def check(proctor, path):
    counts = {True: {"right": 0, "wrong": 0, "none": 0, "cannot_tell": 0}}
    counts[False] = dict(counts[True])
    wrong = []
    with gzip.open(path, "rt") as lines:
        jobs = [json.loads(line) for line in lines]
    for job in jobs:
        done = subprocess.run([proctor, "ranks", "analyze", "--json", "-"], input=unpack_job(job),
                              capture_output=True, text=True, check=True)
        finding, truth = json.loads(done.stdout)["finding"], job["truth"]
        culprit = None if truth["kind"] == "transient" else truth["culprit"]
        answer = finding["verdict"]
        if answer == "named":
            answer = "right" if finding["rank"] == culprit else "wrong"
            if answer == "wrong":
                wrong.append(f"{truth['name']} ({truth['kind']}): rank {finding['rank']}, not {culprit}")
        counts[culprit is not None][answer] += 1
    with_culprit, without = counts[True], counts[False]
    for name, some in ("a culprit", with_culprit), ("none", without):
        print(f"# {sum(some.values())} jobs with {name}: " + ", ".join(f"{n} {k}" for k, n in some.items()))
    bounds = [
        (len(wrong) <= MOST_WRONG * len(jobs), "wrong names: " + ("; ".join(wrong) or "none")),
        (with_culprit["right"] >= LEAST_RIGHT * sum(with_culprit.values()), "culprits are named"),
        (without["none"] >= LEAST_NONE * sum(without.values()), "jobs without one are answered with none"),
        (len(jobs) >= 60, "there are 60 recordings"),
    ]
    for i, (ok, what) in enumerate(bounds, 1):
        print(f"{'ok' if ok else 'not ok'} {i} - {what}")
    print(f"1..{len(bounds)}")
    return 0 if all(ok for ok, _ in bounds) else 1


def main(arguments):
    if arguments[:1] == ["pack"]:
        paths = sorted(p for folder in arguments[1:] for p in glob.glob(os.path.join(folder, "*.jsonl.gz")))
        text = "".join(json.dumps(pack_job(path), separators=(",", ":")) + "\n" for path in paths)
        sys.stdout.buffer.write(gzip.compress(text.encode(), 9, mtime=0))
        return 0
    if arguments[:1] == ["check"] and len(arguments) == 3:
        return check(arguments[1], arguments[2])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
