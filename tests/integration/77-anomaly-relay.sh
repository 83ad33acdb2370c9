#!/bin/bash
# An anomaly of a job is on the daemon's bus as it is in the record: each change once, however the two look.
. "$(dirname "$0")/lib.sh"
FAULTS=$INTEGRATION/faults.py

cat >"$TMP/listen.py" <<'END'
import json, sys
from rpc_client import Client
client = Client(sys.argv[1])
client.socket.settimeout(None)
client.ask("events.subscribe", {"topics": ["monitor.anomaly", "job.*"]})
print(json.dumps({"event": "begun"}), flush=True)
for line in client.lines:
    print(json.dumps(json.loads(line)["params"]["data"]), flush=True)
END

has() { grep -Eq -- "$1" "$TMP/bus"; } # REGEX
is_over() { # JOB
	has "\"job_id\": \"$1\".*job.(completed|failed)|job.(completed|failed).*\"job_id\": \"$1\""
}
bus_of() { # JOB: as a list
	echo "[$(grep "\"job_id\": \"$1\"" "$TMP/bus" | paste -sd,)]" # the host may have something of its own
}
recorded_of() { # JOB: its anomalies, as a list
	echo "[$("$PROCTOR" events --job "$1" --json | grep monitor.anomaly | paste -sd,)]"
}

start_daemon 'interval_seconds: 30
anomaly:
  process_explosion_processes: 40
  fd_exhaustion_percent: 60'
PYTHONPATH=$INTEGRATION python3 "$TMP/listen.py" "$PROCTOR_HOME/proctor.sock" >"$TMP/bus" &
listener=$!
check "a client subscribes" eventually has begun

# ---- between two ticks of the daemon ----
"$PROCTOR" run -q --job burst -- python3 "$FAULTS" many 4
check "the end of the job is published" eventually is_over burst
bus=$(bus_of burst)
recorded=$(recorded_of burst)
json "the record has what began and was over" "$recorded" \
	'{e["change"] for e in d if e["anomaly_type"] == "process_explosion"} == {"began", "cleared"}'
json "the bus has the same, once" "[$bus, $recorded]" \
	'sorted((e["episode"], e["change"], e["severity"], e["changed"]) for e in d[0] if e["event"] == "monitor.anomaly") == sorted((e["episode"], e["change"], e["severity"], e["changed"]) for e in d[1])'
json "in their order" "$bus" \
	'[e["change"] for e in d if e.get("anomaly_type") == "process_explosion"] == ["began", "cleared"]'
json "before the end of the job" "$bus" 'd[-1]["event"] == "job.completed"'
json "with its words and what the host was doing" "$bus" \
	'all(e["job_id"] == "burst" and "processes" in e["description"] and e["host"]["memory_total_mb"] > 0 for e in d if e.get("anomaly_type") == "process_explosion")'
json "daemon.events has it, too" "$(ask daemon.events '{"job_id": "burst", "limit": 1000}')" \
	'[e["change"] for e in d if e.get("anomaly_type") == "process_explosion"] == ["began", "cleared"]'

# ---- where the daemon looks as often ----
sed -i 's/^interval_seconds.*/interval_seconds: 0.3/' "$PROCTOR_HOME/proctor.yaml"
kill -HUP "$(daemon_pid)"
(ulimit -n 64 && exec "$PROCTOR" run -q --job fds -- python3 "$FAULTS" fds 5)
check "the end of the next is published" eventually is_over fds

# ---- while the database is locked ----
"$PROCTOR" run -q --interval 0.2 --job waits -- sh -c "$(gate waits); exec python3 '$FAULTS' many 4" &
runner=$!
check "the daemon watches it" eventually has '"job_id": "waits"'
eventually has_ticks waits 2
hold_database lock
pass waits
wait "$runner"
release_database lock
check "its end is published" eventually is_over waits
is_recorded() { recorded_of waits | grep -q process_explosion; }
check "the record has it" eventually is_recorded
json "under one name" "[[$(grep '"job_id": "waits"' "$TMP/bus" | grep monitor.anomaly | paste -sd,)], $(recorded_of waits)]" \
	'(lambda bus, record: bus == record)(*[sorted((e["episode"], e["change"]) for e in l if e["change"] != "escalated") for l in d])'

"$PROCTOR" stop
wait "$listener"
json "each change of all jobs was published once" "[$(paste -sd, "$TMP/bus")]" '(lambda changes: {"fds", "burst", "waits"} <= {c[0] for c in changes} and len(set(changes)) == len(changes))(
	[(e["job_id"], e["episode"], e["change"], e["severity"]) for e in d if e["event"] == "monitor.anomaly"])'

finish
