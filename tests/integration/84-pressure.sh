#!/bin/bash
# Back-pressure: jobs and sheets that have not begun wait, or are turned away, and everybody can see why.
. "$(dirname "$0")/lib.sh"
config=$PROCTOR_HOME/proctor.yaml
mkdir -p "$PROCTOR_HOME"
sleepers=()
trap '"$PROCTOR" stop 2>/dev/null; [ ${#sleepers[@]} = 0 ] || kill "${sleepers[@]}" 2>/dev/null; rm -rf "$TMP"' EXIT

is_true() { # EXPRESSION: of "status --json", as d
	[ "$(json_eval "$("$PROCTOR" status --json 2>/dev/null)" "$1")" = True ]
}

job_is() { # JOB EXPRESSION: of its object in "jobs --json", as j
	[ "$(json_eval "$("$PROCTOR" jobs --json 2>/dev/null)" "[$2 for j in d if j['job_id'] == '$1'] == [True]")" = True ]
}

# configure [LINE...]: the limits from now on; the daemon reads them.
configure() {
	printf 'interval_seconds: 0.2\nlimits:\n  max_concurrent_jobs: 4\n' >"$config"
	[ $# = 0 ] || printf '  %s\n' "$@" >>"$config"
	[ -z "${daemon:-}" ] || kill -HUP "$daemon"
}

level_is() { # LEVEL
	is_true "d['pressure_level'] == '$1'"
}

ask() { # PARAMS [METHOD]: prints what "admit" says, or the method
	python3 - "$PROCTOR_HOME/proctor.sock" "$1" "${2:-admit}" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": sys.argv[3], "params": json.loads(sys.argv[2])}).encode() + b"\n")
print(s.makefile().readline())
END
}

events_of() { # JOB: of its being held
	json_eval "$(ask "{\"job_id\": \"$1\", \"limit\": 4096}" daemon.events)" \
		"[(e['status'], e['attempt'], e['reason'].startswith('pressure is '), e['delay_seconds']) for e in d['result'] if e['event'] == 'job.held']"
}

configure
"$PROCTOR" start
daemon=$(json_eval "$("$PROCTOR" status --json)" 'd["pid"]')
go=$TMP/go
cat >"$TMP/steps.yaml" <<END
sheets:
  - run: while [ ! -e '$go' ]; do sleep 0.1; done
  - run: echo second
  - run: echo third
END

# ---- none ----

check "without pressure" level_is none
json "everything is admitted" "$(ask '{}')" \
	'd["result"]["answer"] == "admit" and d["result"]["delay_seconds"] == 0 and d["result"]["pressure_level"] == "none"'

# ---- critical: held for as long as it lasts ----

run "$PROCTOR" submit --json --job steps "$TMP/steps.yaml"
json "a job that begins at once has no warning" "$stdout" 'd == {"job_id": "steps"}'
check "a job runs its first sheet" eventually job_is steps 'j["current_sheet"] == 1'
configure 'max_memory_mb: 64'
check "more memory is used than there may be" eventually level_is critical
touch "$go"
check "the next sheet waits" eventually is_true 'd["held_jobs"] == 1'
run "$PROCTOR" jobs --json
json "and it can be seen why" "$stdout" \
	'd[0]["status"] == "running" and d[0]["why_held"].startswith("pressure is critical: memory ") and d[0]["total_sheets"] == 3'
run "$PROCTOR" jobs
like "in words too" "$stdout" '^steps .* 1/3 +waiting +pressure is critical: memory [0-9]+ %'
run "$PROCTOR" status
like "status counts it" "$stdout" '^jobs +1 running, 0 queued; a sheet waits in 1$'
like "and tells the level" "$stdout" '^pressure +critical \(memory '
is "there is one event of it, however often its runner asks" \
	"$(events_of steps)" "[('running', 1, True, 60)]"
like "it is in the job's log" "$(cat "$PROCTOR_HOME/logs/steps.log")" "warning: the next sheet waits: .*memory"
sleep 2.5
check "it waits for as long as that lasts" job_is steps \
	'j["last_completed_sheet"] == 1 and j["current_sheet"] is None and j["why_held"] is not None'

run "$PROCTOR" submit --job late "$TMP/steps.yaml"
is "a new job is turned away" "$status" 1
like "with the reason" "$stderr" 'no new jobs: the pressure is critical \(memory [0-9]+ % of '
json "and leaves nothing behind" "$("$PROCTOR" jobs --all --json)" '"late" not in [j["job_id"] for j in d]'
json "other schedulers are told the same" "$(ask '{}')" \
	'd["result"]["answer"] == "reject" and d["result"]["delay_seconds"] == 60 and "memory" in d["result"]["reason"]'
json "and of sheets" "$(ask '{"for": "sheet"}')" 'd["result"]["answer"] == "reject"'
json "of nothing else" "$(ask '{"for": "lunch"}')" 'd["error"]["code"] == -32602'
ask '{"for": "sheet", "job_id": "nobody"}' >/dev/null
check "who asks for another's job changes nothing there" is_true 'd["held_jobs"] == 1'

run timeout 30 "$PROCTOR" run -q --job by-hand -f "$TMP/steps.yaml"
is "what somebody runs in the foreground is not held" "$status" 0

configure
run "$PROCTOR" wait --json steps
json "when the pressure is over it goes on" "$stdout" 'd["outcome"] == "success" and d["last_completed_sheet"] == 3'
check "nothing waits any more" is_true 'd["held_jobs"] == 0'

# ---- cancelled while it waits ----

rm "$go"
"$PROCTOR" submit --job gone "$TMP/steps.yaml" >/dev/null
check "another one runs" eventually job_is gone 'j["current_sheet"] == 1'
configure 'max_memory_mb: 64'
check "and is held" eventually level_is critical
touch "$go"
check "after its first sheet" eventually is_true 'd["held_jobs"] == 1'
"$PROCTOR" cancel gone
run "$PROCTOR" wait --json gone
json "who waits can be cancelled" "$stdout" 'd["outcome"] == "cancelled" and d["last_completed_sheet"] == 1'

# ---- low: a delay ----

for _ in $(seq 300); do
	sleep 300 &
	sleepers+=($!)
done
n=$(json_eval "$("$PROCTOR" snapshot --json)" 'd["process_count"]')
configure "max_processes: $((n * 100 / 60))"
check "processes count too" eventually level_is low
json "then work is delayed" "$(ask '{}')" 'd["result"]["answer"] == "delay" and d["result"]["delay_seconds"] == 2'
run "$PROCTOR" submit --job slow "$TMP/steps.yaml"
like "who submits is warned" "$status/$stdout/$stderr" '0/slow/proctor: warning: job slow: it waits 2 s, .* pressure is low'
check "a new job waits in the queue" eventually job_is slow 'j["status"] == "queued" and "processes" in j["why_queued"]'
"$PROCTOR" wait slow >/dev/null
run "$PROCTOR" report slow --format json
json "and each sheet of it for 2 s" "$stdout" \
	'(lambda s: len(s) == 3 and all(b["started"] - a["ended"] >= 2 for a, b in zip(s, s[1:])))(sorted(d["sheet_metrics"].values(), key=lambda m: m["started"]))'

is "each wait was told once" "$(events_of slow)" "[('queued', None, True, 2), ('running', 1, True, 2), ('running', 1, True, 2)]"

# ---- medium: the daemon goes away meanwhile ----

rm "$go"
configure
check "no pressure" eventually level_is none
"$PROCTOR" submit --job alone "$TMP/steps.yaml" >/dev/null
check "a job begins" eventually job_is alone 'j["current_sheet"] == 1'
configure "max_processes: $((n * 100 / 77))"
check "its next sheet" eventually level_is medium
touch "$go"
check "waits" eventually is_true 'd["held_jobs"] == 1'
kill -KILL "$daemon"
daemon=
check "and without a daemon it goes on in the end" eventually job_is alone 'j["outcome"] == "success"'
kill "${sleepers[@]}"
sleepers=()

# ---- queued ----

rm "$go"
printf 'interval_seconds: 0.2\nlimits:\n  max_concurrent_jobs: 1\n' >"$config"
"$PROCTOR" start
"$PROCTOR" submit --job first "$TMP/steps.yaml" >/dev/null
"$PROCTOR" submit --job second "$TMP/steps.yaml" >/dev/null
check "one runs" eventually job_is first 'j["status"] == "running"'
check "the other is queued, and it is said why" eventually job_is second \
	'j["status"] == "queued" and j["why_queued"] == "1 job runs already" and j["outcome"] is None and j["started"] is None'
check "which attempt it will be, and of how many sheets, is not known yet" job_is second \
	'j["attempt"] is j["total_sheets"] is None'
check "status counts it" is_true 'd["queued_jobs"] == 1'
run "$PROCTOR" jobs --limit 1
is "it is the newest of all" "$(tail -n +2 <<<"$stdout" | awk '{ print $1, $6 }')" "second queued"
like "with its reason" "$stdout" 'queued +1 job runs already$'
"$PROCTOR" stop
run "$PROCTOR" jobs
like "it can be seen without a daemon too" "$stdout" '^second .* queued +no daemon is running$'
touch "$go"
"$PROCTOR" start
"$PROCTOR" wait second >/dev/null
run "$PROCTOR" jobs --json
is "in the end each is there once" "$(json_eval "$stdout" '[j["status"] for j in d if j["job_id"] in ("first", "second")]')" \
	"['done', 'done']"

finish
