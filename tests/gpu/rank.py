#!/usr/bin/env python3
"""rank.py launch RANKS LEADER AHEAD FOLDER - ranks on a GPU, told who they are as torchrun does.

Each makes itself ready on the GPU, waits for all others, rests, and takes memory bit by bit until
all end together. LEADER begins LEAD seconds before the others, and comes to the GPU AHEAD seconds
before them, or with them. They meet in FOLDER: who is ready has a file there, and the newest of
these is the moment that all count from.
"""

import ctypes
import os
import subprocess
import sys
import time

LEAD, REST, RISE = 2.0, 8.0, 12.0
STEP_BYTES, STEP_SECONDS = 16 << 20, 0.1


class Torch:
    def __init__(self):
        import torch

        self.torch, self.held = torch, []
        torch.empty(1, device="cuda")
        torch.cuda.synchronize()

    def take(self, n_bytes):
        self.held.append(self.torch.empty(n_bytes, dtype=self.torch.uint8, device="cuda"))


class Driver:
    """Without PyTorch: libcuda alone."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", ctypes.c_uint(0))
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        error = getattr(self.cuda, name)(*args)
        if error != 0:
            raise OSError(f"{name} failed with {error}")

    def take(self, n_bytes):
        where = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(where), ctypes.c_size_t(n_bytes))


def get_ready():
    try:
        return Torch()
    except ImportError:
        return Driver()


def tell_ready(folder, rank):
    open(os.path.join(folder, f"ready-{rank}"), "w").close()


def meet(folder, ranks):
    """Returns when all of these are ready; the moment is the same for each."""
    names = [os.path.join(folder, f"ready-{i}") for i in ranks]
    end = time.monotonic() + 120
    while not all(os.path.exists(name) for name in names):
        if time.monotonic() > end:
            raise TimeoutError("a rank did not get ready")
        time.sleep(0.01)
    return max((os.stat(name).st_mtime for name in names), default=0.0)


def sleep_until(moment):
    time.sleep(max(0.0, moment - time.time()))


def phase(what, name):
    subprocess.run([os.environ["PROCTOR"], "phase", what, name], check=True)


def come_behind(leader, ahead, folder):
    """Returns so long after the leader was ready, or at once for none."""
    meet(folder, [leader] if ahead > 0 else [])
    time.sleep(ahead)


def be_rank(leader, ahead, folder):
    rank, n_ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    name = "load-batch" if rank == leader else "wait"
    if rank != leader:
        come_behind(leader, ahead, folder)
    gpu = get_ready()
    tell_ready(folder, rank)
    phase("enter", name)
    begin = meet(folder, range(n_ranks)) + REST
    sleep_until(begin + (0 if rank == leader else LEAD))
    while time.time() < begin + RISE:
        gpu.take(STEP_BYTES)
        time.sleep(STEP_SECONDS)
    phase("exit", name)


def launch(n_ranks, leader, ahead, folder):
    ranks = []
    for rank in range(n_ranks):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(n_ranks))
        env.update(LOCAL_WORLD_SIZE=str(n_ranks), TORCHELASTIC_RUN_ID="ranks")
        command = [sys.executable, os.path.abspath(__file__), "rank", str(leader), ahead, folder]
        ranks.append(subprocess.Popen(command, env=env))
    return max(abs(rank.wait()) for rank in ranks)


if sys.argv[1] == "launch":
    sys.exit(launch(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
be_rank(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
