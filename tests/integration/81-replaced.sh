#!/bin/bash
# The database is moved away, and another takes its place, while the daemon runs: a number of an
# attempt is then another job's.
. "$(dirname "$0")/lib.sh"

db=$PROCTOR_HOME/proctor.db
mkdir -p "$PROCTOR_HOME"
printf 'interval_seconds: 0.2\n' >"$PROCTOR_HOME/proctor.yaml"
export PROCTOR_CONFIG=$PROCTOR_HOME/proctor.yaml
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT
from='from attempts a join jobs on jobs.id = a.job'
sql() { # QUERY
	python3 -c '
import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]):
    print("|".join(str(cell) for cell in row))' "$db" "$1" 2>&1
}
move_away() { # WHERE
	mkdir "$TMP/$1"
	mv "$db"* "$TMP/$1/"
}

run "$PROCTOR" start
is "the daemon starts" "$status$stderr" 0

# ---- events ----

loud() { # JOB: one with births, deaths and a signal
	"$PROCTOR" run -q --job "$1" -- sh -c 'for i in 1 2 3 4 5 6; do sleep 0.05; done; sleep 60 & sleep 0.3; kill $!; wait; true'
}
told() { # JOB: what the daemon tells of it
	python3 - "$PROCTOR_HOME/proctor.sock" "$1" <<'PY'
import collections, json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon.events",
                      "params": {"limit": 4096, "job_id": sys.argv[2]}}).encode() + b"\n")
events = json.loads(s.makefile().readline())["result"]
n = collections.Counter(e["event"] for e in events)
print(n["process.spawn"] >= 8, n["process.exit"] >= 8)
PY
}
loud before
is "births and deaths are told" "$(becomes "True True" told before)" "True True"
move_away first
loud after
is "in the next database as well, though it has fewer of them" "$(becomes "True True" told after)" "True True"

# ---- a runner of another user ----

as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups env PATH=/usr/bin:/bin "$@"; }
if [ "$(id -u)" -ne 0 ] || ! as_nobody python3 -c "" 2>/dev/null; then
	skip "a guest writes to no job of others" "needs root"
	finish
fi
chmod 755 "$TMP" "$PROCTOR_HOME"
chmod 666 "$PROCTOR_HOME/proctor.sock"
move_away second
cat >"$TMP/guest.py" <<'PY'
import json, os, socket, sys, time
def connect():
    global s, lines
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    lines = s.makefile()
def ask(method, params):
    try:
        s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        line = lines.readline()
    except OSError:
        line = ""
    return json.loads(line) if line else "hung up"
def hello(job):
    return ask("runner.hello", {"job_id": "guestjob", "attempt": 1, "interval_seconds": 1, "job": job})
job = {"job_id": "guestjob", "command": "guest", "interval_seconds": 1, "total_sheets": 1,
       "started_wall_ns": time.time_ns()}
connect()
print("hello", hello(job)["result"]["guest"], flush=True)
sys.stdin.readline()
end = dict(job, outcome="failure", reason="written by another", exit_code=77, signal=None, ended_wall_ns=time.time_ns())
first = ask("runner.changed", {"job": end})
print("end", first, flush=True)
if first == "hung up":
    connect()
    print("again", hello(job)["result"]["guest"], flush=True)
    print("end again", "result" in ask("runner.changed", {"job": end}), flush=True)
PY
coproc as_nobody python3 "$TMP/guest.py" "$PROCTOR_HOME/proctor.sock" 2>"$TMP/guest.err"
read -r line <&"${COPROC[0]}"
is "a guest is received" "$line" "hello True"
is "its job is recorded" "$(becomes "1|guestjob|65534" sql "select a.id, job_id, uid $from" | tail -n 1)" "1|guestjob|65534"
move_away third
"$PROCTOR" run -q --job rootjob -- true
is "in the next database the number is another job's" "$(sql "select a.id, job_id $from where a.id = 1")" "1|rootjob"
echo >&"${COPROC[1]}"
read -r line <&"${COPROC[0]}"
is "what the guest says of its own has no place there" "$line" "end hung up"
read -r line <&"${COPROC[0]}"
is "it says hello again" "$line" "again True"
read -r line <&"${COPROC[0]}"
is "and its end is taken" "$line" "end again True"
is "the other's end stays as it was" "$(sql "select job_id, uid, outcome, exit_code $from where a.id = 1")" "rootjob|0|success|0"
is "and the guest's is its own" "$(sql "select job_id, uid, outcome, exit_code $from where a.id <> 1")" "guestjob|65534|failure|77"
finish
