"""Faults, planted for the tests of anomalies: faults.py NAME SECONDS.

Each lasts about so many seconds, and then its process ends by itself.
"""

import os
import resource
import signal
import sys
import time


def leak(seconds):
    """A megabyte every tenth of a second."""
    held = []
    for _ in range(int(seconds * 10)):
        held.append(bytearray(1 << 20))
        time.sleep(0.1)


def fds(seconds):
    """A file every tenth of a second, all of which are held for a while then."""
    held = []
    for _ in range(int(seconds * 10)):
        held.append(open("/dev/null"))
        time.sleep(0.1)
    time.sleep(seconds / 3)


def many(seconds):
    """Sixty children at once, after half of the time."""
    time.sleep(seconds / 2)
    children = [os.fork() or (time.sleep(seconds / 2), os._exit(0)) for _ in range(60)]
    for child in children:
        os.waitpid(child, 0)


def tasks_of(uid):
    """How many count against the limit of this user."""
    n = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{pid}").st_uid == uid:
                n += len(os.listdir(f"/proc/{pid}/task"))
        except OSError:
            pass
    return n


def bomb(seconds):
    """As many children as there may be, which a limit has to stop. No limit holds root."""
    time.sleep(seconds / 2)
    room = 60
    if os.getuid() == 0:
        os.setuid(1_000_000 + os.getpid())  # nobody else is that…
        room = 30  # …so it is the limit that tells
    limit = tasks_of(os.getuid()) + room
    resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
    children = []
    try:
        while len(children) < 200:
            pid = os.fork()
            if pid == 0:
                time.sleep(seconds / 2)
                os._exit(0)
            children.append(pid)
    except BlockingIOError:
        pass
    for child in children:
        os.waitpid(child, 0)
    if len(children) == 200:
        sys.exit("nothing has stopped it")


def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(20000))
        time.sleep(0.05)


def stuck(seconds):
    """One of three children stands still while the others go on."""
    children = []
    for what in (time.sleep, work, work):
        pid = os.fork()
        if pid == 0:
            what(seconds)
            os._exit(0)
        children.append(pid)
    for child in children:
        os.waitpid(child, 0)


def stopped(seconds):
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)


def zombie(seconds):
    if os.fork() == 0:
        os._exit(0)
    time.sleep(seconds)


def outlived(seconds):
    """A child that lives three times as long as its job."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(seconds * 3)
        os._exit(0)
    time.sleep(seconds)


def busy(seconds):
    """In circles until it has used so much CPU; before all others of the machine, if it may."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        pass
    while time.process_time() < seconds:
        pass


def eat(seconds):
    """200 MB at once."""
    held = [bytearray(1 << 20) for _ in range(200)]
    time.sleep(seconds)
    return held


def quiet(seconds):
    time.sleep(seconds)


globals()[sys.argv[1]](float(sys.argv[2]))
