#!/bin/bash
# Faults are found while they happen, by a run alone and by the daemon, told once, and stored. How long that
# took is printed. Windows are short here.
. "$(dirname "$0")/lib.sh"
FAULTS=$SOURCE_ROOT/tests/integration/faults.py

mkdir -p "$PROCTOR_HOME"
cat >"$PROCTOR_HOME/proctor.yaml" <<'EOF'
interval_seconds: 0.5
limits:
  max_daemon_cpu_percent: 100
anomaly:
  memory_leak_window_seconds: 6
  memory_leak_floor_mb: 10
  memory_spike_window_seconds: 4
  fd_exhaustion_percent: 60
  zombie_duration_seconds: 1
  stuck_duration_seconds: 3
  orphan_duration_seconds: 1
  process_explosion_processes: 40
  runaway_duration_seconds: 3
  clear_seconds: 2
EOF

plant() { # JOB FAULT SECONDS [OPTION...]
	local job=$1 fault=$2 seconds=$3
	shift 3
	(
		ulimit -n 128
		exec "$PROCTOR" run --job "$job" "$@" -- python3 "$FAULTS" "$fault" "$seconds" 2>"$TMP/$job.said"
	) &
	pids+=($!)
}

plant_all() { # PREFIX
	plant "$1-leak" leak 12
	plant "$1-fds" fds 9
	plant "$1-many" many 6
	plant "$1-stopped" stopped 6
	plant "$1-stuck" stuck 8
	plant "$1-bomb" bomb 6
	plant "$1-zombie" zombie 5
	plant "$1-quiet" quiet 5
}

# What others do to the host, such as an OOM kill, is none of the job.
OF_JOBS='[a for a in d if a["pid"]]'

# Since when the job ran, for the delay.
found() { # NAME JOB TYPE
	run "$PROCTOR" anomalies --job "$2" --json
	json "$1" "$stdout" "[a['job_id'] for a in d if a['anomaly_type'] == '$3'] == ['$2']"
	echo "# $2: $3 after $(json_eval "$stdout" "round(min(a['began'] for a in d if a['anomaly_type'] == '$3') - $(started "$2"), 1)") s"
}

started() { # JOB
	json_eval "$("$PROCTOR" jobs --json)" "[j['started'] for j in d if j['job_id'] == '$1'][-1]"
}

# It was looked at more often than every interval, after the first seconds in which a run does so anyhow.
closer() { # NAME JOBS
	local moments
	moments=$("$PROCTOR" sql --json "SELECT job_id, timestamp, min(timestamp) OVER (PARTITION BY job_id) AS first,
		lag(timestamp) OVER (PARTITION BY job_id ORDER BY timestamp) AS before
		FROM (SELECT DISTINCT job_id, timestamp FROM process_metrics WHERE job_id LIKE '$2')")
	json "$1" "$moments" 'any(r["before"] and r["before"] - r["first"] > 4 and r["timestamp"] - r["before"] < 0.3 for r in d)'
}

# ---- without a daemon ----

pids=()
plant_all alone
wait "${pids[@]}"
found "alone: a leak" alone-leak memory_leak
json "it is over with its process" "$stdout" 'all(a["ended"] >= a["began"] for a in d)'
json "and says so" "$stdout" 'all(a["why_cleared"] == "the process ended" for a in d if a["anomaly_type"] == "memory_leak")'
json "what the host was doing is kept" "$stdout" 'all(a["host"]["memory_total_mb"] > 0 for a in d)'
json "who else took memory, and nothing that a run does not know" "$stdout" \
	'all(a["host"]["running_jobs"] is a["host"]["top_cpu"] is None and any(p["job_id"] is None for p in a["host"]["top_rss"]) for a in d)'
found "alone: files that are never closed" alone-fds fd_exhaustion
like "and the run says so when it ends" "$(<"$TMP/alone-fds.said")" "proctor:   (1 anomaly|[0-9]+ anomalies, worst).* files open"
unlike "a quiet one does not" "$(<"$TMP/alone-quiet.said")" "anomal"
json "what it had open is kept" "$stdout" \
	'any(f["target"] == "/dev/null" for a in d if a["pid"] for f in a["evidence"]["culprit"]["open_files"])'
json "how many they were, too" "$stdout" 'all(a["evidence"]["culprit"]["open_file_count"] > 10 for a in d if a["pid"])'
closer "and it was looked at closer" alone-fds
found "alone: an explosion of processes" alone-many process_explosion
found "alone: a fork bomb that a limit stops" alone-bomb process_explosion
json "with its sheet and who starts them" "$stdout" \
	'all(a["sheet_num"] == 1 and a["pid"] and a["comm"] for a in d if a["anomaly_type"] == "process_explosion")'
found "alone: a stopped process" alone-stopped stuck_process
json "with what it was doing" "$("$PROCTOR" report alone-stopped --json)" \
	'"stopped by a signal" in [(a["evidence"].get("culprit") or {}).get("doing") for a in d["anomalies"] if a["anomaly_type"] == "stuck_process"]'
found "alone: one that stands still while others go on" alone-stuck stuck_process
found "alone: a zombie" alone-zombie zombie
run "$PROCTOR" anomalies --job alone-quiet --json
json "alone: nothing of a quiet job" "$stdout" "$OF_JOBS == []"

run "$PROCTOR" events --job alone-leak --json
like "events have it when it began, when it got worse and when it was over" \
	"$(grep '"anomaly_type":"memory_leak"' <<<"$stdout" | grep -o '"event":"monitor.anomaly","change":"[a-z]*"' | grep -o '[a-z]*"$' | tr '\n' ' ')" \
	'^began" (escalated" )*cleared" $'
json "each as it was told then" "[$(grep '"anomaly_type":"memory_leak"' <<<"$stdout" | paste -sd,)]" \
	'len({e["severity"] for e in d if e["change"] != "cleared"}) == len([e for e in d if e["change"] != "cleared"]) and all(e["ended"] is None for e in d if e["change"] != "cleared")'
json "in the order of time" "$(paste -sd, <<<"$stdout" | sed 's/.*/[&]/')" \
	'(lambda t: t == sorted(t))([e.get("changed", e["timestamp"]) for e in d])'
run "$PROCTOR" events --job alone-leak
like "and for people" "$stdout" ' monitor.anomaly  -  .*alone-leak +began, [a-z]+: python3 .* grows by'
run "$PROCTOR" report alone-leak
like "the report tells it" "$stdout" 'Out of the ordinary'
like "with its numbers" "$stdout" 'numbers +MB: [0-9.]+ before, [0-9.]+ when it began, [0-9.]+ at its worst'
like "what the host did" "$stdout" 'host +load [0-9.]+, .* available; waited for CPU'
like "and what it had open" "$stdout" 'its files +[0-9]+ open: /'
run "$PROCTOR" report alone-leak --json
json "in JSON too" "$stdout" '[a["anomaly_type"] for a in d["anomalies"]].count("memory_leak") == 1'
run "$PROCTOR" report alone-quiet --json
json "and an empty list where there was nothing" "$stdout" '[a for a in d["anomalies"] if a["pid"]] == []'

# A loop that does nothing else. It goes before all others of the machine if it may; else these may take
# its core from it now and then, and it tries again.
sed -i 's/  clear_seconds/  runaway_cpu_threshold: 50\n&/' "$PROCTOR_HOME/proctor.yaml"
for try in 1 2 3 4; do
	"$PROCTOR" run -q --job "alone-busy-$try" -- python3 "$FAULTS" busy 8
	is_told=$(json_eval "$("$PROCTOR" anomalies --job "alone-busy-$try" --json)" \
		'any(a["anomaly_type"] == "runaway_process" for a in d)')
	[ "$is_told" = True ] && break
done
found "alone: a busy loop" "alone-busy-$try" runaway_process

# ---- a trace as evidence ----

sed -i 's/  clear_seconds/  evidence_trace_seconds: 1\n&/' "$PROCTOR_HOME/proctor.yaml"
pids=()
plant alone-traced fds 9
wait "${pids[@]}"
run "$PROCTOR" anomalies --job alone-traced --json
trace=$(json_eval "$stdout" '[a["evidence"]["culprit"]["trace"] for a in d if a["pid"]][0]')
if [ "$trace" = None ] && ! strace -o /dev/null true 2>"$TMP/refused"; then
	skip "a trace of the culprit" "nothing can be traced here: $(cat "$TMP/refused")"
else
	like "a trace of the culprit is where it says" "$(cat "$trace")" 'openat\(.*"/dev/null"'
	is "for nobody else to read" "$(stat -c %a "$trace") $(stat -c %a "$(dirname "$trace")")" "600 700"
	is "bounded" "$(($(stat -c %s "$trace") <= 4 << 20))" 1
	run "$PROCTOR" report alone-traced --json
	json "and who traced is none of the job" "$stdout" \
		'all("strace" not in (p["command"] or "") and " trace " not in (p["command"] or "") for p in d["processes"])'
fi
sed -i '/evidence_trace_seconds/d' "$PROCTOR_HOME/proctor.yaml"

# ---- of the host, by two runs at a time ----

sed -i 's/  clear_seconds/  memory_pressure_percent: 100\n&/' "$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" run -q --job both-1 -- sleep 3 &
pids=($!)
"$PROCTOR" run -q --job both-2 -- sleep 3
wait "${pids[@]}"
run "$PROCTOR" anomalies --json
json "what two runs see of the host is told once, and of no job" "$stdout" \
	'[a["job_id"] for a in d if a["anomaly_type"] == "memory_pressure" and "host" in a["description"]] == [None]'
sed -i '/memory_pressure_percent/d' "$PROCTOR_HOME/proctor.yaml"

# ---- out of memory in a cgroup ----

remove_cgroup() {
	local i
	for ((i = 0; i < 50; i++)); do
		rmdir "$cgroup" 2>/dev/null && return
		sleep 0.1
	done
}

# The run is in it with its command, which takes 200 MB.
run_out_of_memory() { # JOB
	sh -c 'echo $$ >"$1/cgroup.procs" && exec "$2" run -q --job "$3" -- python3 "$4" eat 1' \
		sh "$cgroup" "$PROCTOR" "$1" "$FAULTS" 2>/dev/null
}

cgroup=
if make_cgroup 2>"$TMP/refused"; then
	run_out_of_memory alone-oom
	run "$PROCTOR" anomalies --job alone-oom --json
	json "alone: killed for want of memory" "$stdout" \
		'[a["severity"] for a in d if a["anomaly_type"] == "oom_kill"] == ["critical"]'
	json "once, and by its name" "$stdout" \
		'all(a["comm"] == "python3" for a in d if a["anomaly_type"] == "oom_kill")'
else
	skip "alone: killed for want of memory" "no cgroup can be made here: $(cat "$TMP/refused")"
fi

# ---- with a daemon ----

"$PROCTOR" start
"$PROCTOR" events --follow --json >"$TMP/live" &
follower=$!
pids=()
plant_all watched
plant watched-outlived outlived 2 --leave-background
"$PROCTOR" run -q --job watched-short --leave-background -- sh -c 'sleep 12 >/dev/null 2>&1 &'
wait "${pids[@]}"
sleep 4 # for the one that outlives its job
if [ -d "$cgroup" ]; then
	run_out_of_memory watched-oom
	sleep 2 # what a runner has written down is seen with the next ticks
	run "$PROCTOR" anomalies --job watched-oom --json
	json "watched: killed for want of memory" "$stdout" \
		'[a["severity"] for a in d if a["anomaly_type"] == "oom_kill"] == ["critical"]'
else
	skip "watched: killed for want of memory" "no cgroup can be made here"
fi
found "watched: a leak" watched-leak memory_leak
found "watched: files that are never closed" watched-fds fd_exhaustion
json "watched: what it had open is kept" "$stdout" \
	'any(f["target"] == "/dev/null" for a in d if a["pid"] for f in a["evidence"]["culprit"]["open_files"])'
run "$PROCTOR" anomalies --json
json "watched: one of the jobs was looked at closer" "$stdout" \
	'any(a["job_id"] and a["job_id"].startswith("watched") and (a["evidence"]["culprit"] or {}).get("fast_interval_seconds") == 0.1 for a in d)'
closer "watched: and that is in the record" watched-%
found "watched: an explosion of processes" watched-many process_explosion
found "watched: a fork bomb that a limit stops" watched-bomb process_explosion
found "watched: a stopped process" watched-stopped stuck_process
found "watched: a zombie" watched-zombie zombie
json "its parent is blamed" "$stdout" 'all("has not waited for 1 child that ended" in a["description"] for a in d)'
found "watched: a process that outlives its job" watched-outlived orphan
json "of its attempt and sheet, and not over before it began" "$stdout" \
	'all(a["attempt"] == 1 and a["sheet_num"] == 1 and (a["ended"] or a["began"]) >= a["began"] for a in d if a["anomaly_type"] == "orphan")'
found "watched: one that a job leaves that is over at once" watched-short orphan
run "$PROCTOR" anomalies --job watched-quiet --json
json "watched: nothing of a quiet job" "$stdout" "$OF_JOBS == []"
pids=()
plant watched-last stopped 8
wait "${pids[@]}"
run "$PROCTOR" anomalies --job watched-last --json
like "the summary tells the last of it, as the record does" "$(cat "$TMP/watched-last.said")" \
	"$(json_eval "$stdout" 'd[0]["description"].split(" (threshold")[0].split(") ")[1]')"
"$PROCTOR" stop
has_told() { [ "$(grep -c '"event":"monitor.anomaly","change":"cleared"' "$TMP/live")" -ge 5 ]; }
eventually has_told
kill "$follower"

# Each change by its name, with all its numbers and words.
told() { grep '"event":"monitor.anomaly"' | paste -sd,; }
both="[[$(told <"$TMP/live")], [$("$PROCTOR" events --json | told)]]"
by_name='({(e["episode"], e["change"], e["severity"]): {k: e[k] for k in e if k != "evidence"} for e in part} for part in d)'
is "what was told when it was over is recorded" "$(json_eval "$both" "(lambda live, kept:
	'enough' if len([k for k in live if k[1] == 'cleared' and k in kept]) >= 5 else (sorted(live), sorted(kept)))(*$by_name)")" enough
is "as it was told" "$(json_eval "$both" "(lambda live, kept:
	[(k, n, live[k].get(n), kept[k].get(n)) for k in live if k in kept for n in {**live[k], **kept[k]}
		if live[k].get(n) != kept[k].get(n)])(*$by_name)")" "[]"

# ---- a kill, long before the next tick ----

# A shell in the cgroup, whose child is killed when the file is there, and which goes on.
wait_and_eat="while [ ! -e '$TMP/eat' ]; do sleep 0.1; done; python3 '$FAULTS' eat 1; exec sleep 60"
kills_of() { # JOB
	json_eval "$("$PROCTOR" anomalies --job "$1" --json)" \
		'[a["severity"] for a in d if a["anomaly_type"] == "oom_kill"]'
}

if [ -d "$cgroup" ] && [ "$("$PROCTOR" doctor --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["rungs"]["OOM kills"])')" = "eBPF oom tracepoint" ]; then
	sed -i 's/^interval_seconds.*/interval_seconds: 300/' "$PROCTOR_HOME/proctor.yaml"
	"$PROCTOR" start
	sh -c "echo \$\$ >'$cgroup/cgroup.procs'; $wait_and_eat" 2>/dev/null &
	shell=$!
	"$PROCTOR" attach --pid "$shell" --job attached-oom >/dev/null
	touch "$TMP/eat"
	is "the daemon tells of a kill when the kernel does" "$(becomes "['critical']" kills_of attached-oom)" "['critical']"
	run "$PROCTOR" anomalies --job attached-oom --json
	json "and whom, though no look has shown it" "$stdout" \
		'[a["comm"] for a in d if a["anomaly_type"] == "oom_kill"] == ["python3"]'
	looks() { "$PROCTOR" sql --no-header --csv "SELECT count(DISTINCT timestamp) > 3 FROM process_metrics WHERE job_id = 'attached-oom'"; }
	is "closer looks are in the record: a tick comes every 300 s" "$(becomes 1 looks)" 1
	kill "$shell"
	# And one whose runner looks more often than the daemon: it knows of the count alone.
	sh -c 'echo $$ >"$1/cgroup.procs" && exec "$2" run -q --interval 0.2 --job looked-oom -- sh -c "$3; exit 0"' \
		sh "$cgroup" "$PROCTOR" "python3 '$FAULTS' eat 1; sleep 4" 2>/dev/null
	is "one that a runner counts and the daemon knows is one" "$(kills_of looked-oom)" "['critical']"
	"$PROCTOR" stop
else
	skip "a kill before the next tick" "needs eBPF and a cgroup"
fi
[ -d "$cgroup" ] && remove_cgroup

run "$PROCTOR" detect --history 1h --json
json "what would have fired is what did" "$stdout" \
	'sorted((a["job_id"], a["anomaly_type"]) for a in d if (a["job_id"] or "") in ("watched-fds", "watched-many", "watched-zombie")) == [("watched-fds", "fd_exhaustion"), ("watched-many", "process_explosion"), ("watched-zombie", "zombie")]'

run "$PROCTOR" sql --json "SELECT name, occurrences, jobs FROM patterns WHERE type = 'RESOURCE_ANOMALY'"
json "each is a pattern, with its jobs" "$stdout" \
	'any(p["name"] == "memory_leak:python3" and p["occurrences"] == 2 and "alone-leak" in p["jobs"] for p in d)'
run "$PROCTOR" patterns
like "and listed as what it is" "$stdout" "^anomaly [a-z_]+ of "
unlike "which no old rule has found" "$stdout" "by the old rules"
run "$PROCTOR" patterns --json
json "in JSON too" "$stdout" 'all(p["state"] == "anomaly" for p in d if p["type"] == "RESOURCE_ANOMALY") and len(d) > 0'

finish
