#!/usr/bin/env python3
"""worker.py MIB SECONDS BUSY [REST] - holds MIB of GPU memory and multiplies for BUSY of the time.

Holds it for REST seconds more, in which it does nothing. Prints "worked S" at the end: the seconds in which the GPU worked for it.
"""

import sys
import time

import torch

mib, seconds, busy = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
held = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
held.fill_(1)
a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
end, worked = time.monotonic() + seconds, 0.0
while time.monotonic() < end:
    begin = time.monotonic()
    while time.monotonic() - begin < 0.05 * busy:
        for _ in range(20):
            b = a @ a
        torch.cuda.synchronize()
    worked += time.monotonic() - begin if busy > 0 else 0
    time.sleep(0.05 * (1 - busy))
time.sleep(float(sys.argv[4]) if len(sys.argv) > 4 else 0)
print(f"worked {worked:.2f}", flush=True)
