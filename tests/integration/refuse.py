"""refuse.py ERRNO COMMANDS -- PROGRAM [ARG...]: runs a program whose bpf() fails.

COMMANDS is "all" or the numbers of those that fail with that errno, with commas: as on a kernel
that does not have them, or does not let anybody.
"""
import ctypes
import os
import struct
import sys

BPF_LD_ABS, BPF_JEQ, BPF_RET = 0x20, 0x15, 0x06  # of 32 bits; to a constant
ALLOW, FAIL = 0x7FFF0000, 0x00050000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2
NR_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]


def program(errno, commands):
    fail = (BPF_RET, 0, 0, FAIL | errno)
    steps = [(BPF_LD_ABS, 0, 0, 0), (BPF_JEQ, 1, 0, NR_BPF), (BPF_RET, 0, 0, ALLOW)]
    if commands is None:
        return steps + [fail]
    steps.append((BPF_LD_ABS, 0, 0, 16))  # the first argument
    for i, command in enumerate(commands):
        steps.append((BPF_JEQ, len(commands) - i, 0, command))
    return steps + [(BPF_RET, 0, 0, ALLOW), fail]


def main():
    errno, which, dashes = sys.argv[1:4]
    assert dashes == "--"
    steps = program(int(errno), None if which == "all" else [int(c) for c in which.split(",")])
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *s) for s in steps))
    fprog = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or prctl(PR_SET_SECCOMP, FILTER, fprog, 0, 0):
        sys.exit(77)
    os.execvp(sys.argv[4], sys.argv[4:])


main()
