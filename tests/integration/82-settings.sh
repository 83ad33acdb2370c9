#!/bin/bash
# Submitted jobs where the configuration has changed since the daemon was started: a runner is
# heard of at once, can be ended, and tells its end, whatever it finds configured.
. "$(dirname "$0")/lib.sh"

trap '"$PROCTOR" stop --jobs 2>/dev/null; rm -rf "$TMP"' EXIT

ask() { # METHOD PARAMS
	python3 - "$PROCTOR_HOME/proctor.sock" "$@" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "%s", "params": %s}\n' % (sys.argv[2].encode(), sys.argv[3].encode()))
print(s.makefile().readline())
END
}
status_of() { # JOB: as the daemon lists it
	json_eval "$(ask job.list {})" "' '.join(j['status'] for j in d['result'] if j['job_id'] == '$1')"
}
printf 'sheets:\n  - run: echo $$ >%s/pid; sleep 1240\n' "$TMP" >"$TMP/long.yaml"
printf 'sheets:\n  - run: "true"\n  - run: exit 7\n' >"$TMP/fail.yaml"

# ---- a configuration that cannot be read ----

"$PROCTOR" start
echo 'bogus: 1' >"$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" submit --job long "$TMP/long.yaml" >/dev/null
is "its job is known to run" "$(becomes running status_of long)" running
run "$PROCTOR" cancel long
is "and is cancelled" "$status" 0
run "$PROCTOR" wait long
is "which is known" "$stdout" "long cancelled"
is "nothing of it is left" "$(ps -o stat= -p "$(cat "$TMP/pid")" | grep -v Z)" ""
"$PROCTOR" submit --job fail "$TMP/fail.yaml" >/dev/null
run "$PROCTOR" wait --json fail
json "how a short one ended is known" "$stdout" 'd["outcome"] == "failure" and d["exit_code"] == 7'
run "$PROCTOR" report --format json fail
json "but not its commands: what would be masked in them is not known" "$stdout" \
	'len(d["sheet_metrics"]) == 2 and all(s["command"] is None for s in d["sheet_metrics"].values())'
printf 'sheets:\n  - run: sleep 1241\n' >"$TMP/last.yaml"
"$PROCTOR" submit --job last "$TMP/last.yaml" >/dev/null
run "$PROCTOR" stop --jobs
is "all are cancelled when the daemon is stopped" "$status" 0
like "which is said" "$stderr" "cancelled 1 job: last"

# ---- another database ----

rm "$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" start
echo 'storage_path: other.db' >"$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" submit --job fail "$TMP/fail.yaml" >/dev/null
run "$PROCTOR" wait --json fail
json "a job is recorded where its daemon looks" "$stdout" 'd["exit_code"] == 7 and d["attempt"] == 2'
check "and nowhere else" test ! -e "$PROCTOR_HOME/other.db"
run "$PROCTOR" jobs --json
json "and is listed, with those before it" "$stdout" 'sorted(j["job_id"] for j in d) == ["fail", "last", "long"]'
like "with which database that is" "$stderr" "the daemon records into $PROCTOR_HOME/proctor.db until it is started again"
run "$PROCTOR" report --format json fail
json "reports are from there too" "$stdout" 'd["exit_code"] == 7'
run "$PROCTOR" run --job short -- true
like "a run is recorded there, too" "$stderr" "the daemon records into $PROCTOR_HOME/proctor.db until it is started again"
run "$PROCTOR" report --format json short
json "where its report is found" "$stdout" 'd["outcome"] == "success"'
check "and nowhere else" test ! -e "$PROCTOR_HOME/other.db"
daemon=$(json_eval "$("$PROCTOR" status --json)" 'd["pid"]')
log=$PROCTOR_HOME/daemon.log
kill -HUP "$daemon"
is "what waits for the next daemon is said" "$(becomes "storage_path has its effect when the daemon is started again" \
	sh -c "grep -o '[a-z_]* has its effect .*' '$log'")" "storage_path has its effect when the daemon is started again"
echo 'ebpf_enabled: true' >"$PROCTOR_HOME/proctor.yaml"
kill -HUP "$daemon"
is "the file is read again" "$(becomes 2 grep -cE 'read .* again: [0-9]+ settings? ha(s|ve) changed' "$log")" 2
is "of what was changed back it is not said" "$(grep -c 'has its effect' "$log")" 1
rm "$PROCTOR_HOME/proctor.yaml"
kill -HUP "$daemon"
is "that it is gone is said" "$(becomes 1 grep -c 'there is no .*proctor.yaml: all is as by default now' "$log")" 1
printf 'access:\n  read_group: no-such-group\n' >"$PROCTOR_HOME/proctor.yaml"
kill -HUP "$daemon"
missing() { json_eval "$("$PROCTOR" status --json)" 'd["config"]["missing_group"]'; }
is "a group that is not there is known" "$(becomes no-such-group missing)" no-such-group
like "and told" "$("$PROCTOR" status)" "there is no group 'no-such-group' here"
rm -f "$TMP/pid"
"$PROCTOR" submit --job torn "$TMP/long.yaml" >/dev/null
is "a job runs" "$(becomes running status_of torn)" running
echo 'storage_path: torn.db' >"$PROCTOR_HOME/proctor.yaml"
touch -d '2 days ago' "$PROCTOR_HOME/proctor.yaml" # or the daemon's would be read
head -c 8192 /dev/urandom >"$PROCTOR_HOME/torn.db"
run "$PROCTOR" cancel torn --attempt 1
is "it can be ended by its number whatever is wrong with a database" "$status" 0
like "which is the daemon's then" "$stderr" "torn.db.*; attempt 1 is taken as the daemon counts"
is "and ends" "$(becomes "torn cancelled" "$PROCTOR" wait torn)" "torn cancelled"
"$PROCTOR" submit --job torn "$TMP/long.yaml" >/dev/null
is "it runs again" "$(becomes running status_of torn)" running
run "$PROCTOR" cancel torn --attempt 2
is "where the number may be another's nothing is ended" "$status" 1
like "as is said" "$stderr" "attempt 2 of torn may be another as the daemon counts, which knows of 2"
is "it goes on" "$(status_of torn)" running
"$PROCTOR" cancel torn
is "all of it can be ended" "$(becomes "torn cancelled" "$PROCTOR" wait torn)" "torn cancelled"
echo 'storage_path: other.db' >"$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" stop
run "$PROCTOR" jobs --json
is "when no daemon runs what is configured counts" "$stdout$stderr" "[]"

# ---- a job that begins while the database is locked ----

rm "$PROCTOR_HOME/proctor.yaml" "$TMP/pid"
"$PROCTOR" start
hold_database unheard
"$PROCTOR" submit --job unheard "$TMP/long.yaml" >/dev/null
is "a job begins" "$(becomes "$TMP/pid" ls "$TMP/pid")" "$TMP/pid"
run "$PROCTOR" cancel --queued unheard
is "which is none that waits, and is left alone" "$status" 1
run "$PROCTOR" cancel unheard
is "it is cancelled all the same" "$status$stderr" 0
is "and ends" "$(becomes "" ps -o pid= -p "$(cat "$TMP/pid")")" ""
release_database unheard
run "$PROCTOR" wait unheard
is "how, is known later" "$stdout" "unheard cancelled"
"$PROCTOR" stop

# ---- what happens is told when it happens ----

echo 'interval_seconds: 300' >"$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" start
printf 'sheets:\n  - run: sleep 0.5\n  - run: while [ ! -e %s/go ]; do sleep 0.1; done\n' "$TMP" >"$TMP/two.yaml"
"$PROCTOR" submit --job two "$TMP/two.yaml" >/dev/null
told() { json_eval "$(ask daemon.events '{"job_id": "two"}')" '[e["event"] for e in d["result"]].count("sheet.started")'; }
is "a sheet that begins long before the next tick" "$(becomes 2 told)" 2
touch "$TMP/go"
run "$PROCTOR" wait two
is "and the end" "$stdout" "two success"

finish
