#!/bin/bash
# What else the host was doing when something began: a run that looks at all for that reads what it needs and no more,
# and a daemon whose ticks have not the memory of others reads that.
. "$(dirname "$0")/lib.sh"
FAULTS=$SOURCE_ROOT/tests/integration/faults.py

mkdir -p "$PROCTOR_HOME"

# ---- a daemon without eBPF ----

printf '%s\n' 'interval_seconds: 0.5' 'ebpf_enabled: false' 'limits: {max_daemon_cpu_percent: 100}' \
	'anomaly: {fd_exhaustion_percent: 60}' >"$PROCTOR_HOME/proctor.yaml"
python3 -c 'import sys; held = bytearray(b"x") * (64 << 20); print(flush=True); sys.stdin.read()' \
	< <(eval "$(gate large)") >"$TMP/large" &
eventually test -s "$TMP/large"
(ulimit -n 64 && exec bash -c \
	"for fd in {10..60}; do eval \"exec \$fd</dev/null\"; done; $(gate watched)") &
watched=$!
"$PROCTOR" start
"$PROCTOR" attach --pid "$watched" --job watched >/dev/null # nobody else looks at it
told() {
	json_eval "$("$PROCTOR" anomalies --job watched --json)" 'any(a["anomaly_type"] == "fd_exhaustion" for a in d)'
}
is "a daemon without eBPF tells of open files" "$(becomes True told)" True
json "and of who else takes memory, more than the job" "$("$PROCTOR" anomalies --job watched --json)" \
	'all(a["host"]["top_rss"][0]["job_id"] is None and a["host"]["top_rss"][0]["rss_mb"] >= 64 for a in d if a["job_id"])'
pass watched
pass large
wait "$watched"
"$PROCTOR" stop

# ---- a run ----

if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
	skip "what a run opens" "nobody can be traced here"
	finish
	exit
fi

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
