#!/usr/bin/env python3
"""Plays a service manager: runs a command and writes down what it is told.

    manager.py LOG [--watchdog SECONDS] [--listen PATH] -- COMMAND [ARG...]

LOG gets one line per message, with new lines in it as spaces; lines of anybody
else than the command itself begin with "stranger". --listen makes a socket and hands
it over, as a socket unit does. Ends with the command's exit status.
"""

import os
import socket
import struct
import subprocess
import sys


def read_arguments(arguments):
    options = dict(log=arguments.pop(0), watchdog=None, listen=None)
    while arguments and arguments[0] != "--":
        name = arguments.pop(0).lstrip("-")
        options[name] = arguments.pop(0)
    return options, arguments[1:]


def open_notify_socket():
    """An abstract one: it needs no folder, and is gone with us."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind(f"\0proctor-manager-{os.getpid()}")
    s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    s.settimeout(0.1)
    return s


def start(command, options):
    env = dict(os.environ, NOTIFY_SOCKET=f"@proctor-manager-{os.getpid()}")
    listener = None
    if options["watchdog"]:
        env["WATCHDOG_USEC"] = str(int(float(options["watchdog"]) * 1e6))
    if options["listen"]:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(options["listen"])
        listener.listen()
        env["LISTEN_FDS"] = "1"

    def hand_over():
        if listener:
            os.dup2(listener.fileno(), 3)

    # The pid is known in the child only: a shell there writes it down.
    script = 'LISTEN_PID=$$ WATCHDOG_PID=$$; export LISTEN_PID WATCHDOG_PID; exec "$@"'
    return subprocess.Popen(["/bin/sh", "-c", script, "sh", *command], env=env,
                            preexec_fn=hand_over, close_fds=False)


def receive(notify, pid):
    try:
        text, control, _, _ = notify.recvmsg(4096, socket.CMSG_SPACE(struct.calcsize("3i")))
    except socket.timeout:
        return None
    sender = struct.unpack("3i", control[0][2])[0]
    line = text.decode().replace("\n", " ")
    return line if sender == pid else f"stranger {sender} {line}"


def main(arguments):
    options, command = read_arguments(arguments)
    notify = open_notify_socket()
    child = start(command, options)
    with open(options["log"], "a", buffering=1) as log:
        while True:
            has_ended = child.poll() is not None
            line = receive(notify, child.pid)
            if line:
                print(line, file=log)
            elif has_ended:
                return child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
