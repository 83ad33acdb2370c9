#!/usr/bin/env python3
"""record_ranks.py FOLDER [options] - records programs of many ranks on CPUs under proctor, with truth.

Each job loads a model in blocks and works in steps: batches of varying size, an evaluation, a
checkpoint by rank 0, a cache that fills, teeth of a collector. It is started by mpirun, by Python's
multiprocessing or by `ranks:` of a job file. By its seed it has a culprit or none, of the kinds that
tests/gpu/first_cause_jobs.py has. FOLDER gets NAME.jsonl.gz (`proctor export telemetry`) and
NAME.truth.json of each job.

  --proctor PATH    the program that records (build/proctor beside this file's tree)
  --jobs N          how many (10), with the seeds --seed, --seed + 1, ... (default 1)
  --parallel N      so many at a time (2)
"""

import argparse
import gzip
import json
import multiprocessing
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
KINDS = [
    "alone", "none", "first", "none_growth", "first", "alone_step", "none", "from_start", "first", "none",
]
LAUNCHERS = ["mpirun", "multiprocessing", "ranks"]


def make_plan(seed):
    g = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    n = g.choice([2, 3, 4, 4, 6])
    interval = g.choice([0.5, 1.0, 1.0, 2.0])
    seconds = g.uniform(30, 40) + (10 if interval > 1 else 0)
    onset = g.uniform(0.4, 0.55) * seconds
    culprit = None if kind.startswith("none") else g.randrange(n)
    lead = max(g.choice([1.0, 2.0, 3.0, 5.0]), 1.5 * interval)
    rate, size = g.choice([4, 8, 16]), g.choice([60, 120, 250])
    ranks = []
    for rank in range(n):
        keeps = {"onset": None, "rate": rate, "at_once": size if kind == "alone_step" else 0}
        if kind == "alone_step":
            keeps["rate"] = 0
        if kind == "none_growth" or (kind == "first" and rank != culprit):
            keeps["onset"] = onset + (lead if kind == "first" else 0)
        elif rank == culprit:
            keeps["onset"] = 0.0 if kind == "from_start" else onset
        ranks.append(keeps)
    stagger = g.choice([0, 0, 1.0, 3.0])
    return {
        "name": f"cpu-{seed:04d}", "seed": seed, "kind": kind, "n_ranks": n, "interval": interval,
        "culprit": culprit, "lead": lead if kind == "first" else None, "seconds": seconds,
        "launcher": LAUNCHERS[seed // len(KINDS) % len(LAUNCHERS)], "ranks": ranks,
        "delays": [g.uniform(0, stagger) for _ in range(n)],
        "model": g.choice([30, 60, 150]), "blocks": g.randrange(1, 8), "batch": g.choice([1, 4, 10]),
        "evaluates": g.choice([None, 7.0, 11.0]), "eval_size": g.choice([10, 40]),
        "checkpoints": g.choice([None, 9.0]), "cache": g.choice([0, 0, 20]),
        "tooth": g.choice([0, 0, 10, 30]), "extra_rank0": g.choice([0, 0, 40]),
    }


def take(mib):
    """That much memory, touched."""
    held = bytearray(int(mib * MIB))
    held[::4096] = b"x" * len(held[::4096])
    return held


def meet(folder, rank, n):
    """Returns the same moment in all ranks: the newest of the files with which they are ready."""
    open(os.path.join(folder, f"ready-{rank}"), "w").close()
    names = [os.path.join(folder, f"ready-{i}") for i in range(n)]
    while not all(os.path.exists(name) for name in names):
        time.sleep(0.01)
    return max(os.stat(name).st_mtime for name in names)


def be_rank(plan, folder, rank):
    rng = random.Random(plan["seed"] * 1000 + rank)
    time.sleep(plan["delays"][rank])
    model = []
    for _ in range(plan["blocks"]):
        model.append(take(plan["model"] / plan["blocks"]))
        time.sleep(rng.uniform(0.05, 0.6))
    if rank == 0 and plan["extra_rank0"]:
        model.append(take(plan["extra_rank0"]))
    begin = meet(folder, rank, plan["n_ranks"])
    held, tooth, cache, began_ns = [], [], [], None
    next_eval, next_save, next_sweep = plan["evaluates"], plan["checkpoints"], rng.uniform(3, 6)
    while True:
        elapsed = time.time() - begin
        if elapsed >= plan["seconds"]:
            break
        batch = take(plan["batch"] * rng.uniform(0.5, 1))
        sum(batch[::65536])
        if sum(map(len, cache)) < plan["cache"] * MIB and rng.random() < 0.05:
            cache.append(take(1))
        if plan["tooth"]:
            tooth.append(take(plan["tooth"] / 40))
            if elapsed >= next_sweep:
                tooth.clear()
                next_sweep += 4
        if next_eval is not None and elapsed >= next_eval:
            next_eval += plan["evaluates"]
            evaluation = take(plan["eval_size"])
            time.sleep(0.8)
            del evaluation
        if next_save is not None and elapsed >= next_save and rank == 0:
            next_save += plan["checkpoints"]
            copy = take(plan["model"])
            time.sleep(0.5)
            del copy
        keeps, elapsed = plan["ranks"][rank], time.time() - begin
        if keeps["onset"] is not None and elapsed >= keeps["onset"]:
            wanted = keeps["at_once"] + keeps["rate"] * (elapsed - keeps["onset"])
            while sum(map(len, held)) < (wanted - 0.25) * MIB:
                held.append(take(keeps["at_once"] or 0.25))
            if held and began_ns is None:
                began_ns = time.time_ns()
        del batch
        time.sleep(0.08)
    with open(os.path.join(folder, f"rank-{rank}.json"), "w") as out:
        json.dump({"rank": rank, "began_ns": began_ns}, out)


def be_launched(folder):
    """One process of mpirun's or of a job file's `ranks:`, or the parent of multiprocessing."""
    with open(os.path.join(folder, "plan.json")) as text:
        plan = json.load(text)
    if plan["launcher"] != "multiprocessing":
        variable = {"mpirun": "OMPI_COMM_WORLD_RANK", "ranks": "PROCTOR_RANK"}[plan["launcher"]]
        be_rank(plan, folder, int(os.environ[variable]))
        return
    context = multiprocessing.get_context("spawn")
    children = []
    for rank in range(plan["n_ranks"]):
        os.environ.update(PROCTOR_RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(plan["n_ranks"]))
        children.append(context.Process(target=be_rank, args=(plan, folder, rank)))
        children[-1].start()
    for child in children:
        child.join()


def record(plan, proctor):
    home = tempfile.mkdtemp(prefix="ranks-")
    telemetry, me = os.path.join(home, "telemetry.jsonl"), os.path.abspath(__file__)
    with open(os.path.join(home, "plan.json"), "w") as out:
        json.dump(plan, out)
    env = dict(os.environ, PROCTOR_HOME=os.path.join(home, "home"), OMPI_ALLOW_RUN_AS_ROOT="1",
               OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    run = [proctor, "run", "--interval", str(plan["interval"]), "--job", plan["name"]]
    if plan["launcher"] == "ranks":
        job = os.path.join(home, "job.yaml")
        with open(job, "w") as out:
            out.write(f"sheets:\n  - run: [{sys.executable}, {me}, {home}, --launched]\n"
                      f"    ranks: {plan['n_ranks']}\n")
        run += ["-f", job]
    else:
        start = ["mpirun", "--oversubscribe", "-n", str(plan["n_ranks"])] if plan["launcher"] == "mpirun" else []
        run += ["--", *start, sys.executable, me, home, "--launched"]
    try:
        for command in run, [proctor, "export", "telemetry", "--job", plan["name"], "-o", telemetry]:
            done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=180)
            if done.returncode != 0:
                print(plan["name"], command[:3], "exit", done.returncode, done.stdout[-600:], flush=True)
                return None
        truth = {k: plan[k] for k in ("name", "seed", "kind", "n_ranks", "interval", "culprit", "lead")}
        truth.update(program=plan["launcher"], began=[], plan=plan)
        for rank in range(plan["n_ranks"]):
            with open(os.path.join(home, f"rank-{rank}.json")) as text:
                truth["began"].append(json.load(text)["began_ns"])
        with open(telemetry, "rb") as text:
            return text.read(), truth
    finally:
        shutil.rmtree(home, ignore_errors=True)


def main():
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--launched", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--proctor", default=os.path.join(tree, "build", "proctor"))
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=2)
    args = parser.parse_args()
    if args.launched:
        be_launched(args.folder)
        return 0

    os.makedirs(args.folder, exist_ok=True)
    seeds, lock = list(range(args.seed, args.seed + args.jobs)), threading.Lock()

    def work():
        while True:
            with lock:
                if not seeds:
                    return
                plan = make_plan(seeds.pop(0))
            found = record(plan, os.path.abspath(args.proctor))
            print(plan["name"], plan["kind"], plan["launcher"], "recorded" if found else "FAILED", flush=True)
            if found:
                path = os.path.join(args.folder, plan["name"])
                with gzip.open(path + ".jsonl.gz", "wb", 9) as out:
                    out.write(found[0])
                with open(path + ".truth.json", "w") as out:
                    json.dump(found[1], out)

    workers = [threading.Thread(target=work) for _ in range(args.parallel)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
