#!/bin/bash
# The log of snapshots that runs append to, where it is wanted.
. "$(dirname "$0")/lib.sh"

log=$PROCTOR_HOME/proctor.jsonl

"$PROCTOR" run -q -- sleep 0.1
check "without a word of it there is no log" [ ! -e "$log" ]
echo 'jsonl_path: proctor.jsonl' >"$PROCTOR_HOME/proctor.yaml"

# ---- what is in it ----
"$PROCTOR" run -q --interval 0.1 --job one -- sleep 1
lines=$(python3 -c '
import json, sys
print(json.dumps([json.loads(line) for line in open(sys.argv[1])]))' "$log")
json "a line is a snapshot of the contract" "$lines" \
	'all(set(s) >= set("timestamp daemon_pid system_memory_total_mb system_memory_available_mb system_memory_used_mb daemon_rss_mb load_avg_1 load_avg_5 load_avg_15 processes gpus pressure_level running_jobs active_sheets zombie_count zombie_pids job_progress conductor_uptime_seconds".split()) for s in d)'
json "with the processes of the job alone" "$lines" \
	'{p["job_id"] for s in d for p in s["processes"]} == {"one"}'
json "and how far it is" "$lines" \
	'd[-1]["job_progress"][0]["job_id"] == "one" and d[-1]["running_jobs"] == 1'
run "$PROCTOR" history --job one --json
check "some were recorded" [ "$stdout" != '[]' ]
# A line is there also for a moment in which none of its processes was.
is "as many as were recorded, at the same times" \
	"$(json_eval "$lines" '[s["timestamp"] for s in d for p in s["processes"]]')" \
	"$(json_eval "$stdout" '[s["timestamp"] for s in d]')"
is "nobody else may read it" "$(stat -c %a "$log")" 600

# ---- many runs at once ----
rm "$log"
for i in 1 2 3 4 5 6; do
	"$PROCTOR" run -q --interval 0.1 --job "many-$i" -- sleep 1 &
done
wait
is "runs side by side do not mix their lines" \
	"$(python3 -c 'import json, sys
print(len({p["job_id"] for line in open(sys.argv[1]) for p in json.loads(line)["processes"]}))' "$log")" 6

# ---- rotation ----
printf 'jsonl_path: proctor.jsonl\njsonl_max_bytes: 1048576\n' >"$PROCTOR_HOME/proctor.yaml"
head -c 1048000 /dev/zero | tr '\0' ' ' | sed 's/^/{/; s/$/}/' >"$log"
echo >>"$log"
echo '{"old": 1}' >"$log.1"
"$PROCTOR" run -q --interval 0.1 --job turned -- sleep 0.5
is "a full file becomes .1" "$(stat -c %s "$log.1")" 1048003
is "and the old .1 becomes .2" "$(cat "$log.2")" '{"old": 1}'
like "what is new stands in a new one" "$(head -n 1 "$log")" turned

# ---- settings ----
echo 'jsonl_path: null' >"$PROCTOR_HOME/proctor.yaml"
rm -f "$log"*
"$PROCTOR" run -q -- sleep 0.2
is "null: no log" "$(ls "$log"* 2>/dev/null)" ""
echo "jsonl_max_bytes: 1000" >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" snapshot
is "too small a log is bad input" "$status" 2
like "with the line and what would do" "$stderr" 'proctor.yaml:1: .*1048576'
echo 'jsonl_path: proctor.jsonl' >"$PROCTOR_HOME/proctor.yaml"

# ---- it cannot be written ----
mkdir "$log"
run "$PROCTOR" run --interval 0.1 -- sh -c 'sleep 0.3; exit 3'
is "the job goes on" "$status" 3
is "and it is said once" "$(grep -c "missing in the log" <<<"$stderr")" 1
rmdir "$log"

# ---- beside a daemon ----
# It alone writes then, as soon as a run has met it.
echo 'interval_seconds: 0.2' >>"$PROCTOR_HOME/proctor.yaml"
start_daemon
"$PROCTOR" run -q --interval 0.1 --job beside -- sleep 4
"$PROCTOR" stop >/dev/null
is "a daemon writes it where one runs" \
	"$(python3 -c 'import json, sys
print(all(json.loads(line)["daemon_pid"] for line in open(sys.argv[1]).readlines()[-5:]))' "$log")" True
like "with the job" "$(cat "$log")" '"job_id": *"beside"'

finish
