#!/bin/bash
# top.sh PROCTOR - what "proctor top" takes with 1,000 processes at 2 s, with a daemon, without one,
# and without one as a plain user with the usual limit of files (where we are root), beside what a
# terminal's own "top" takes in the same time: one JSON line.
set -eu
command -v tmux >/dev/null || {
	echo "top: left out, tmux is not installed" >&2
	exit 0
}

PROCTOR=$1
N=1000
SECONDS_EACH=${BENCH_SECONDS:-20}
TMP=$(mktemp -d)
export PROCTOR_HOME=$TMP/home LC_ALL=C.UTF-8
mkdir "$PROCTOR_HOME"
chmod 755 "$TMP"
echo "interval_seconds: 2" >"$PROCTOR_HOME/proctor.yaml"
runner=
terminal=$TMP/none
trap '"$PROCTOR" stop 2>/dev/null; [ -z "$runner" ] || kill "$runner" 2>/dev/null
	tmux -S "$terminal" kill-server 2>/dev/null; wait; rm -rf "$TMP"' EXIT

# CPU time of a process in ns.
cpu_ns() {
	cut -d ' ' -f 1 "/proc/$1/schedstat"
}

# Bytes that it has written.
written() {
	sed -n 's/^wchar: //p' "/proc/$1/io"
}

# measure NAME COMMAND: opens it in a terminal, lets it settle, and prints "NAME", then the CPU time,
# the time, and the bytes that it wrote meanwhile.
measure() {
	local pid cpu bytes at
	terminal=$TMP/tmux.$1
	tmux -S "$terminal" -f /dev/null new-session -d -x 120 -y 40 "exec $2"
	sleep 5
	pid=$(tmux -S "$terminal" list-panes -F '#{pane_pid}')
	cpu=$(cpu_ns "$pid") bytes=$(written "$pid") at=$(date +%s%N)
	sleep "$SECONDS_EACH"
	at=$(($(date +%s%N) - at))
	echo "$1 $(($(cpu_ns "$pid") - cpu)) $at $(($(written "$pid") - bytes))"
	tmux -S "$terminal" kill-server
}

# As somebody without rights, who has what a login gives.
plainly() { # COMMAND
	install -d -o 65534 "$TMP/plain"
	echo "env HOME='$TMP/plain' PROCTOR_HOME='$TMP/plain/home' setpriv --reuid=65534 --regid=65534" \
		"--clear-groups prlimit --nofile=1024: $1"
}

"$PROCTOR" start >&2
"$PROCTOR" run --quiet --job many -- sh -c "for i in \$(seq $((N - 1))); do sleep 1000 & done; wait" &
runner=$!
sleep 5
{
	measure daemon "'$PROCTOR' top"
	measure alone "env PROCTOR_HOME='$TMP/other' '$PROCTOR' top --interval 2"
	if [ "$(id -u)" -eq 0 ]; then
		install -m 755 "$PROCTOR" "$TMP/proctor" # where it is, they may not look
		measure plain "$(plainly "'$TMP/proctor' top --interval 2")"
	fi
	command -v top >/dev/null && measure peer "top -d 2"
} >"$TMP/measured"
python3 - "$N" "$TMP/measured" <<'END'
import json, sys
out = {"bench": "top", "processes": int(sys.argv[1]), "interval_seconds": 2}
for line in open(sys.argv[2]):
    name, cpu, elapsed, written = line.split()
    out[name + "_cpu_pct"] = round(100 * int(cpu) / int(elapsed), 3)
    out[name + "_bytes_per_refresh"] = round(int(written) / (int(elapsed) / 2e9))
if "peer_cpu_pct" in out and out["peer_cpu_pct"] > 0:
    out["daemon_over_peer"] = round(out["daemon_cpu_pct"] / out["peer_cpu_pct"], 3)
    out["alone_over_peer"] = round(out["alone_cpu_pct"] / out["peer_cpu_pct"], 3)
    if "plain_cpu_pct" in out:
        out["plain_over_peer"] = round(out["plain_cpu_pct"] / out["peer_cpu_pct"], 3)
out["bar_cpu_pct"] = 1
print(json.dumps(out))
measured = [out.get(name + "_cpu_pct", 0) for name in ("daemon", "alone", "plain")]
sys.exit(0 if max(measured) < 1 else 1)
END
