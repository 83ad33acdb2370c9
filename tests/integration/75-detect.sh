#!/bin/bash
# "proctor detect" finds faults that real processes had while proctor recorded them, and says nothing
# of those that had none. Windows are short here: thresholds are what --set says.
. "$(dirname "$0")/lib.sh"
golden=$SOURCE_ROOT/tests/golden/anomaly
FAULTS=$SOURCE_ROOT/tests/integration/faults.py

# ---- a file ----

run "$PROCTOR" detect --input "$golden/017.json" --json
is "a file: status" "$status" 0
json "a file: the answers of the golden case" "$stdout" "(lambda w: len(w) == 7 and
	[{k: a[k] for k in e} for a, e in zip(d, w)] == w and len(d) == len(w))(
	json.load(open('$golden/017.json'))['expected'])"
is "standard input, and nothing found: an empty list" \
	"$(echo '{"current": {}}' | "$PROCTOR" detect --input - --json)" '[]'
run "$PROCTOR" detect --input "$TMP/none" --json
is "no such file: status" "$status" 2
like "no such file: it is said" "$stderr" 'cannot read .*/none: No such file'
echo '{"current": {"processes": 3}}' >"$TMP/bad.json"
run "$PROCTOR" detect --input "$TMP/bad.json" --json
is "not such a document: status" "$status" 2
like "not such a document: what would be right" "$stderr" "'processes' wants a list"
echo '{}' >"$TMP/empty.json"
run "$PROCTOR" detect --input "$TMP/empty.json" --json
is "nothing in it: status" "$status" 2
like "nothing in it: what is missing" "$stderr" "empty.json: 'current' is missing: .*\"current\": SNAPSHOT"
run "$PROCTOR" detect
is "nothing to judge: status" "$status" 2

# ---- nothing was recorded yet ----

run "$PROCTOR" detect --history 1h --json
is "nothing recorded: an empty list" "$status/$stdout" '0/[]'
run "$PROCTOR" anomalies --json
is "nothing recorded: no anomalies" "$status/$stdout" '0/[]'

# ---- planted faults ----

plant() { # NAME SECONDS [LIMIT]
	(
		ulimit -n "${3:-1024}"
		exec "$PROCTOR" run -q --interval 0.1 --job "$1" -- python3 "$FAULTS" "$1" "$2"
	) &
	pids+=($!)
}

"$PROCTOR" run -q --interval 0.1 --job leak -- sleep 0.5 # its first attempt, in which nothing is wrong
jobs_planted="leak many stuck stopped quiet"
pids=()
plant leak 8
plant many 5
plant stuck 7
plant stopped 5
plant quiet 6
plant fds 8 128
wait "${pids[@]}"

look() { # JOB [KEY=VALUE...]: sets stdout
	local sets=() job=$1
	shift
	for set in "$@"; do sets+=(--set "anomaly.$set"); done
	run "$PROCTOR" detect --history 1h --job "$job" --json "${sets[@]}"
}

has() { # NAME TYPE
	json "$1" "$stdout" "any(a['anomaly_type'] == '$2' and a['job_id'] == '$3' for a in d)"
}

look leak memory_leak_window_seconds=5 memory_leak_floor_mb=10
has "a leak is found" memory_leak leak
json "with when memory is full" "$stdout" 'all(a["seconds_to_limit"] > 0 for a in d if a["anomaly_type"] == "memory_leak")'
json "and what it had before" "$stdout" \
	'all(a["before_value"] + 10 <= a["metric_value"] for a in d if a["anomaly_type"] == "memory_leak")'
json "it ended with its process" "$stdout" 'all(a["ended"] >= a["began"] and a["why_cleared"] for a in d)'
json "it is of this attempt and sheet" "$stdout" 'all(a["attempt"] == 2 and a["sheet_num"] == 1 for a in d)'
json "what the host was doing is there" "$stdout" 'all(a["host"]["memory_total_mb"] > 0 for a in d)'

like "what the record cannot tell is said" "$stderr" "runaway_process was judged only where the process got its core"
like "and what a limit would have been" "$stderr" "process_explosion was judged by its threshold alone"
like "and which checks were silent" "$stderr" "not judged, as .*: .*orphan"
unlike "of what it can tell nothing is" "$stderr" "memory_leak"

look fds fd_exhaustion_percent=60 memory_leak_window_seconds=5
has "files that are never closed are found" fd_exhaustion fds

look many process_explosion_processes=40 memory_spike_window_seconds=2
has "an explosion of processes is found" process_explosion many

look stuck stuck_duration_seconds=3
has "a process that stands still while others go on is found" stuck_process stuck
json "and none of the others" "$stdout" 'len([a for a in d if a["anomaly_type"] == "stuck_process"]) == 1'

look stopped stuck_duration_seconds=2
has "a stopped process is found" stuck_process stopped

for name in $jobs_planted; do
	run "$PROCTOR" detect --history 1h --job "$name" --json
	json "by the usual thresholds nothing was wrong with $name for so short" "$stdout" \
		'all(a["severity"] in ("low", "medium") for a in d)'
done
look quiet stuck_duration_seconds=2 zombie_duration_seconds=1 runaway_duration_seconds=2
is "of a quiet job nothing is told" "$stdout" '[]'

# Others of the machine may take its core from it now and then, which is not recorded: it tries again.
busy="runaway_duration_seconds=1 runaway_cpu_threshold=50"
for _ in 1 2 3 4; do
	"$PROCTOR" run -q --interval 0.1 --job busy1 -- python3 "$FAULTS" busy 2
	# shellcheck disable=SC2086 # two words
	look busy1 $busy
	[ "$stdout" = '[]' ] || break
done
has "a busy loop of which nothing is known is found" runaway_process busy1

# Three that keep a core busy are how jobs of this kind are: the fourth is no runaway.
for num in 2 3 4; do
	"$PROCTOR" correlate >/dev/null 2>&1 # which learns from what has ended
	"$PROCTOR" run -q --interval 0.1 --job "busy$num" -- python3 "$FAULTS" busy 2
done
# shellcheck disable=SC2086
look busy4 $busy
is "what jobs of its kind usually do is not" "$stdout" '[]'

run "$PROCTOR" detect --history 1h --job stopped --set anomaly.stuck_duration_seconds=2
like "for people" "$stdout" '^[0-9: .-]+ +>?[0-9.]+ m?s +low +stuck_process +1 +stopped +python3 .* has been stopped'
run "$PROCTOR" detect --history 1h --job quiet
like "for people, when there is nothing" "$stderr" 'nothing out of the ordinary is in the [0-9]+ snapshots'

# ---- other thresholds ----

run "$PROCTOR" detect --history 1h --set anomaly.memory_spike_threshold=1
is "a bad value: status" "$status" 2
like "a bad value: what would be right" "$stderr" "'memory_spike_threshold' is '1'; it must be a number above 1"
run "$PROCTOR" detect --history 1h --set anomaly.memory_spike=2
is "no such setting: status" "$status" 2
like "no such setting: it is said" "$stderr" "there is no setting 'anomaly.memory_spike'"
run "$PROCTOR" detect --history 1h --set interval_seconds=2
is "a setting that has nothing to do with it: status" "$status" 2
run "$PROCTOR" detect --history 1h --input x
is "both: status" "$status" 2
run "$PROCTOR" detect --history 1h --job nobody
is "no such job: status" "$status" 1

finish
