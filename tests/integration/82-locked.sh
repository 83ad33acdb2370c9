#!/bin/bash
# Jobs that begin or end while somebody holds the database: nobody takes them for lost.
. "$(dirname "$0")/lib.sh"

trap '"$PROCTOR" stop --jobs 2>/dev/null; rm -rf "$TMP"' EXIT

hold() { # until "$TMP/let-go" is there, or for a minute
	rm -f "$TMP/held" "$TMP/let-go"
	python3 - "$PROCTOR_HOME/proctor.db" "$TMP/held" "$TMP/let-go" <<'END' &
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
until = time.monotonic() + 60
while time.monotonic() < until and not os.path.exists(sys.argv[3]):
    time.sleep(0.02)
END
	holder=$!
	eventually test -e "$TMP/held"
}

let_go() {
	: >"$TMP/let-go"
	wait $holder
}

attempts() { # JOB: what became of each
	json_eval "$("$PROCTOR" jobs --all --json)" "[j['outcome'] or j['status'] for j in d if j['job_id'] == '$1']"
}

told() { # JOB: what the daemon has told of it
	python3 - "$PROCTOR_HOME/proctor.sock" "$1" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "daemon.events", "params": {"job_id": sys.argv[2], "limit": 4096}}).encode() + b"\n")
events = json.loads(s.makefile().readline())["result"]
print(*(f"{e['event']}:{e.get('outcome')}" for e in events if e["event"].startswith("job.")))
END
}

mkdir -p "$PROCTOR_HOME"
echo 'interval_seconds: 0.2' >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" start
is "a daemon" "$status" 0
"$PROCTOR" run -q -- true # there is a database

hold
printf 'sheets:\n  - run: touch %s\n' "$TMP/ran" >"$TMP/within.yaml"
"$PROCTOR" submit --job within "$TMP/within.yaml" >/dev/null
eventually test -e "$TMP/ran"
sleep 4 # longer than the daemon waits for word of one that ended
let_go
run timeout 60 "$PROCTOR" wait within
is "one that begins and ends meanwhile has its end" "$status/$stdout" "0/within success"
is "and was one attempt" "$(attempts within)" "['success']"

printf 'sheets:\n  - run: until [ -e %s ]; do sleep 0.05; done; touch %s; exit 3\n' "$TMP/end" "$TMP/ended" >"$TMP/ends.yaml"
"$PROCTOR" submit --job ends "$TMP/ends.yaml" >/dev/null
runs() { [ "$(attempts ends)" = "['running']" ]; }
eventually runs
timeout 120 "$PROCTOR" wait ends >"$TMP/waited" 2>&1 &
waiting=$!
hold
: >"$TMP/end"
eventually test -e "$TMP/ended"
sleep 3
run "$PROCTOR" cancel ends
like "what is over is not ended once more" "$status/$stderr" "1/.*ends is over: how it ended waits to be recorded"
let_go
wait $waiting
is "who waits for one that ends meanwhile is told how" "$?/$(cat "$TMP/waited")" "1/ends failure"
is "which is on record" "$(attempts ends)" "['failure']"
is "and nobody was told that it is lost" "$(told ends)" "job.queued:None job.started:None job.failed:failure"

# ---- one that something else started ----
sleep 300 &
sleeper=$!
hold
timeout 60 "$PROCTOR" attach --pid $sleeper --job found >"$TMP/attached" 2>&1 &
attaching=$!
sleep 1
let_go
wait $attaching
is "who attaches meanwhile waits for it" "$?/$(cat "$TMP/attached")" "0/"
is "and it is followed" "$(attempts found)" "['running']"
hold
run timeout 60 "$PROCTOR" attach --pid $sleeper --job again
like "what is of a job is refused all the same" "$status/$stderr" "1/.*belongs to the job found already"
"$PROCTOR" attach --pid $$ --job never >"$TMP/never" 2>&1 &
attaching=$!
sleep 0.5
kill $attaching
wait $attaching
sleep 300 &
other=$!
run timeout 60 "$PROCTOR" attach --pid $other --job late
like "nobody waits for ever" "$status/$stderr" "1/.*locked"
kill $other
let_go
kill $sleeper
run timeout 60 "$PROCTOR" wait found
like "its end is told" "$stdout" found
is "who hung up has attached nothing" "$(attempts never)" "[]"

# ---- who holds it to the end ----
hold
sleep 1 # some ticks wait by now
run timeout 60 "$PROCTOR" stop
is "a daemon that cannot write any more ends all the same" "$status/$stderr" "0/"
let_go

finish
