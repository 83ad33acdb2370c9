#!/bin/bash
# Jobs through the daemon: submitted, waited for, cancelled, and untouched by what happens to it.
. "$(dirname "$0")/lib.sh"

# Nothing runs or waits any more.
is_idle() { [ "$(json_eval "$("$PROCTOR" jobs --all --json)" 'all(j["status"] == "done" for j in d)')" = True ]; }
: >"$TMP/daemon" # there may be one when the script ends

run "$PROCTOR" submit "$EXAMPLES/none.yaml"
is "no job file is bad input" "$status" 2
cat >"$TMP/two.yaml" <<'END'
sheets:
  - run: echo first; pwd
  - run: echo second >&2; exit 3
END
run "$PROCTOR" submit "$TMP/two.yaml"
is "no daemon is a failure" "$status" 1
like "and said" "$stderr" "no daemon is running"

# ---- without a daemon ----
run "$PROCTOR" cancel alone
is "what is not there cannot be cancelled" "$status" 1
"$PROCTOR" run -q --job alone -- sleep 300 &
alone=$!
run_n() { # as many as it says
	[ "$(json_eval "$("$PROCTOR" jobs --all --json)" 'len([j for j in d if j["status"] == "running"])')" = "$1" ]
}
eventually run_n 1
"$PROCTOR" run -q --job alone -- sleep 301 &
both="$alone $!"
eventually run_n 2
run "$PROCTOR" cancel --user 47003 alone
is "whose is said to be meant has none" "$status" 1
run run_n 2
is "so nobody's is ended" "$status" 0
run "$PROCTOR" cancel --queued alone
is "nothing waits without one" "$status" 1
run "$PROCTOR" cancel --attempt 1 --json alone
json "a runner is told without one" "$stdout" \
	'd == {"job_id": "alone", "cancelling": True, "attempts": 1}'
run_one() { # and the other goes on
	[ "$(json_eval "$("$PROCTOR" jobs --all --json)" 'sorted(str(j["outcome"]) for j in d)')" = "['None', 'cancelled']" ]
}
eventually run_one
run run_one
is "which ends what it runs" "$status" 0
run "$PROCTOR" cancel alone
is "so is the other" "$stdout$stderr/$status" "/0"
# shellcheck disable=SC2086 # words
wait $both
json "and all of it is over" "$("$PROCTOR" jobs --all --json)" '{j["outcome"] for j in d} == {"cancelled"}'
run "$PROCTOR" cancel alone
is "once" "$status" 1
like "as is said" "$stderr" 'job alone does not run any more'

# ---- waiting without a daemon ----
"$PROCTOR" run -q --job over -- true
"$PROCTOR" run -q --job broken -- false
run "$PROCTOR" wait over
is "a job that is over needs no daemon" "$stdout/$status" "over success/0"
like "and it is said which one it is" "$stderr" 'no daemon is running: this is attempt 1'
run "$PROCTOR" wait broken
is "nor one that has failed" "$stdout/$status" "broken failure/1"
run "$PROCTOR" wait never
is "where nobody can tell that is no failure of a job" "$stdout/$status" "/3"
mkfifo "$TMP/gate"
"$PROCTOR" run -q --job runs -- sh -c "read -r _ <$TMP/gate" &
runs=$!
is_recorded() { "$PROCTOR" jobs --json | grep -q '"job_id":"runs"'; }
eventually is_recorded
"$PROCTOR" wait runs >"$TMP/waited" &
waited=$!
sleep 1
is "one that runs is waited for" "$(kill -0 "$waited" && cat "$TMP/waited")" ""
echo >"$TMP/gate"
wait "$waited"
is "until it is over" "$?/$(cat "$TMP/waited")" "0/runs success"
wait "$runs"

# ---- a job that is just starting ----
cat >"$TMP/starting.py" <<'END'
import json, os, socket
path = os.environ["PROCTOR_HOME"] + "/proctor.sock"
s = socket.socket(socket.AF_UNIX)
s.bind(path + ".new")
os.chmod(path + ".new", 0o600)
s.listen()
os.rename(path + ".new", path) # who sees it can connect
later = {"code": -32002, "message": "job soon is just starting: try again"}
n = 0
while n < 4:
    f = s.accept()[0].makefile("rw")
    for line in f:
        n += 1
        what = {"error": later} if n < 4 else {"result": {"job_id": "soon", "cancelling": True, "attempts": 1}}
        f.write(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], **what}) + "\n")
        f.flush()
os.unlink(path)
END
python3 "$TMP/starting.py" &
starting=$!
eventually test -S "$PROCTOR_HOME/proctor.sock"
run "$PROCTOR" cancel soon
is "it is cancelled as soon as it can be" "$status$stderr" 0
wait "$starting"

"$PROCTOR" start
# ---- one job ----
run "$PROCTOR" submit --job two "$TMP/two.yaml"
is "its id is printed" "$stdout/$status" "two/0"
run "$PROCTOR" wait two
is "a job that failed" "$stdout/$status" "two failure/1"
run "$PROCTOR" wait --json two
json "what is over is answered at once" "$stdout" 'd["outcome"] == "failure" and d["exit_code"] == 3'
is "its output is kept" "$(cat "$PROCTOR_HOME/logs/two.log")" "first
$PWD
second"
is "for its owner alone" "$(stat -c %a "$PROCTOR_HOME/logs/two.log")" 600
for id in a/b a_b; do
	printf 'sheets:\n  - run: echo of %s\n' "$id" >"$TMP/echo.yaml"
	"$PROCTOR" submit --job "$id" "$TMP/echo.yaml" >/dev/null
	"$PROCTOR" wait "$id" >/dev/null
done
is "no two jobs have one log" "$(cat "$PROCTOR_HOME/logs/a%b.log")/$(cat "$PROCTOR_HOME/logs/a_b.log")" "of a/b/of a_b"
json "its report is one answer" "$(ask job.report '{"job_id": "two"}')" 'd["outcome"] == "failure"'
run "$PROCTOR" wait nobody
is "a job that is not there" "$status" 1

# ---- bad input ----
echo 'sheets: [{run: true, colour: red}]' >"$TMP/bad.yaml"
run "$PROCTOR" submit "$TMP/bad.yaml"
is "a bad job file is bad input" "$status" 2
like "with its line and what is wrong" "$stderr" "bad.yaml:1: .*colour"
: >"$TMP/empty.yaml"
run "$PROCTOR" submit "$TMP/empty.yaml"
is "an empty file is bad input" "$status/$stderr" "2/proctor: $TMP/empty.yaml is empty: it is no job file"
mkfifo "$TMP/fifo"
for what in "$TMP/fifo:a named pipe" "$TMP:a folder" "/dev/zero:a device"; do
	for verb in submit "run -f" "estimate -f"; do
		# shellcheck disable=SC2086 # words
		run timeout 30 "$PROCTOR" $verb "${what%:*}"
		is "$verb: ${what##*:} is bad input, and nobody waits for it" "$status/$stderr" \
			"2/proctor: ${what%:*} is ${what##*:}, not a regular file"
	done
done
run timeout 30 "$PROCTOR" config --check "$TMP/fifo"
like "nor for one of settings" "$status/$stdout$stderr" "^2/.* is a named pipe, not a regular file"
echo 'interval_seconds: 5' >"$TMP/one.yaml"
run "$PROCTOR" config --check "$TMP/one.yaml"
is "one setting is one" "$stdout" "$TMP/one.yaml is good: it has 1 setting"
printf 'sheets:\n  - run: "true"\n' | timeout 60 "$PROCTOR" submit --job piped /dev/stdin >/dev/null
is "what a shell pipes is read" "$?" 0
run timeout 60 "$PROCTOR" wait piped
is "and run" "$status" 0
run timeout 60 bash -c "yes '#' | '$PROCTOR' submit /dev/stdin"
like "to a bound" "$status/$stderr" "2/.*is longer than"
for verb in "submit $TMP/two.yaml --job" wait cancel "attach --pid $$ --job"; do
	# shellcheck disable=SC2086 # words
	run "$PROCTOR" $verb ""
	is "so is an empty id to ${verb%% *}" "$status" 2
	like "which is said" "$stderr" "the id of the job is empty"
done
run "$PROCTOR" submit --job 'no spaces' "$TMP/two.yaml"
is "a bad id is bad input" "$status" 2

printf 'sheets:\n  - run: pwd\n  - run: pwd\n    workdir: %s/nowhere\n' "$TMP" >"$TMP/nowhere.yaml"
run "$PROCTOR" submit "$TMP/nowhere.yaml"
is "a folder that is not there is bad input" "$status" 2
like "with its line" "$stderr" "nowhere.yaml:4: the workdir '$TMP/nowhere': No such file"
mkdir "$TMP/gone"
run sh -c "cd '$TMP/gone' && rmdir '$TMP/gone' && '$PROCTOR' submit '$TMP/two.yaml'"
is "so is one that is gone" "$status" 2
mkdir "$TMP/nowhere"
"$PROCTOR" stop
printf 'limits:\n  max_concurrent_jobs: 1\n' >"$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" start
printf 'sheets:\n  - run: while [ ! -e %s/go ]; do sleep 0.1; done\n' "$TMP" >"$TMP/gate.yaml"
"$PROCTOR" submit --job gate "$TMP/gate.yaml" >/dev/null
"$PROCTOR" submit --job late "$TMP/nowhere.yaml" >/dev/null
"$PROCTOR" submit --job waits "$TMP/two.yaml" >/dev/null
"$PROCTOR" submit --job waits-too "$TMP/two.yaml" >/dev/null
"$PROCTOR" run -q --job waits -- sleep 302 &
waits=$!
eventually has_ticks waits 1
waiting='[j["command"] for j in d if j["job_id"] == "waits-too"]'
is "what waits has the name of its file" "$(json_eval "$("$PROCTOR" jobs --json)" "$waiting")" "['$TMP/two.yaml']"
"$PROCTOR" stop
is "also without a daemon" "$(json_eval "$("$PROCTOR" jobs --json)" "$waiting")" "['$TMP/two.yaml']"
left='cannot be cancelled without a daemon, and would begin with the next one'
run "$PROCTOR" cancel --queued waits
is "what waits is not cancelled without a daemon" "$status" 1
like "and not said to be" "$stderr" "1 of job waits in the queue $left.*\(0 that ran are being ended\)"
run "$PROCTOR" cancel waits-too
is "nor by its name" "$status" 1
like "which says that it is there" "$stderr" "1 of job waits-too in the queue $left"
run "$PROCTOR" cancel waits
is "where more is there than what waits, too" "$status" 1
like "what runs is ended" "$stderr" "1 of job waits in the queue $left.*\(1 that ran is being ended\)"
run "$PROCTOR" wait waits-too
is "nobody can tell how what waits will end" "$stdout/$status" "/3"
like "and why" "$stderr" 'job waits-too waits for a daemon, and none is running'
run "$PROCTOR" wait waits
is "nor of a name whose last has not begun" "$stdout/$status" "/3"
wait "$waits"
run "$PROCTOR" cancel --queued --user 47001 waits
like "of somebody else nothing waits" "$stderr" 'no job waits waits'
"$PROCTOR" start
for job in waits waits-too; do
	run "$PROCTOR" cancel "$job"
	is "a daemon cancels $job" "$status$stderr" 0
	is "which never begins" "$("$PROCTOR" wait "$job")" "$job cancelled"
done
rmdir "$TMP/nowhere"
touch "$TMP/go"
run "$PROCTOR" wait --json late
json "one that goes before the job begins is why it failed" "$stdout" \
	'd["outcome"] == "failure" and d["reason"].startswith("'"$TMP"'/nowhere.yaml:4: the workdir")'
"$PROCTOR" stop
rm "$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" start

# ---- cancelling: nothing survives ----
cat >"$TMP/stubborn.yaml" <<'END'
sheets:
  - run: trap '' TERM; sleep 1234 & a=$!; setsid sleep 1235 & echo $$ $a $! >pids.now; mv pids.now pids; wait; sleep 1236
END
(cd "$TMP" && "$PROCTOR" submit --job stubborn "$TMP/stubborn.yaml" >/dev/null)
eventually [ -s "$TMP/pids" ]
read -ra pids <"$TMP/pids"
is "it runs" "$(ps -o pid= -p "$(IFS=,; echo "${pids[*]}")" | wc -l)" 3
run "$PROCTOR" cancel stubborn
is "a job is cancelled" "$status" 0
run "$PROCTOR" wait stubborn
is "and is over" "$stdout" "stubborn cancelled"
run "$PROCTOR" jobs
like "with that as the reason" "$stdout" "stubborn .*, as the job was cancelled"
is "nothing of it is left" "$(ps -o stat= -p "$(IFS=,; echo "${pids[*]}")" | grep -v Z)" ""

# ---- a job that waits ----
cat >"$TMP/nap.yaml" <<'END'
sheets:
  - run: sleep 1
END
printf 'sheets:\n  - run: while [ ! -e %s/nap-over ]; do sleep 0.1; done\n' "$TMP" >"$TMP/long-nap.yaml"
n=$(($(nproc) + 2))
"$PROCTOR" events --follow --json >"$TMP/waiting" &
follower=$!
eventually has_subscribers 1
for i in $(seq "$n"); do
	"$PROCTOR" submit --job "nap-$i" "$TMP/long-nap.yaml" >/dev/null
done
run "$PROCTOR" submit --job "nap-$n" "$TMP/long-nap.yaml"
is "no job is queued twice" "$status" 1
run "$PROCTOR" jobs --json
json "each is listed, from when it is submitted on" "$stdout" "len([j for j in d if j['job_id'].startswith('nap-')]) == $n"
run "$PROCTOR" cancel "nap-$n"
is "one that waits is cancelled" "$status" 0
run "$PROCTOR" wait "nap-$n"
is "and over" "$stdout/$status" "nap-$n cancelled/1"
run "$PROCTOR" jobs
like "the list says so, and why" "$stdout" "nap-$n .*cancelled .*cancelled before it began"
told_of() { grep "\"job_id\":\"$1\"" "$TMP/waiting" | grep -o '"event":"job[^"]*' | cut -d'"' -f4 | paste -sd' '; }
is "who follows hears that it waits, and of its end, and of no start" \
	"$(becomes "job.queued job.cancelled" told_of "nap-$n")" "job.queued job.cancelled"
is "nor does the record have one" \
	"$("$PROCTOR" events --job "nap-$n" --json | grep -o '"event":"job[^"]*')" '"event":"job.cancelled'
kill "$follower"
touch "$TMP/nap-over"
for i in $(seq $((n - 1))); do
	"$PROCTOR" wait "nap-$i" >/dev/null || not_ok "nap-$i"
done
run "$PROCTOR" jobs --json
is "all others have run, once" \
	"$(json_eval "$stdout" 'sorted(j["attempt"] for j in d if j["job_id"].startswith("nap-") and j["outcome"] == "success")')" \
	"$(python3 -c "print([1] * $((n - 1)))")"

# ---- the daemon is killed while ten jobs run ----
for i in 1 2 3 4 5; do
	"$PROCTOR" run -q --job "run-$i" -- sh -c "sleep 2; exit $i" &
	printf 'sheets:\n  - run: echo %d >>%s/subs; sleep 1; exit %d\n' "$i" "$TMP" "$i" >"$TMP/exit.yaml"
	"$PROCTOR" submit --job "sub-$i" "$TMP/exit.yaml" >/dev/null
done
eventually grep -q . "$TMP/subs"
kill -9 "$(daemon_pid)"
run "$PROCTOR" status
is "it is gone" "$status" 1
"$PROCTOR" start
is "and comes back" $? 0
wait
for i in 1 2 3 4 5; do
	is "sub-$i ended as it should" "$("$PROCTOR" wait --json "sub-$i" |
		python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["exit_code"], d["attempt"])')" "$i 1"
	is "so did run-$i" "$("$PROCTOR" wait --json "run-$i" |
		python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["exit_code"], d["attempt"])')" "$i 1"
done
is "each that was submitted has run once" "$(sort "$TMP/subs" | paste -sd' ')" "1 2 3 4 5"
check "nothing is left to run" eventually is_idle

# ---- who waits, waits for the next daemon, too ----
printf 'sheets:\n  - run: while [ ! -e %s/wait ]; do sleep 0.1; done; exit 7\n' "$TMP" >"$TMP/wait.yaml"
"$PROCTOR" submit --job awaited "$TMP/wait.yaml" >/dev/null
"$PROCTOR" wait --json awaited >"$TMP/awaited" 2>&1 &
waiter=$!
becomes 1 sh -c "ls -l /proc/$waiter/fd | grep -c socket:" >/dev/null
kill -9 "$(daemon_pid)"
"$PROCTOR" start
touch "$TMP/wait"
wait $waiter
is "it ends with the job" $? 1
json "and knows how" "$(cat "$TMP/awaited")" 'd["exit_code"] == 7'
like "what the daemon does is in its log" "$(cat "$PROCTOR_HOME/daemon.log")" "job awaited of user $(id -u) is started"

# ---- a daemon that does not answer ----
daemon=$(daemon_pid)
kill -STOP "$daemon"
run "$PROCTOR" submit --job unanswered "$TMP/two.yaml"
kill -CONT "$daemon"
is "a request that nobody answers" "$status" 1
like "may be heard later, which is said" "$stderr" 'did not answer in time: it may take the job all the same, see "proctor jobs"'
is "as it was" "$(becomes "unanswered failure" "$PROCTOR" wait unanswered)" "unanswered failure"

# ---- a database that cannot be used ----
"$PROCTOR" stop
like "so is that it stops, and who wants it" "$(tail -n 3 "$PROCTOR_HOME/daemon.log")" "stops: pid [0-9]+ of user $(id -u) asks for it"
mkdir "$TMP/broken"
head -c 8192 /dev/urandom >"$TMP/broken/proctor.db"
run env PROCTOR_HOME="$TMP/broken" "$PROCTOR" start
is "the daemon starts" "$status" 0
like "and says that it cannot record" "$stderr" "records nothing: .*proctor.db"
run env PROCTOR_HOME="$TMP/broken" "$PROCTOR" status
like "status says why" "$stdout" "nothing is recorded: .*proctor.db"
run env PROCTOR_HOME="$TMP/broken" "$PROCTOR" jobs
like "jobs too" "$stderr" "records nothing: .*proctor.db"
printf 'sheets:\n  - run: echo $PPID >%s; %s\n' "$TMP/runner" "$(gate broken)" >"$TMP/gated.yaml"
run env PROCTOR_HOME="$TMP/broken" "$PROCTOR" submit --job unsure "$TMP/gated.yaml"
if [ "$status" = 0 ]; then
	PROCTOR_HOME=$TMP/broken "$PROCTOR" cancel unsure
	is "a job that is taken can be followed" \
		"$(becomes "unsure cancelled" env PROCTOR_HOME="$TMP/broken" timeout 60 "$PROCTOR" wait unsure)" "unsure cancelled"
else
	like "one that could not be followed is not taken, and why is said" "$status/$stdout/$stderr" "^1//.*no new jobs: .*proctor.db"
fi
PROCTOR_HOME=$TMP/broken "$PROCTOR" stop
rm -rf "$TMP/broken" "$TMP/runner"
PROCTOR_HOME=$TMP/broken "$PROCTOR" start
broken_status() { json_eval "$(PROCTOR_HOME=$TMP/broken "$PROCTOR" status --json)" 'd["running_jobs"]'; }
PROCTOR_HOME=$TMP/broken "$PROCTOR" submit --job started "$TMP/gated.yaml" >/dev/null
is "a job runs" "$(becomes 1 broken_status)" 1
PROCTOR_HOME=$TMP/broken "$PROCTOR" stop
eventually test -s "$TMP/runner"
kill -STOP "$(cat "$TMP/runner")" # or it makes a new one in between
rm -f "$TMP/broken"/proctor.db "$TMP/broken"/proctor.db-wal "$TMP/broken"/proctor.db-shm
head -c 8192 /dev/urandom >"$TMP/broken/proctor.db"
kill -CONT "$(cat "$TMP/runner")"
PROCTOR_HOME=$TMP/broken "$PROCTOR" start 2>/dev/null
is "the daemon has lost its database, and knows that it runs" "$(becomes 1 broken_status)" 1
(PROCTOR_HOME=$TMP/broken ask job.wait '{"job_id": "started"}' >"$TMP/unfollowed") &
waiter=$!
json "it is listed" "$(PROCTOR_HOME=$TMP/broken ask job.list)" '[(j["job_id"], j["status"]) for j in d] == [("started", "running")]'
pass broken
wait "$waiter"
json "who waits is told how it ended" "$(cat "$TMP/unfollowed")" 'd["outcome"] == "success"'
is "and it takes nobody's place" "$(becomes 0 broken_status)" 0
run env PROCTOR_HOME="$TMP/broken" timeout 60 "$PROCTOR" stop --jobs
is "nor does the end of all jobs wait for it" "$status" 0
rm -f "$TMP/broken"/proctor.db "$TMP/broken"/proctor.db-wal "$TMP/broken"/proctor.db-shm
PROCTOR_HOME=$TMP/broken "$PROCTOR" start
is "the next database has how it ended" "$(becomes "started success" env PROCTOR_HOME="$TMP/broken" "$PROCTOR" wait started)" \
	"started success"
is_gone() { ! kill -0 "$(cat "$TMP/runner")"; }
check "and its runner is gone" eventually is_gone
PROCTOR_HOME=$TMP/broken "$PROCTOR" stop
"$PROCTOR" start

# ---- an upgrade: the daemon's own program is another by now, or none for a moment ----
"$PROCTOR" stop
cp "$PROCTOR" "$TMP/old"
"$TMP/old" start
rm "$TMP/old"
"$PROCTOR" submit --job upgraded "$TMP/nap.yaml" >/dev/null
cp "$PROCTOR" "$TMP/old"
run "$PROCTOR" wait upgraded
is "a job waits for it, and runs" "$stdout" "upgraded success"

# ---- the daemon may be spared when memory runs out, its jobs are not ----
if echo -100 2>/dev/null >/proc/self/oom_score_adj; then # of this shell, and of the daemon
	"$PROCTOR" stop
	"$PROCTOR" start
	echo 0 >/proc/self/oom_score_adj
	is "the daemon is spared" "$(cat "/proc/$(daemon_pid)/oom_score_adj")" -100
	printf 'sheets:\n  - run: cat /proc/self/oom_score_adj\n' >"$TMP/oom.yaml"
	"$PROCTOR" submit --job oom "$TMP/oom.yaml" >/dev/null
	"$PROCTOR" wait oom >/dev/null
	is "its job is not" "$(cat "$PROCTOR_HOME/logs/oom.log")" 0
else
	skip "jobs are not spared when memory runs out" "needs the right to spare a process"
fi

# ---- it is stopped while a job runs ----
"$PROCTOR" run -q --job goes-on -- sh -c "$(gate goes-on)" &
runner=$!
eventually has_ticks goes-on 3
before=$EPOCHREALTIME
"$PROCTOR" stop
is "it stops" $? 0
ticks_since() { # TIME JOB: more than two
	[ "$(json_eval "$("$PROCTOR" history --job "$2" --json)" "len({s['timestamp'] for s in d if s['timestamp'] > $1}) > 2")" = True ]
}
check "the job is recorded all the same" eventually ticks_since "$EPOCHREALTIME" goes-on
pass goes-on
wait $runner
is "and goes on" $? 0
run "$PROCTOR" history --job goes-on --json
json "from its beginning on" "$stdout" "d[0]['timestamp'] < $before"

# ---- what was promised survives a power cut ----
# A disk that takes two seconds to sync holds up who submits, and nobody else.
if strace -o /dev/null true 2>/dev/null; then
	PROCTOR_HOME=$TMP/slow strace -f -e trace=fsync,fdatasync -e inject=fsync,fdatasync:delay_enter=2000000 -o /dev/null \
		"$PROCTOR" start --foreground 2>/dev/null &
	traced=$!
	eventually env PROCTOR_HOME="$TMP/slow" "$PROCTOR" status
	is "who asks meanwhile is answered first, and who has submitted finds the job" \
		"$(PYTHONPATH=$INTEGRATION python3 - "$TMP/slow/proctor.sock" <<'END'
import select, sys
from rpc_client import Client
submitting, asking = Client(sys.argv[1]), Client(sys.argv[1])
submitting.send("job.submit", {"file": "sheets: [{run: sleep 2}]", "workdir": "/", "job_id": "slow"}, 1)
submitting.send("job.list", None, 2)
asking.send("daemon.status", None, 3)
told = [asking.read()["id"]]
told += ["late" if select.select([submitting.socket], [], [], 0)[0] else "waits"]
told += [submitting.read()["id"]]
print(told, [j["job_id"] for j in submitting.read()["result"]])
END
)" "[3, 'waits', 1] ['slow']"
	PROCTOR_HOME=$TMP/slow "$PROCTOR" stop --jobs
	wait $traced
else
	skip "who asks meanwhile is answered first" "strace cannot trace here"
fi

# ---- a bad configuration does not hide what was recorded ----
echo 'intervall: 1' >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" jobs --json
is "jobs are listed" "$status" 0
json "all of them" "$stdout" 'any(j["job_id"] == "goes-on" for j in d)'
like "with a warning that names file and line" "$stderr" "proctor.yaml:1: unknown key 'intervall'.*all the same"
run "$PROCTOR" report goes-on
is "so is a report" "$status" 0
run "$PROCTOR" gc
is "but nothing is removed by rules that cannot be read" "$status" 2
mv "$PROCTOR_HOME/proctor.db" "$TMP/elsewhere.db"
run "$PROCTOR" jobs
is "where the database may be elsewhere that is an error" "$status" 2
mv "$TMP/elsewhere.db" "$PROCTOR_HOME/proctor.db"
rm "$PROCTOR_HOME/proctor.yaml"

finish
