#!/bin/bash
# What was recorded can be seen: jobs, report, history, snapshot, doctor.
. "$(dirname "$0")/lib.sh"

# ---- before anything was recorded ----
run "$PROCTOR" jobs --json
is "no jobs yet" "$status/$stdout" "0/[]"
run "$PROCTOR" report nothing
is "no report yet" "$status" 1
like "and what to do" "$stderr" 'proctor run'
check "looking makes no database" [ ! -e "$PROCTOR_HOME/proctor.db" ]

"$PROCTOR" run -q --job works --interval 0.1 -- sh -c "$(gate works)" </dev/null &
eventually has_ticks works 4
pass works
wait $!
run "$PROCTOR" run -q --job fails -- sh -c 'exit 3'
run "$PROCTOR" run -q --job works -- true

# ---- jobs ----
run "$PROCTOR" jobs --json
json "the contract's fields" "$stdout" 'all(set(j) >= set("job_id attempt status outcome exit_code signal started ended total_sheets last_completed_sheet current_sheet".split()) for j in d)'
json "the latest attempt of each" "$stdout" \
	'sorted((j["job_id"], j["attempt"], j["outcome"], j["exit_code"]) for j in d) == [("fails", 1, "failure", 3), ("works", 2, "success", 0)]'
run "$PROCTOR" jobs --all --json
json "--all has every attempt" "$stdout" 'len(d) == 3'
run "$PROCTOR" jobs
like "a table for people" "$stdout" '^fails +1 .* failure +exit code 3'
check "files are private" [ "$(stat -c %a "$PROCTOR_HOME/proctor.db")/$(stat -c %a "$PROCTOR_HOME")" = 600/700 ]

# ---- report ----
run "$PROCTOR" report works --attempt 1 --format json
json "the contract's fields" "$stdout" 'set(d) >= set("job_id attempt outcome exit_code signal wall_seconds total_cpu_seconds user_cpu_seconds system_cpu_seconds peak_rss_mb max_process_rss_mb process_spawn_count unique_pid_count sheet_metrics syscall_hotspots processes events anomalies telemetry rungs unknown".split())'
json "spawn and exit events" "$stdout" \
	'{"spawn", "exit"} <= {e["event_type"] for e in d["events"]}'
run "$PROCTOR" report fails
like "the verdict comes first" "$(grep . <<<"$stdout" | sed -n 2p)" '^FAILURE: .*exit code 3'
run "$PROCTOR" report fails --format md
like "markdown has a heading" "$stdout" '^# '
run "$PROCTOR" report fails --format html
is "a page for browsers" "$status/$(head -1 <<<"$stdout")/$(tail -1 <<<"$stdout")" '0/<!DOCTYPE html>/</html>'
like "with its verdict" "$stdout" '<strong>FAILURE</strong>: .*exit code 3'
run "$PROCTOR" report no-such-job
is "an unknown job is an error" "$status" 1
run "$PROCTOR" report
is "no job is bad usage" "$status" 2
run "$PROCTOR" report works --format pdf
is "an unknown format is bad usage" "$status" 2
run "$PROCTOR" report works --attempt 9
is "an unknown attempt is an error" "$status" 1

# ---- history ----
run "$PROCTOR" history --job works --json
json "samples of the job, oldest first" "$stdout" \
	'len(d) >= 4 and [s["timestamp"] for s in d] == sorted(s["timestamp"] for s in d) and d[0]["job_id"] == "works"'
pid=$(json_eval "$stdout" 'd[0]["pid"]')
run "$PROCTOR" history --pid "$pid" --since 1h --json
json "samples of a process" "$stdout" 'len(d) > 0 and all(s["pid"] == '"$pid"' for s in d)'
run "$PROCTOR" history --job works --csv
like "CSV with a heading" "$(head -n 1 <<<"$stdout")" '^timestamp,job_id,'
is "and as many fields in each row" "$(python3 -c '
import csv, sys
print(len({len(r) for r in csv.reader(sys.stdin)}))' <<<"$stdout")" 1
run "$PROCTOR" history
is "nobody's history is bad usage" "$status" 2
run "$PROCTOR" history --job works --since yesterday
is "a bad time is bad usage" "$status" 2
for as in "" --json --csv --minutes "--minutes --json"; do
	# shellcheck disable=SC2086 # none, one or two options
	run "$PROCTOR" history --job no-such-job $as
	is "a job that never was is an error${as:+ with $as}" "$status/$stdout" 1/
	like "told in one line${as:+ with $as}" "$stderr" '^proctor: no job no-such-job was recorded'
	is "and no more${as:+ with $as}" "$(wc -l <"$TMP/stderr")" 1
	# shellcheck disable=SC2086
	run "$PROCTOR" history --pid 2147483647 $as
	is "a process without samples is an error${as:+ with $as}" "$status/$(wc -l <"$TMP/stderr")" 1/1
	# shellcheck disable=SC2086
	run "$PROCTOR" history --job works --until 1h $as
	is "a job without samples in that time is none${as:+ with $as}" \
		"$status/$(wc -l <"$TMP/stderr")" 0/1
done
run "$PROCTOR" history --pid "$pid" --until 1h
is "nor is a process that was recorded at another time" "$status/$(wc -l <"$TMP/stderr")" 0/1
run "$PROCTOR" history --pid 2147483647 --json
is "of which there is an empty list" "$stdout" '[]'
run "$PROCTOR" history --job works --json
samples=$(json_eval "$stdout" 'len(d)')
run "$PROCTOR" history --job works --minutes --json
json "minutes stand for the samples" "$stdout" "sum(m['samples'] for m in d) == $samples"
json "with least, average and largest" "$stdout" \
	'all(m["rss_mb"]["min"] <= m["rss_mb"]["avg"] <= m["rss_mb"]["max"] for m in d)'
run "$PROCTOR" history --job works --minutes --csv
is "minutes as CSV are bad usage" "$status" 2

# ---- snapshot ----
run "$PROCTOR" snapshot --all --json
json "the contract's fields" "$stdout" 'set(d) >= set("timestamp daemon_pid system_memory_total_mb system_memory_available_mb system_memory_used_mb daemon_rss_mb load_avg_1 load_avg_5 load_avg_15 processes gpus pressure_level running_jobs active_sheets zombie_count zombie_pids job_progress conductor_uptime_seconds".split())'
json "of each process too" "$stdout" 'all(set(p) >= set("pid ppid command state cpu_percent rss_mb vms_mb threads open_fds age_seconds job_id sheet_num syscall_counts syscall_time_pct".split()) for p in d["processes"])'
if [ ! -e /dev/dri ] && [ ! -e /proc/driver/nvidia/gpus ]; then
	json "a host without GPUs says so" "$stdout" 'd["gpus"] == []'
else
	json "GPUs are read, or unknown" "$stdout" 'd["gpus"] is None or len(d["gpus"]) > 0'
fi
json "this shell is in it" "$stdout" 'any(p["pid"] == '$$' for p in d["processes"])'
json "CPU percentages are known" "$stdout" 'any(p["cpu_percent"] is not None for p in d["processes"])'
"$PROCTOR" run -q --job watched -- sh -c 'sleep 1011' &
runner=$!
watches() {
	run "$PROCTOR" snapshot --json
	[ "$(json_eval "$stdout" 'd["active_sheets"] == 1 and len(d["processes"]) > 0')" = True ]
}
eventually watches
json "without --all only the jobs' processes" "$stdout" \
	'd["running_jobs"] == 1 and {p["job_id"] for p in d["processes"]} == {"watched"} and d["job_progress"][0]["current_sheet"] == 1'
run "$PROCTOR" jobs --json
json "a running job is running" "$stdout" \
	'[(j["status"], j["outcome"]) for j in d if j["job_id"] == "watched"] == [("running", None)]'
run "$PROCTOR" report watched
like "and has a report" "$stdout" 'RUNNING'
kill $runner
wait $runner 2>/dev/null

# ---- doctor ----
"$PROCTOR" run -q --job rungs -- true
run "$PROCTOR" doctor --json
json "what a run gets is what its report has" "[$stdout, $("$PROCTOR" report rungs --format json)]" 'd[0]["run_rungs"] == d[1]["rungs"]'
json "a rung and a reason for each measurement" "$stdout" \
	'len(d["rungs"]) >= 6 and set(d["rungs"]) == set(d["rung_reasons"])'
run "$PROCTOR" doctor
is "all is well" "$status" 0

# A log that cannot be written.
mkdir "$TMP/logs" "$TMP/logs/a.jsonl"
echo text >"$TMP/logs/b.jsonl"
ln -s b.jsonl "$TMP/logs/c.jsonl"
for log in a.jsonl b.jsonl c.jsonl none/d.jsonl; do
	echo "jsonl_path: $TMP/logs/$log" >"$PROCTOR_HOME/proctor.yaml"
	run "$PROCTOR" doctor
	like "doctor finds a log that cannot be written: $log" "$status $stdout" "log +broken .*$log cannot be"
	is "and fails: $log" "$status" 1
done
echo "jsonl_path: $TMP/logs/e.jsonl" >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" doctor
like "one that can be made is no trouble" "$status $stdout" "log +ok +$TMP/logs/e.jsonl"
check "nor is it made" [ ! -e "$TMP/logs/e.jsonl" ]
echo 'jsonl_path: ""' >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" doctor
like "nor is none" "$status $stdout" 'log +ok +none is written'
rm "$PROCTOR_HOME/proctor.yaml"

# A database that can be read and not written.
if chattr +i "$PROCTOR_HOME/proctor.db" 2>/dev/null; then
	run "$PROCTOR" doctor
	chattr -i "$PROCTOR_HOME/proctor.db"
	like "doctor finds that nothing can be recorded" "$stdout" \
		'database +broken .*cannot be written \(Operation not permitted\).*jobs run, and are not recorded'
	is "and fails" "$status" 1
	run "$PROCTOR" doctor
	is "after that all is well again" "$status" 0
else
	skip "an immutable database" "needs root and a file system with attributes"
fi
head -c 100000 /dev/urandom >"$TMP/junk"
mkdir "$TMP/broken"
cp "$TMP/junk" "$TMP/broken/proctor.db"
mkdir "$TMP/empty"
: >"$TMP/empty/proctor.db"
PROCTOR_HOME=$TMP/empty run "$PROCTOR" doctor
is "an empty database is not broken" "$status" 0
like "but used by the next run" "$stdout" 'database +ok +.*the next run uses it'
PROCTOR_HOME=$TMP/broken run "$PROCTOR" doctor
is "a broken database is an error" "$status" 1
PROCTOR_HOME=$TMP/broken run "$PROCTOR" run -- sh -c 'exit 6'
is "and does not keep a command from running" "$status" 6
cmp -s "$TMP/junk" "$TMP/broken/proctor.db"
is "the broken file is left as it is" $? 0

# ---- words ----
run "$PROCTOR" --version
like "a version" "$stdout" '^proctor [0-9]'
run "$PROCTOR"
is "no verb is bad usage" "$status" 2
run "$PROCTOR" frobnicate
is "an unknown verb too" "$status" 2
run "$PROCTOR" snapshot --json >/dev/full
"$PROCTOR" snapshot --json >/dev/full 2>/dev/null
is "output that cannot be written is an error" $? 1

finish
