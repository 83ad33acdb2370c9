#!/usr/bin/env python3
"""first_cause_jobs.py FOLDER [options] - records real training loops under proctor, with truth.

Each job is PyTorch under torchrun: a small transformer that trains with DistributedDataParallel
(gloo; all ranks share one GPU) with an optimiser that has states, evaluation, checkpoints and
batches of varying length. By its seed a job has a culprit or none:

  none          nothing but the training
  none_growth   all ranks begin to keep memory at one moment
  alone         one rank keeps more and more, the others do not
  alone_step    one rank takes much at once and keeps it
  from_start    one rank keeps more and more since its training began
  first         all ranks keep more and more; one of them began LEAD seconds before the others
  transient     one rank takes much, and gives it back some seconds later

FOLDER gets jobs.tar, to which each job adds NAME.jsonl.gz (`proctor export telemetry`) and
NAME.truth.json as soon as it has ended, and log, which has the output of jobs that failed.

  --proctor PATH    the program that records (build/proctor beside this file's tree)
  --jobs N          how many (20), with the seeds --seed, --seed + 1, ... (default 1)
  --parallel N      so many at a time (3)
  --seconds N       no job is started that could end later than that (480)
"""

import argparse
import gzip
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

MIB = 1 << 20
KINDS = [
    "alone", "none", "first", "none_growth", "first", "alone_step", "none", "first", "from_start", "none",
    "alone", "first", "none", "transient", "first", "alone", "none_growth", "first", "none", "alone",
]


def make_plan(seed):
    """All that a job does, from its seed."""
    g = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    n = g.choice([2, 4, 4, 4, 8])
    interval = g.choice([0.5, 1.0, 1.0, 2.0])
    train = g.uniform(28, 36) + (8 if interval > 1 else 0)
    onset = g.uniform(0.35, 0.5) * train
    culprit = None if kind.startswith("none") else g.randrange(n)
    lead = g.choice([1.0, 2.0, 2.0, 3.0, 5.0])
    lead = max(lead, 1.5 * interval)
    ranks = []
    for rank in range(n):
        keeps = {"onset": None, "rate": 0, "at_once": 0, "until": None}
        if kind == "none_growth" or (kind == "first" and rank != culprit):
            keeps["onset"] = onset + (lead if kind == "first" else 0)
        elif rank == culprit:
            keeps["onset"] = 0.0 if kind == "from_start" else onset
        ranks.append(keeps)
    rate, size = g.choice([30, 60, 120, 280]) * MIB, g.choice([300, 800, 2000]) * MIB
    for keeps in ranks:
        if kind in ("alone_step", "transient"):
            keeps["at_once"] = size
        else:
            keeps["rate"] = rate
    if kind == "transient":
        ranks[culprit]["until"] = onset + g.uniform(4, 8)
    stagger = g.choice([0, 0, 1.0, 3.0])
    return {
        "name": f"gpu-{seed:04d}", "seed": seed, "kind": kind, "n_ranks": n, "interval": interval,
        "culprit": culprit, "lead": lead if kind == "first" else None, "train": train,
        "ranks": ranks,
        "delays": [g.uniform(0, stagger) for _ in range(n)],
        "width": g.choice([256, 512, 768]), "layers": g.choice([2, 4, 6]),
        "batch": g.choice([8, 16, 32]), "length": g.choice([64, 128, 256]),
        "varies": g.random() < 0.6, "optimiser": g.choice(["adamw", "adamw", "sgd"]),
        "evaluates": g.choice([None, 6.0, 9.0]), "eval_factor": g.choice([2, 4]),
        "checkpoints": g.choice([None, 7.0, 11.0]), "empties_cache": g.random() < 0.3,
        "extra_rank0": g.choice([0, 0, 200, 800]) * MIB, "piece": g.choice([1, 4, 20]) * MIB,
        "step_seconds": g.choice([0.05, 0.1, 0.2]),
    }


# ---- one rank of a job, under torchrun ----


def keep(torch, held, keeps, piece, elapsed):
    """Holds as much as the plan has for this moment."""
    if keeps["onset"] is None or elapsed < keeps["onset"]:
        return
    if keeps["until"] is not None and elapsed >= keeps["until"]:
        if held:
            held.clear()
            torch.cuda.empty_cache()
        return
    wanted = keeps["at_once"] + keeps["rate"] * (elapsed - keeps["onset"])
    while sum(t.numel() for t in held) + piece <= wanted:
        held.append(torch.empty(piece, dtype=torch.uint8, device="cuda"))


def be_rank(plan, folder):
    import torch
    import torch.distributed as dist
    from torch import nn

    rank = int(os.environ["RANK"])
    time.sleep(plan["delays"][rank])
    torch.cuda.set_device(0)
    dist.init_process_group("gloo")
    width, rng = plan["width"], random.Random(plan["seed"] * 1000 + rank)
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, plan["layers"]), nn.Linear(width, width)).cuda()
    model = nn.parallel.DistributedDataParallel(model)
    if plan["optimiser"] == "adamw":
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    else:
        optimiser = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    extra = torch.empty(plan["extra_rank0"] if rank == 0 else 0, dtype=torch.uint8, device="cuda")

    def batch(factor=1):
        length = plan["length"]
        if plan["varies"]:
            length = rng.randrange(length // 2, length + 1)
        return torch.randn(plan["batch"] * factor, length, width, device="cuda")

    begin = torch.tensor([time.time()], dtype=torch.float64)
    dist.broadcast(begin, 0)
    begin = begin.item()
    held, began_ns, next_eval, next_save = [], None, plan["evaluates"], plan["checkpoints"]
    while True:
        step_began = time.time()
        elapsed = step_began - begin
        over = torch.tensor([1.0 if elapsed >= plan["train"] else 0.0])
        dist.all_reduce(over)
        if over.item() > 0:
            break
        x = batch()
        loss = ((model(x) - x) ** 2).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if next_eval is not None and elapsed >= next_eval:
            next_eval += plan["evaluates"]
            with torch.no_grad():
                for _ in range(4):
                    model.module(batch(plan["eval_factor"])).sum().item()
            if plan["empties_cache"]:
                torch.cuda.empty_cache()
        if next_save is not None and elapsed >= next_save and rank == 0:
            next_save += plan["checkpoints"]
            copies = [p.detach().clone() for p in model.parameters()]
            torch.save([c.cpu() for c in copies], os.path.join(folder, "checkpoint.pt"))
            del copies
        elapsed = time.time() - begin
        keep(torch, held, plan["ranks"][rank], plan["piece"], elapsed)
        if held and began_ns is None:
            began_ns = time.time_ns()
        time.sleep(max(0.0, plan["step_seconds"] - (time.time() - step_began)))
    torch.cuda.synchronize()
    with open(os.path.join(folder, f"rank-{rank}.json"), "w") as out:
        json.dump({"rank": rank, "began_ns": began_ns, "held": sum(t.numel() for t in held)}, out)
    dist.barrier()
    dist.destroy_process_group()
    del extra


# ---- the jobs ----


def record(plan, proctor, log):
    """Runs one job and returns (its telemetry, its truth), or None where it failed."""
    home = tempfile.mkdtemp(prefix="first-cause-")
    name, path = plan["name"], os.path.join(home, "plan.json")
    telemetry = os.path.join(home, "telemetry.jsonl")
    with open(path, "w") as out:
        json.dump(plan, out)
    env = dict(os.environ, PROCTOR_HOME=os.path.join(home, "home"), OMP_NUM_THREADS="1")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    torchrun += ["--nproc-per-node", str(plan["n_ranks"]), os.path.abspath(__file__), home, "--rank"]
    run = [proctor, "run", "--interval", str(plan["interval"]), "--job", name, "--", *torchrun]
    export = [proctor, "export", "telemetry", "--job", name, "-o", telemetry]
    try:
        for command in run, export:
            done = subprocess.run(command, env=env, text=True, timeout=240, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                log(f"{name}: {' '.join(command)}: exit {done.returncode}\n{done.stdout[-4000:]}")
                return None
        truth = {k: plan[k] for k in ("name", "seed", "kind", "n_ranks", "interval", "culprit", "lead")}
        truth["program"] = "pytorch"
        truth["began"] = []
        for rank in range(plan["n_ranks"]):
            with open(os.path.join(home, f"rank-{rank}.json")) as text:
                truth["began"].append(json.load(text)["began_ns"])
        truth["plan"] = plan
        with open(telemetry, "rb") as text:
            return text.read(), truth
    except (OSError, subprocess.TimeoutExpired) as error:
        log(f"{name}: {error}")
        return None
    finally:
        shutil.rmtree(home, ignore_errors=True)


def add(tar_path, name, data):
    with tarfile.open(tar_path, "a") as tar:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


def main():
    tree = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--proctor", default=os.path.join(tree, "build", "proctor"))
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--parallel", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=480)
    args = parser.parse_args()
    if args.rank:
        with open(os.path.join(args.folder, "plan.json")) as text:
            be_rank(json.load(text), args.folder)
        return 0

    os.makedirs(args.folder, exist_ok=True)
    began, lock = time.monotonic(), threading.Lock()
    seeds, counts = list(range(args.seed, args.seed + args.jobs)), {"recorded": 0, "failed": 0}

    def log(text):
        with lock, open(os.path.join(args.folder, "log"), "a") as out:
            print(text, file=out)

    def work():
        while True:
            with lock:
                left = args.seconds - (time.monotonic() - began)
                if not seeds or left < 75:
                    return
                plan = make_plan(seeds.pop(0))
            found = record(plan, os.path.abspath(args.proctor), log)
            with lock:
                counts["recorded" if found else "failed"] += 1
                print(plan["name"], plan["kind"], "recorded" if found else "FAILED", flush=True)
                if not found:
                    continue
                tar = os.path.join(args.folder, "jobs.tar")
                add(tar, plan["name"] + ".jsonl.gz", gzip.compress(found[0], 9))
                add(tar, plan["name"] + ".truth.json", json.dumps(found[1]).encode())

    workers = [threading.Thread(target=work) for _ in range(args.parallel)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(f"{counts['recorded']} recorded, {counts['failed']} failed, {len(seeds)} not started")
    return 0 if counts["recorded"] and not counts["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
