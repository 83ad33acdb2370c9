"""Runs a command on a terminal of its own and types into it, as a person would.

    terminal.py SCRIPT COMMAND [ARG...]

SCRIPT is a list of steps, separated by commas: a number waits so many seconds, "c" is Ctrl-C, "z"
is Ctrl-Z, "type:TEXT" types a line, "expect:TEXT" waits until TEXT has been printed. What the command prints goes to
stdout; the last line is "status N" as a shell has it.
"""
import os
import pty
import select
import signal
import sys
import time

TIME_LIMIT = 60


def main():
    steps, command = sys.argv[1].split(","), sys.argv[2:]
    pid, terminal = pty.fork()
    if pid == 0:
        for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):  # ignored by what runs in the background
            signal.signal(sig, signal.SIG_DFL)
        os.execvp(command[0], command)
    seen = b""
    end = time.monotonic() + TIME_LIMIT

    def read(seconds):
        """Takes in what is printed for so long; False when the terminal is closed."""
        nonlocal seen
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([terminal], [], [], left)[0]:
                try:
                    data = os.read(terminal, 65536)
                except OSError:
                    return False
                if not data:
                    return False
                seen += data
        return True

    for step in steps:
        if step == "c":
            os.write(terminal, b"\x03")
        elif step == "z":
            os.write(terminal, b"\x1a")
        elif step.startswith("type:"):
            os.write(terminal, step[5:].encode() + b"\r")
        elif step.startswith("expect:"):
            while step[7:].encode() not in seen and time.monotonic() < end and read(0.05):
                pass
        elif step:
            read(float(step))
    while time.monotonic() < end and read(0.1):
        pass
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    sys.stdout.write(seen.decode(errors="replace").replace("\r\n", "\n"))
    code = os.waitstatus_to_exitcode(status)
    print("\nstatus", code if code >= 0 else 128 - code)


main()
