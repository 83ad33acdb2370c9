#!/bin/bash
# Faults are found while they happen, by a run alone and by the daemon, told once, and stored. How long that
# took is printed. Windows are short here.
. "$(dirname "$0")/lib.sh"

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
  clear_seconds: 2
EOF

cat >"$TMP/faults.py" <<'EOF'
import os, signal, sys, time

def leak():
    held = []
    for _ in range(120):
        held.append(bytearray(1 << 20))
        time.sleep(0.1)

def fds():
    held = []
    for _ in range(90):
        held.append(open("/dev/null"))
        time.sleep(0.1)

def zombie():
    if os.fork() == 0:
        os._exit(0)
    time.sleep(5)

def many():
    time.sleep(3)
    children = [os.fork() or (time.sleep(3), os._exit(0)) for _ in range(60)]
    for child in children:
        os.waitpid(child, 0)

def stopped():
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    time.sleep(6)
    os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)

def outlived():
    if os.fork() == 0:
        os.setsid()
        time.sleep(6)
        os._exit(0)
    time.sleep(2)

def quiet():
    time.sleep(5)

globals()[sys.argv[1]]()
EOF

plant() { # JOB FAULT [OPTION...]
	local job=$1 fault=$2
	shift 2
	(
		ulimit -n 128
		exec "$PROCTOR" run -q --job "$job" "$@" -- python3 "$TMP/faults.py" "$fault"
	) &
	pids+=($!)
}

# What others do to the host, such as an OOM kill, is none of the job.
OF_JOBS='[a for a in d if a["pid"]]'

# Since when the job ran, for the delay.
found() { # NAME JOB TYPE
	run "$PROCTOR" anomalies --job "$2" --json
	json "$1" "$stdout" "[a['job_id'] for a in d if a['anomaly_type'] == '$3'] == ['$2']"
	echo "# $2: $3 after $(json_eval "$stdout" "round(min(a['began'] for a in d) - $(started "$2"), 1)") s"
}

started() { # JOB
	json_eval "$("$PROCTOR" jobs --json)" "[j['started'] for j in d if j['job_id'] == '$1'][-1]"
}

# It was looked at more often than every interval, after the first seconds in which a run does so anyhow.
closer() { # NAME JOB
	local moments
	moments=$("$PROCTOR" sql --json "SELECT DISTINCT timestamp FROM process_metrics WHERE job_id = '$2' ORDER BY 1")
	json "$1" "$moments" "(lambda t: any(b - a < 0.3 and a - t[0] > 4 for a, b in zip(t, t[1:])))([r['timestamp'] for r in d])"
}

# ---- without a daemon ----

pids=()
for fault in leak fds many stopped zombie quiet; do plant "alone-$fault" "$fault"; done
wait "${pids[@]}"
found "alone: a leak" alone-leak memory_leak
json "it is over with its process" "$stdout" 'all(a["ended"] >= a["began"] for a in d)'
json "what the host was doing is kept" "$stdout" 'all(a["host"]["memory_total_mb"] > 0 for a in d)'
found "alone: files that are never closed" alone-fds fd_exhaustion
json "what it had open is kept" "$stdout" \
	'any(f["target"] == "/dev/null" for a in d if a["pid"] for f in a["evidence"]["culprit"]["open_files"])'
json "how many they were, too" "$stdout" 'all(a["evidence"]["culprit"]["open_file_count"] > 10 for a in d if a["pid"])'
closer "and it was looked at closer" alone-fds
found "alone: an explosion of processes" alone-many process_explosion
found "alone: a stopped process" alone-stopped stuck_process
found "alone: a zombie" alone-zombie zombie
run "$PROCTOR" anomalies --job alone-quiet --json
json "alone: nothing of a quiet job" "$stdout" "$OF_JOBS == []"

run "$PROCTOR" events --job alone-leak --json
is "events have it when it began and when it was over" \
	"$(grep '"anomaly_type":"memory_leak"' <<<"$stdout" | grep -o '"event":"monitor.anomaly","change":"[a-z]*"' <<<"$stdout" | grep -o '[a-z]*"$' | tr '\n' ' ')" \
	'began" cleared" '
json "in the order of time" "$(paste -sd, <<<"$stdout" | sed 's/.*/[&]/')" \
	'(lambda t: t == sorted(t))([e.get("changed", e["timestamp"]) for e in d])'
run "$PROCTOR" events --job alone-leak
like "and for people" "$stdout" ' monitor.anomaly  -  .*alone-leak +began, [a-z]+: python3 .* grows by'
run "$PROCTOR" report alone-leak
like "the report tells it" "$stdout" 'Out of the ordinary'
run "$PROCTOR" report alone-leak --json
json "in JSON too" "$stdout" '[a["anomaly_type"] for a in d["anomalies"]].count("memory_leak") == 1'
run "$PROCTOR" report alone-quiet --json
json "and an empty list where there was nothing" "$stdout" '[a for a in d["anomalies"] if a["pid"]] == []'

# ---- with a daemon ----

"$PROCTOR" start
pids=()
for fault in leak fds many stopped zombie quiet; do plant "watched-$fault" "$fault"; done
plant watched-outlived outlived --leave-background
wait "${pids[@]}"
sleep 4 # for the one that outlives its job
found "watched: a leak" watched-leak memory_leak
found "watched: files that are never closed" watched-fds fd_exhaustion
json "watched: what it had open is kept" "$stdout" \
	'any(f["target"] == "/dev/null" for a in d if a["pid"] for f in a["evidence"]["culprit"]["open_files"])'
run "$PROCTOR" anomalies --json
json "watched: one of the jobs was looked at closer" "$stdout" \
	'any(a["job_id"] and a["job_id"].startswith("watched") and (a["evidence"]["culprit"] or {}).get("fast_interval_seconds") == 0.1 for a in d)'
closer "watched: and that is in the record" \
	"$(json_eval "$stdout" '[a["job_id"] for a in sorted(d, key=lambda a: a["began"]) if a["job_id"] and a["job_id"].startswith("watched") and (a["evidence"]["culprit"] or {}).get("fast_interval_seconds")][-1]')"
found "watched: an explosion of processes" watched-many process_explosion
found "watched: a stopped process" watched-stopped stuck_process
found "watched: a zombie" watched-zombie zombie
json "its parent is blamed" "$stdout" 'all("has not waited for 1 of its children" in a["description"] for a in d)'
found "watched: a process that outlives its job" watched-outlived orphan
run "$PROCTOR" anomalies --job watched-quiet --json
json "watched: nothing of a quiet job" "$stdout" "$OF_JOBS == []"
"$PROCTOR" stop

run "$PROCTOR" sql --json "SELECT name, occurrences, jobs FROM patterns WHERE type = 'RESOURCE_ANOMALY'"
json "each is a pattern, with its jobs" "$stdout" \
	'any(p["name"] == "memory_leak:python3" and p["occurrences"] == 2 and "alone-leak" in p["jobs"] for p in d)'

finish
