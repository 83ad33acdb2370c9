#!/bin/bash
# kill.sh PROCTOR [KILLS [RUNS [AT-ONCE]]] - ends so many runners with SIGKILL, half of them within 20 ms after their command
# began, and the daemon for every tenth of them; then has RUNS short runs of one job, AT-ONCE at a time. By hand: 1,000 kills take
# some minutes, and so do 10,000 runs. One JSON line for each part; tests/integration/stress.py explains them. Fails where the record lacks
# something.
set -eu
PROCTOR=$(realpath "$1")
KILLS=${2:-1000}
RUNS=${3:-10000}
AT_ONCE=${4:-40}
stress=$(dirname "$0")/../integration/stress.py
TMP=$(mktemp -d)
export TMP LC_ALL=C.UTF-8
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT

judge() { # reads what stress.py has printed
	python3 -c '
import json, sys
text = sys.stdin.read()
d = json.loads(text)
print(text, end="")
bad = [d.get(key) for key in ("harmed", "lost_ends", "unrecorded", "unrecorded_early", "twice", "wrong") if d.get(key)]
sys.exit(bool(bad) or d.get("recorded", d["jobs"]) != d["jobs"] or not d.get("has_ends", True) or (d.get("ticks_lost") or 0) > 1)'
}

status=0
for daemon_kills in 0 $((KILLS / 10)); do
	export PROCTOR_HOME=$TMP/$daemon_kills
	mkdir -p "$PROCTOR_HOME"
	echo 'jsonl_path: proctor.jsonl' >"$PROCTOR_HOME/proctor.yaml"
	[ "$daemon_kills" = 0 ] || "$PROCTOR" start
	# Of --jobs every fourth is not killed.
	"$stress" kill "$PROCTOR" --jobs $((KILLS / 3)) --early $((KILLS / 4)) --daemon-kills "$daemon_kills" | judge || status=1
done
"$PROCTOR" stop
export PROCTOR_HOME=$TMP/many
"$stress" many "$PROCTOR" --jobs "$RUNS" --at-once "$AT_ONCE" | judge || status=1
exit $status
