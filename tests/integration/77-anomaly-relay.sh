#!/bin/bash
# What a runner finds out of the ordinary between two ticks of the daemon is on the daemon's bus as well: each
# change once, and for whom the job is.
. "$(dirname "$0")/lib.sh"
FAULTS=$SOURCE_ROOT/tests/integration/faults.py

mkdir -p "$PROCTOR_HOME"
cat >"$PROCTOR_HOME/proctor.yaml" <<'EOF2'
interval_seconds: 30
anomaly:
  process_explosion_processes: 40
  fd_exhaustion_percent: 60
EOF2

cat >"$TMP/listen.py" <<'EOF2'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["monitor.anomaly","job.*"]}}\n')
for line in s.makefile():
    params = json.loads(line).get("params")
    print(json.dumps(params["data"] if params else {"event": "begun"}), flush=True)
EOF2

has() { grep -q -- "$2" "$1"; } # FILE TEXT
ask() { # METHOD PARAMS: prints the answer
	python3 - "$PROCTOR_HOME/proctor.sock" "$1" "$2" <<'EOF2'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": sys.argv[2], "params": json.loads(sys.argv[3])}).encode() + b"\n")
print(s.makefile().readline())
EOF2
}

"$PROCTOR" start
python3 "$TMP/listen.py" "$PROCTOR_HOME/proctor.sock" >"$TMP/bus" &
listener=$!
check "somebody subscribes" eventually has "$TMP/bus" begun

"$PROCTOR" run -q --job burst -- python3 "$FAULTS" many 4
check "the end of the job is told" eventually has "$TMP/bus" 'job.completed'
bus=$(grep '"job_id": "burst"' "$TMP/bus" | paste -sd,) # the host may have something of its own
recorded=$("$PROCTOR" events --job burst --json | grep monitor.anomaly | paste -sd,)
json "the record has what its runner has seen" "[$recorded]" \
	'{e["change"] for e in d if e["anomaly_type"] == "process_explosion"} == {"began", "cleared"}'
json "the bus tells the same, once" "[[$bus], [$recorded]]" \
	'sorted((e["episode"], e["change"], e["severity"], e["changed"]) for e in d[0] if e["event"] == "monitor.anomaly") == sorted((e["episode"], e["change"], e["severity"], e["changed"]) for e in d[1])'
json "in their order" "[$bus]" \
	'[e["change"] for e in d if e.get("anomaly_type") == "process_explosion"] == ["began", "cleared"]'
json "before the end of the job" "[$bus]" 'd[-1]["event"] == "job.completed"'
json "with its words and what the host was doing" "[$bus]" \
	'all(e["job_id"] == "burst" and "processes" in e["description"] and e["host"]["memory_total_mb"] > 0 for e in d if e.get("anomaly_type") == "process_explosion")'
json "who asks later is told, too" "$(ask daemon.events '{"job_id": "burst", "limit": 100}')" \
	'[e["change"] for e in d["result"] if e.get("anomaly_type") == "process_explosion"] == ["began", "cleared"]'

# What the daemon finds itself is told once, too, though it is in the record as well.
sed -i 's/^interval_seconds.*/interval_seconds: 0.3/' "$PROCTOR_HOME/proctor.yaml"
kill -HUP "$(json_eval "$("$PROCTOR" status --json)" 'd["pid"]')"
(ulimit -n 64 && exec "$PROCTOR" run -q --job fds -- python3 "$FAULTS" fds 6)
check "the end of the next is told" eventually has "$TMP/bus" '"job_id": "fds".*job.completed\|job.completed.*"job_id": "fds"'

# Both find the same while nobody can write: the record will have it under one name, and so has the bus.
cat >"$TMP/lock.py" <<'EOF2'
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
while os.path.exists(sys.argv[2]):
    time.sleep(0.1)
EOF2
"$PROCTOR" run -q --interval 0.2 --job waits -- sh -c "while [ ! -e '$TMP/go' ]; do sleep 0.2; done; exec python3 '$FAULTS' many 6" &
run=$!
check "the daemon watches it" eventually has "$TMP/bus" '"job_id": "waits"'
sleep 1
python3 "$TMP/lock.py" "$PROCTOR_HOME/proctor.db" "$TMP/lock" &
lock=$!
check "nobody can write" eventually [ -e "$TMP/lock" ]
touch "$TMP/go"
sleep 4.5
rm "$TMP/lock"
wait "$lock" "$run"
check "its end is told" eventually has "$TMP/bus" '"job_id": "waits".*job.completed\|job.completed.*"job_id": "waits"'
recorded=$("$PROCTOR" events --job waits --json | grep monitor.anomaly | paste -sd,)
json "the record has it" "[$recorded]" '"process_explosion" in {e["anomaly_type"] for e in d}'
json "what waits to be written has one name" "[[$(grep '"job_id": "waits"' "$TMP/bus" | grep monitor.anomaly | paste -sd,)], [$recorded]]" \
	'(lambda bus, record: bus == record)(*[sorted((e["episode"], e["change"]) for e in l if e["change"] != "escalated") for l in d])'

"$PROCTOR" stop
wait "$listener"
json "of both each change once" "[$(paste -sd, "$TMP/bus")]" '(lambda changes: "fds" in {c[0] for c in changes} and len(set(changes)) == len(changes))(
	[(e["job_id"], e["episode"], e["change"], e["severity"]) for e in d if e["event"] == "monitor.anomaly"])'

finish
