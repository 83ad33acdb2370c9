#!/bin/bash
# What else the host was doing when something began: a run that looks at all for that reads what it needs and no more.
. "$(dirname "$0")/lib.sh"
FAULTS=$SOURCE_ROOT/tests/integration/faults.py

if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
	skip "what a run opens" "nobody can be traced here"
	finish
	exit
fi

mkdir -p "$PROCTOR_HOME"
echo 'anomaly: {fd_exhaustion_percent: 60}' >"$PROCTOR_HOME/proctor.yaml"
sleep 300 &
stranger=$!
(ulimit -n 64 && exec strace -o "$TMP/opened" -e trace=openat "$PROCTOR" run -q --job fds -- python3 "$FAULTS" fds 6)
json "it tells of open files, and of who else took memory" "$("$PROCTOR" anomalies --job fds --json)" \
	'any(a["anomaly_type"] == "fd_exhaustion" and any(p["job_id"] is None for p in a["host"]["top_rss"]) for a in d)'
of_stranger() {
	grep -oE "[\"/]$stranger/[a-z]+\"" "$TMP/opened" | grep -oE '[a-z]+' | sort -u | grep -xE "$1" | paste -sd' '
}
is "of others it reads who they are and their memory" "$(of_stranger 'stat|statm')" "stat statm"
is "and nothing that costs more" "$(of_stranger 'cgroup|cmdline|io|limits|status')" ""
kill "$stranger"

finish
