#!/bin/bash
# An anomaly that lasts is one episode, whatever happens to the daemon meanwhile: one starts, is killed and starts
# again, or stops. So is a process that outlives its job: each is told once, and ends once.
. "$(dirname "$0")/lib.sh"

settings='anomaly:
  zombie_duration_seconds: 2
  clear_seconds: 1
  memory_pressure_percent: 100
  orphan_duration_seconds: 1'
mkdir -p "$PROCTOR_HOME"
printf 'interval_seconds: 0.5\n%s\n' "$settings" >"$PROCTOR_HOME/proctor.yaml"
start() { # [SECONDS]: a daemon that looks so often
	start_daemon "interval_seconds: ${1:-0.5}
$settings"
}
kill_daemon() {
	kill -9 "$(daemon_pid)"
}

# A child that is not waited for until the file is there; one after the other.
cat >"$TMP/zombies.py" <<'EOC'
import os, sys, time

for name in sys.argv[1:]:
    child = os.fork() or os._exit(0)
    while not os.path.exists(name):
        time.sleep(0.1)
    os.waitpid(child, 0)
    while not os.path.exists(name + ".next"):
        time.sleep(0.1)
EOC

# Of each whether it is over, oldest first.
zombies() {
	json_eval "$("$PROCTOR" anomalies --job taken --json)" \
		'" ".join("over" if a["ended"] else "lasts" for a in sorted(d, key=lambda a: a["began"]) if a["anomaly_type"] == "zombie")'
}
of_host() {
	json_eval "$("$PROCTOR" anomalies --json)" \
		'" ".join("over" if a["ended"] else "lasts" for a in d if a["anomaly_type"] == "memory_pressure" and not a["job_id"])'
}
why() {
	json_eval "$("$PROCTOR" anomalies --job taken --json)" \
		'sorted((a for a in d if a["anomaly_type"] == "zombie"), key=lambda a: a["began"])[-1]["why_cleared"]'
}
# anomalies_of JOB: the type and the process of each.
anomalies_of() {
	json_eval "$("$PROCTOR" anomalies --job "$1" --json)" '" ".join(a["anomaly_type"] + " " + str(a["pid"]) for a in d)'
}
orphans_of() { # JOB: how many its events list
	"$PROCTOR" events --job "$1" --json | grep -c '"process.orphan"'
}

# looks JOB: is there when it was looked at three more times.
looks() {
	local since=$EPOCHREALTIME
	looked() {
		[ "$(json_eval "$("$PROCTOR" history --job "$1" --json)" "len({s['timestamp'] for s in d if s['timestamp'] > $since}) > 2")" = True ]
	}
	check "it is looked at again" eventually looked "$1"
}

"$PROCTOR" run -q --job taken -- python3 "$TMP/zombies.py" "$TMP/1" "$TMP/2" "$TMP/3" &
runner=$!
is "a run tells of a zombie" "$(becomes lasts zombies)" lasts
is "and of the host" "$(becomes lasts of_host)" lasts

start
looks taken
is "it lasts when a daemon starts" "$(zombies)" lasts
is "that of the host too, and is no other" "$(of_host)" lasts
touch "$TMP/1"
is "and is over when it was waited for" "$(becomes over zombies)" over
is "as it was seen" "$(why)" "it was clear for long enough"
touch "$TMP/1.next"
is "the next is another" "$(becomes "over lasts" zombies)" "over lasts"

kill_daemon
start
looks taken
is "it lasts when the daemon was killed and starts again" "$(zombies)" "over lasts"
is "that of the host too" "$(of_host)" lasts
"$PROCTOR" events --follow --json >"$TMP/live" &
follower=$!
eventually has_subscribers 1
touch "$TMP/2"
is "and is over when it was waited for" "$(becomes "over over" zombies)" "over over"
touch "$TMP/2.next"
is "the third is another" "$(becomes "over over lasts" zombies)" "over over lasts"
kill "$follower"
like "its end was told" "$(grep '"anomaly_type":"zombie"' "$TMP/live" | head -1)" '"change":"cleared"'

"$PROCTOR" stop
looks taken
is "it lasts when the daemon stops, and the run goes on" "$(zombies)" "over over lasts"
is "that of the host too" "$(of_host)" lasts
touch "$TMP/3"
is "and is over when it was waited for" "$(becomes "over over over" zombies)" "over over over"
is "as it was seen" "$(why)" "it was clear for long enough"
touch "$TMP/3.next"
wait "$runner"
is "and nothing was told twice" "$("$PROCTOR" events --job taken --json | grep -c '"anomaly_type":"zombie"')" 6
is "the host's is over with the last who looked" "$(of_host)" over

# ---- what was seen of it before the daemon came ----

# Files near the limit, three more until the next file is there, and these closed again.
cat >"$TMP/files.py" <<'EOC'
import os, sys, time

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.1)

kept = [open("/dev/null")]
while kept[-1].fileno() < 54:  # whatever it was started with: 55 of 60
    kept.append(open("/dev/null"))
for name in sys.argv[1:3]:
    wait_for(name)
    more = [open("/dev/null") for _ in range(3)] if name == sys.argv[1] else []
wait_for(sys.argv[3])
EOC
of_files() { # PYTHON
	json_eval "$("$PROCTOR" anomalies --job files --json)" \
		"' '.join(str($1) for a in d if a['anomaly_type'] == 'fd_exhaustion')"
}
most_files() {
	"$PROCTOR" sql --no-header --csv "SELECT max(open_fds) > $1 FROM process_metrics WHERE job_id = 'files'"
}

(
	ulimit -n 60
	exec "$PROCTOR" run -q --job files -- python3 "$TMP/files.py" "$TMP/more" "$TMP/less" "$TMP/end"
) &
runner=$!
is "a run tells of open files" "$(becomes lasts of_files '"lasts" if not a["ended"] else "over"')" lasts
first=$(of_files 'int(a["peak_value"])')
touch "$TMP/more"
becomes 1 most_files "$((first + 2))" >/dev/null
touch "$TMP/less"
start
is "its peak is in the record when a daemon starts" \
	"$(becomes "$((first + 3))" of_files 'int(a["peak_value"])')" "$((first + 3))"
like "with its words" "$(of_files 'a["description"]')" " has $((first + 3)) of at most 60 files open"
like "and as of when" "$("$PROCTOR" anomalies --job files)" " lasts .*; as of 20[0-9-]+"
touch "$TMP/end"
wait "$runner"
"$PROCTOR" stop
is "it stays at the end" "$(of_files 'int(a["peak_value"])')" "$((first + 3))"

# ---- who outlives a job that no daemon has seen ----

"$PROCTOR" run -q --job left --leave-background -- sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >"$0"' "$TMP/left"
left=$(<"$TMP/left")
is "who is left is in the record when the run is over" "$(orphans_of left)" 1
start
is "a daemon that starts goes on with it" "$(becomes "orphan $left" anomalies_of left)" "orphan $left"
is "and does not tell again that it is one" "$(orphans_of left)" 1

# A restart begins nothing anew: one row, of which nothing is told but its beginning and its end.
told_of_left() {
	"$PROCTOR" events --job left --json |
		python3 -c 'import json, sys; print(*(e["change"] for e in map(json.loads, sys.stdin) if e["event"] == "monitor.anomaly"))'
}
is_looked_at() { # by the daemon that runs
	[ "$(status_of 'd["ticks"] >= 5')" = True ]
}
for how in stop kill; do
	if [ $how = stop ]; then
		"$PROCTOR" stop
		like "it lasted at least until then" "$("$PROCTOR" anomalies --job left)" ' >[0-9]'
	else
		kill_daemon
	fi
	start
	check "the daemon looks again after its $how" eventually is_looked_at
	is "the one that lives on is no other after a $how" "$(anomalies_of left)" "orphan $left"
	is "and is not told again" "$(told_of_left)" began
done
kill "$left"
is "it is over when it ends" "$(becomes "began cleared" told_of_left)" "began cleared"
is "which is one episode" "$(json_eval "$("$PROCTOR" anomalies --job left --json)" 'len(d)')" 1
"$PROCTOR" stop

# ---- who outlives a job while the daemon does not look ----

start 60
"$PROCTOR" run -q --job unseen --leave-background -- sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >"$0"' "$TMP/left"
left=$(<"$TMP/left")
is "who is left is in the record when the run is over, though a daemon is there" "$(orphans_of unseen)" 1
kill_daemon
start
is "so the next daemon knows of it" "$(becomes "orphan $left" anomalies_of unseen)" "orphan $left"
is "and it was told once" "$(orphans_of unseen)" 1
"$PROCTOR" run -q --job seen --leave-background -- sh -c 'sleep 300 >/dev/null 2>&1 & echo $! >"$0"' "$TMP/seen"
is "one that both have seen is one" "$(becomes "orphan $(<"$TMP/seen")" anomalies_of seen)" "orphan $(<"$TMP/seen")"
is "and was told once, too" "$(orphans_of seen)" 1
kill "$left" "$(<"$TMP/seen")"
"$PROCTOR" stop

# ---- who is left by a runner that is killed is told once ----

start
# By the bus itself: "proctor events" passes over what it has shown.
PYTHONPATH=$INTEGRATION python3 - "$PROCTOR_HOME/proctor.sock" >"$TMP/noted" <<'EOC' &
import json, sys
from rpc_client import Client
client = Client(sys.argv[1])
client.socket.settimeout(None)
client.ask("events.subscribe", {"topics": ["process.*", "job.*"]})
for line in client.lines:
    told = json.loads(line)["params"]
    print(told["topic"], told["data"]["job_id"], told["data"].get("pid"), flush=True)
EOC
subscriber=$!
eventually has_subscribers 1
# Left behind by a runner that is killed: its pid is in $left.
leave() { # JOB
	rm -f "$TMP/left"
	"$PROCTOR" run -q --job "$1" -- sh -c 'echo $$ >"$0"; exec sleep 300' "$TMP/left" &
	runner=$!
	eventually [ -s "$TMP/left" ]
	left=$(<"$TMP/left")
	eventually has_ticks "$1" 2
}
noted() { # JOB
	"$PROCTOR" events --job "$1" --json |
		python3 -c 'import json, sys; print(*(e["event"] for e in map(json.loads, sys.stdin) if e["event"] in ("process.orphan", "process.exit")))'
}
leave noted
kill -9 "$runner"
wait "$runner" 2>/dev/null
is "one that a killed runner leaves is written down" "$(becomes process.orphan noted noted)" process.orphan
"$PROCTOR" cancel noted
is "and its end" "$(becomes "process.orphan process.exit" noted noted)" "process.orphan process.exit"
"$PROCTOR" run -q --job behind -- true
eventually grep -q '^job.* behind' "$TMP/noted" # so all before it was told
kill "$subscriber"
is "each is told once" "$(sed -n "s/^process.\\(orphan\\|signal\\|exit\\) noted $left$/\\1/p" "$TMP/noted" | paste -sd' ')" \
	"orphan signal exit"

# While nobody can write.
leave locked
hold_database locked
kill -9 "$runner"
wait "$runner" 2>/dev/null
sleep 2 # in which the daemon looks
release_database locked
is "one that is left while nobody can write is written down when somebody can" "$(becomes process.orphan noted locked)" process.orphan
"$PROCTOR" cancel locked
"$PROCTOR" stop

# ---- who is left while no daemon looks ----

leave killed
kill -9 "$runner"
wait "$runner" 2>/dev/null
for i in 1 2 3; do
	start
	is "the next daemon writes it down, once" "$(becomes process.orphan noted killed)" process.orphan
	check "and looks" eventually is_looked_at
	is "which adds nothing" "$(noted killed)" process.orphan
	[ $i = 3 ] || "$PROCTOR" stop
done
kill "$left"
is "its end is noted, too" "$(becomes "process.orphan process.exit" noted killed)" "process.orphan process.exit"
"$PROCTOR" stop

# ---- whom a run leaves while nobody can write ----

rm -f "$TMP/left"
"$PROCTOR" run -q --job waits --leave-background -- sh -c "sleep 300 >/dev/null 2>&1 & echo \$! >$TMP/left; $(gate waits)" 2>/dev/null &
runner=$!
eventually [ -s "$TMP/left" ]
left=$(<"$TMP/left")
eventually has_ticks waits 2
hold_database waits.lock
pass waits
wait "$runner"
release_database waits.lock
of_waits() { noted waits | grep -o process.orphan; }
is "it is in the record when that can be written" "$(becomes process.orphan of_waits)" process.orphan
start
is "and the next daemon follows it" "$(becomes "orphan $left" anomalies_of waits)" "orphan $left"
kill "$left"
"$PROCTOR" stop

# ---- more than are told one by one ----

"$PROCTOR" run -q --job many --leave-background -- \
	sh -c 'for i in $(seq 40); do sleep 300 >/dev/null 2>&1 & echo $!; done >"$0"' "$TMP/many"
start
counted() {
	json_eval "$("$PROCTOR" anomalies --job many --json)" 'sum(a["count"] for a in d if a["anomaly_type"] == "orphan")'
}
is "each of many that are left is counted" "$(becomes 40 counted)" 40
# shellcheck disable=SC2046
kill $(<"$TMP/many")
"$PROCTOR" stop

finish
