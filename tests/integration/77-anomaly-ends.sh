#!/bin/bash
# What lasts of a process or a job is over when that ended, also where a daemon looks, which may see that
# ticks later; and it is in the record when the run is over.
. "$(dirname "$0")/lib.sh"
FAULTS=$SOURCE_ROOT/tests/integration/faults.py

mkdir -p "$PROCTOR_HOME"
cat >"$PROCTOR_HOME/proctor.yaml" <<'EOF2'
interval_seconds: 1.5
limits:
  max_daemon_cpu_percent: 100
anomaly:
  process_explosion_processes: 40
  fd_exhaustion_percent: 60
  orphan_duration_seconds: 1
EOF2

has_row() { # JOB TYPE
	"$PROCTOR" anomalies --job "$1" --json | grep -q "\"$2\""
}
is_told_over() { # JOB TYPE
	"$PROCTOR" events --job "$1" --json | grep "\"$2\"" | grep -q '"cleared"'
}
exits() { # JOB: when its processes ended, by pid
	"$PROCTOR" events --job "$1" --json | grep '"process.exit"' | paste -sd,
}

"$PROCTOR" start
(ulimit -n 64 && exec "$PROCTOR" run -q --report --job files -- python3 "$FAULTS" fds 6) >"$TMP/report"
run "$PROCTOR" stop
run "$PROCTOR" anomalies --job files --json
files="[$stdout, [$(exits files)]]"
json "what lasts of a process ends with it" "$files" \
	'[a["why_cleared"] for a in d[0] if a["anomaly_type"] == "fd_exhaustion"] == ["the process ended"]'
json "and when it did" "$files" \
	'[abs(a["ended"] - e["timestamp"]) < 0.1 for a in d[0] for e in d[1] if a["pid"] == e["pid"]] == [True]'
json "it was not seen after its end" "$files" 'all(a["as_of"] <= a["ended"] for a in d[0])'

"$PROCTOR" start
"$PROCTOR" run -q --job many -- python3 "$FAULTS" many 12
check "the end of what was of a job is told" eventually is_told_over many process_explosion
run "$PROCTOR" anomalies --job many --json
ended=$(json_eval "$("$PROCTOR" jobs --json)" '[j["ended"] for j in d if j["job_id"] == "many"][-1]')
json "what lasts of a job is over when that ended" "$stdout" \
	"[a['ended'] <= $ended + 0.01 for a in d if a['anomaly_type'] == 'process_explosion'] == [True]"

"$PROCTOR" run -q --leave-background --job leaves -- sh -c 'sleep 9 & sleep 0.1'
check "a process is left" eventually has_row leaves orphan
check "and ends" eventually is_told_over leaves orphan
run "$PROCTOR" anomalies --job leaves --json
json "when its end is in the record" "[$stdout, [$(exits leaves)]]" \
	'[abs(a["ended"] - e["timestamp"]) < 0.1 for a in d[0] if a["anomaly_type"] == "orphan" for e in d[1] if a["pid"] == e["pid"]] == [True]'
"$PROCTOR" stop

finish
