#!/bin/bash
# One daemon of root's for all users of the host: whose jobs it watches, what each may see and do,
# and who a submitted job runs as.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/users.sh"

printf 'interval_seconds: 0.3\naccess:\n  read_group: readers\nlimits:\n  max_concurrent_jobs: 2\n  max_daemon_cpu_percent: 50\n' \
	>/etc/proctor/proctor.yaml
: >"$TMP/daemon" # there may be one when the script ends

# report_is NAME USER JOB EXPRESSION: of the daemon's report, as d, as soon as it is so.
report_is() {
	local end=$((EPOCHSECONDS + 60))
	until stdout=$(ask_as "$2" job.report "{\"job_id\": \"$3\"}"); [ "$(json_eval "$stdout" "$4")" = True ]; do
		[ $EPOCHSECONDS -lt $end ] || break
		sleep 0.2
	done
	json "$1" "$stdout" "$4"
}

# ---- the socket ----

mkdir -m 700 /run/proctor
ln -s "$TMP/elsewhere" /run/proctor/proctor.sock
run "$PROCTOR" start
is "a socket that is a symbolic link is refused" "$status" 1
like "and said to be one" "$stderr" "symbolic link"
check "nothing was made through it" test ! -e "$TMP/elsewhere"
rm /run/proctor/proctor.sock
run env SECRET=1 "$PROCTOR" start
is "the daemon of the host starts" "$status$stderr" 0
is "its folder is open to all" "$(stat -c %a /run/proctor)" 755
is "and so is its socket" "$(stat -c %a /run/proctor/proctor.sock)" 666
is "but nothing that it keeps is" "$(stat -c %a /var/lib/proctor /var/lib/proctor/proctor.db | xargs)" "700 600"

# ---- guests ----

"$PROCTOR" run -q --job same -- sleep 120 &
"$PROCTOR" run -q --job roots -- sleep 121 &
as alice "$PROCTOR" run -q --job same -- sh -c 'sleep 122; true' &
is "root sees the jobs of all" "$(becomes "roots:0 same:0 same:4001" listed root)" "roots:0 same:0 same:4001"
is "a user their own" "$(listed alice)" "same:4001"
is "another user nothing" "$(listed bob)" ""
is "the group that may read everything" "$(listed carol)" "roots:0 same:0 same:4001"
run as carol "$PROCTOR" jobs --json
json "and lists it" "$stdout" 'sorted((j["job_id"], j["uid"]) for j in d) == [("roots", 0), ("same", 0), ("same", 4001)]'
run as alice "$PROCTOR" jobs --json
json "others list their own, once" "$stdout" '[(j["job_id"], j["uid"]) for j in d] == [("same", 4001)]'
shown() { # USER: commands of the processes in a snapshot
	json_eval "$(ask_as "$1" daemon.top)" \
		'" ".join(sorted(p["command"] for p in d["processes"] if p["command"].startswith("sleep")))'
}
is "processes of a guest are sampled" "$(becomes "sleep 120 sleep 121 sleep 122" shown root)" \
	"sleep 120 sleep 121 sleep 122"
is "a user is shown their own" "$(shown alice)" "sleep 122"
is "and nobody else's" "$(shown bob)" ""
json "with the progress of their own jobs" "$(ask_as alice daemon.top)" \
	'[p["job_id"] for p in d["job_progress"]] == ["same"] and d["running_jobs"] == 1'
json "a stream is the user's own, too" "$(ask_as alice daemon.top.stream '{}' 1 | tail -n 1)" \
	'[p["command"] for p in d["params"]["data"]["processes"] if p["command"].startswith("sleep")] == ["sleep 122"]'
json "and the reader's is everything" "$(ask_as carol daemon.top.stream '{}' 1 | tail -n 1)" \
	'len([p for p in d["params"]["data"]["processes"] if p["command"].startswith("sleep")]) == 3'
hers=$(json_eval "$(ask_as alice daemon.top)" '[p["pid"] for p in d["processes"] if p["command"] == "sleep 122"][0]')
his=$(json_eval "$(ask_as root daemon.top)" '[p["pid"] for p in d["processes"] if p["command"] == "sleep 121"][0]')
json "a process of one's own has a context" "$(ask_as alice resource.context "{\"pid\": $hers}")" 'd["rss_mb"] > 0'
json "and so has the host" "$(ask_as alice resource.context)" \
	"d['rss_mb'] > 0 and 0 <= d['cpu_pct'] <= 100 * $(nproc --all) and {'syscall_hotspot', 'anomalies_active', 'daemon_rss_mb'} <= set(d)"
json "one of others has none" "$(ask_as alice resource.context "{\"pid\": $his}")" 'd["code"] == -32001'
json "nor for another" "$(ask_as bob resource.context "{\"pid\": $hers}")" 'd["code"] == -32001'

PROCTOR_HOME=$TMP/other "$PROCTOR" run -q --interval 0.5 --job other -- sleep 300 &
other=$!
is "a job of one's own in another database is a guest, too" \
	"$(becomes True list_of root 'any(j["job_id"] == "other" for j in d)')" True
kill "$other"
wait "$other"

# ---- who may do what ----

json "what is not seen cannot be cancelled" "$(ask_as bob job.cancel '{"job_id": "same"}')" 'd["code"] == -32001'
json "nor reported" "$(ask_as bob job.report '{"job_id": "roots"}')" 'd["code"] == -32001'
json "not by number either" "$(ask_as alice job.report '{"job_id": "same", "attempt": 1}')" 'd["code"] == -32001'
json "nor waited for" "$(ask_as bob job.wait '{"job_id": "roots"}')" 'd["code"] == -32001'
json "to read is not to cancel" "$(ask_as carol job.cancel '{"job_id": "roots"}')" 'd["code"] == -32000'
json "but to report" "$(ask_as carol job.report '{"job_id": "roots"}')" 'd["job_id"] == "roots"'
json "to stop is the owner's" "$(ask_as carol daemon.stop)" 'd["code"] == -32000'
run as alice "$PROCTOR" cancel same
is "a user cancels their own job" "$status" 0
run as alice "$PROCTOR" wait same
is "and waits for that" "$stdout" "same cancelled"
is "root's of the same name goes on" "$(becomes "[]" list_of alice '[j["job_id"] for j in d]')$(list_of root \
	'sorted(j["uid"] for j in d if j["job_id"] == "same")')" "[][0]"
report_is "the daemon has recorded its end" alice same \
	'd["outcome"] == "cancelled" and d["peak_rss_mb"] > 0 and len(d["series"]) > 0'
json "of root's it has another" "$(ask_as root job.report '{"job_id": "same"}')" 'd["outcome"] is None'
json "so has its own runner" "$(as alice "$PROCTOR" report same --format json)" 'd["outcome"] == "cancelled"'
"$PROCTOR" cancel same >/dev/null
"$PROCTOR" cancel roots >/dev/null

# ---- how a guest goes on, and ends ----

printf 'sheets:\n  - run: sleep 0.8\n    name: first\n  - run: sleep 0.8; exit 3\n' >"$TMP/two.yaml"
run as alice "$PROCTOR" run -q --job two -f "$TMP/two.yaml"
report_is "its end is that of its runner" root two 'd["outcome"] == "failure" and d["exit_code"] == 3'
json "with its sheets" "$stdout" \
	'[(s["outcome"], s["name"]) for s in d["sheet_metrics"].values()] == [("success", "first"), ("failure", None)]'
json "and what it used, as exact" "$stdout" \
	'd["evidence"]["total_cpu_seconds"] == "exact" and d["process_spawn_count"] >= 2'
json "its events were told" "$(ask_as alice daemon.events '{"job_id": "two"}')" \
	'[e["event"] for e in d if not e["event"].startswith("process.")] == ["job.started", "sheet.started", "sheet.completed", "sheet.started", "sheet.failed", "job.failed"]'
json "to nobody else" "$(ask_as bob daemon.events)" 'd == []'
json "but to who reads all" "$(ask_as carol daemon.events '{"limit": 4096}')" '{e["job_id"] for e in d} >= {"same", "two", "roots"}'
json "the newest of them, oldest first" "$(ask_as root daemon.events '{"limit": 2, "job_id": "two"}')" \
	'len(d) == 2 and d[1]["event"] in ("job.failed", "process.exit")'

as alice "$PROCTOR" run -q --job killed -- sleep 123 &
is "a guest runs" "$(becomes "killed:4001" listed root)" "killed:4001"
runner=$(pgrep -u 4001 -f 'run -q --job killed')
orphan=$(pgrep -P "$runner")
kill -9 "$runner"
is "its runner is killed" "$(becomes "" listed root)" ""
report_is "and that is all that is known" root killed 'd["outcome"] is None and d["lost"]'
kill "$orphan"

as alice "$PROCTOR" run -q --job outlives -- sh -c "$(gate outlives); exit 5" &
is "a guest runs" "$(becomes "outlives:4001" listed root)" "outlives:4001"
kill -9 "$(daemon_pid)"
"$PROCTOR" start
is "the daemon was killed and knows it again" "$(becomes "outlives:4001" listed alice)" "outlives:4001"
pass outlives
json "its end is told when it comes" "$(ask_as alice job.wait '{"job_id": "outlives"}')" \
	'd["exit_code"] == 5 and d["attempt"] == 1'

# ---- ends that come while there is no daemon ----

# Of ten jobs seven end while the daemon is dead: by a status, by a signal, and two that it has started.
printf 'sheets:\n  - run: while [ ! -e %s/end-%%s ]; do sleep 0.1; done; exit %%s\n' "$TMP" >"$TMP/gate.format"
for n in 1 2; do
	# shellcheck disable=SC2059 # the format is ours
	printf "$(cat "$TMP/gate.format")\n" "ten-$n" "2$n" >"$TMP/ten-$n.yaml"
	as alice "$PROCTOR" submit --job "ten-$n" "$TMP/ten-$n.yaml" >/dev/null
done
gated() { # JOB THEN: a command that ends when it may
	echo "while [ ! -e $TMP/end-$1 ]; do sleep 0.1; done; $2"
}
for n in 3 4 5 6; do
	as alice "$PROCTOR" run -q --job "ten-$n" -- sh -c "$(gated "ten-$n" "exit 2$n")" &
done
as alice "$PROCTOR" run -q --job ten-7 -- sh -c "$(gated ten-7 "kill -9 \$\$")" &
for n in 8 9 10; do
	as alice "$PROCTOR" run -q --job "ten-$n" -- sh -c "$(gated "ten-$n" "exit 2$n")" &
done
tens() { listed alice | tr ' ' '\n' | grep -c '^ten-'; }
is "ten jobs of a user run" "$(becomes 10 tens)" 10
killed=$(daemon_pid)
kill -9 "$killed"
for n in 1 2 3 4 5 6 7; do
	touch "$TMP/end-ten-$n"
done
ended() { # that many of the jobs have ended, as her own record has it
	json_eval "$(as alice "$PROCTOR" jobs --json 2>/dev/null)" 'sum(j["job_id"].startswith("ten-") and j["outcome"] is not None for j in d)'
}
is "some end while nobody listens" "$(becomes 7 ended)" 7
"$PROCTOR" start
touch "$TMP/end-ten-8" "$TMP/end-ten-9" "$TMP/end-ten-10"
told() { # how each ended, as the daemon has it
	local n
	for n in 1 2 3 4 5 6 7 8 9 10; do
		json_eval "$(ask_as root job.report "{\"job_id\": \"ten-$n\"}")" '"%s %s %s" % (d.get("outcome"), d.get("exit_code"), d.get("signal"))'
	done
}
expected=$(for n in 1 2 3 4 5 6; do echo "failure 2$n None"; done
	echo "failure None 9"
	for n in 8 9 10; do echo "failure 2$n None"; done)
is "the next daemon knows how each of them ended" "$(becomes "$expected" told)" "$expected"
json "each ran once" "$(as alice "$PROCTOR" jobs --json)" \
	'sorted(j["attempt"] for j in d if j["job_id"].startswith("ten-")) == [1] * 10'
json "the daemon has each once, too" "$(ask_as root job.attempts)" \
	'sorted(a["job_id"] for a in d["attempts"] if a["job_id"].startswith("ten-")) == sorted("ten-%d" % n for n in range(1, 11))'
json "their ends were told, and none as lost" "$(ask_as alice daemon.events '{"limit": 4096}')" \
	'sorted(e["job_id"] for e in d if e["event"] == "job.failed" and not e["lost"] and e["job_id"].startswith("ten-")) == sorted("ten-%d" % n for n in range(1, 11))'
# ---- what a user can make of a record of root's ----

as alice "$PROCTOR" run -q --job evil -- sh -c 'sleep 1' $'\e[31m' "$(printf '€%.0s' {1..2000})"
report_is "its record is hers, printable and bounded" root evil \
	'd["outcome"] == "success" and "\x1b" not in d["command"] and len(d["command"].encode()) <= 500'

# ---- each user has numbers of their own ----

as bob "$PROCTOR" run -q --job numbered -- sleep 300 &
is "another user has one" "$(becomes "numbered:4002" listed bob)" "numbered:4002"
as alice "$PROCTOR" run -q --job numbered -- sleep 300 &
is "and she" "$(becomes "numbered:4001" listed alice)" "numbered:4001"
run as alice "$PROCTOR" jobs --json
json "which is her first" "$stdout" '[j["attempt"] for j in d if j["job_id"] == "numbered"] == [1]'
run as alice "$PROCTOR" cancel numbered --attempt 2
is "one that she has not is not cancelled" "$status" 1
like "and said not to be there" "$stderr" "no attempt 2 of a job numbered"
is "all that runs goes on" "$(listed root | tr ' ' '\n' | grep -c '^numbered:')" 2
run as alice "$PROCTOR" cancel numbered --attempt 1
is "by her number it is" "$status/$stderr" 0/
run as alice timeout 60 "$PROCTOR" wait numbered --attempt 1 --json
json "and waited for" "$stdout" 'd["outcome"] == "cancelled" and d["attempt"] == 1'
is "the other user's goes on" "$(listed bob)" "numbered:4002"
as bob "$PROCTOR" cancel numbered

# ---- submitting ----

cat >"$TMP/who.yaml" <<'END'
sheets:
  - run: |
      echo "user $(id -u) $(id -g) $(id -G)"
      echo "home $HOME $USER $LOGNAME $SHELL"
      echo "umask $(umask) in $(pwd)"
      grep -E '^(CapInh|CapPrm|CapEff|CapAmb|Uid|Gid|Groups):' /proc/self/status /proc/$PPID/status
      echo "variables $(env | grep -c -E '^(PROCTOR_QUEUED|PROCTOR_LAUNCHER|SECRET)')"
      echo "own files $(ls /proc/self/fd | wc -l)"
      echo "runner's files" $(readlink /proc/$PPID/fd/* | grep -E '^/var/lib|^/etc|^/root')
      echo "adj $(cat /proc/self/oom_score_adj)"
END
run as alice "$PROCTOR" submit --job who "$TMP/who.yaml"
is "a user submits" "$stdout/$stderr" "who/"
json "it has run" "$(ask_as alice job.wait '{"job_id": "who"}')" 'd["outcome"] == "success"'
log=$TMP/alice/.local/state/proctor/logs/who.log
is "its output is the user's" "$(stat -c '%U %a' "$log")" "alice 600"
said=$(cat "$log")
like "it ran as the user" "$said" "^user 4001 4001 4001 4101$"
like "at home" "$said" "^home $TMP/alice alice alice /bin/sh$"
like "with a plain umask, where it was submitted" "$said" "^umask 0022 in $TMP/alice$"
is "with no capability, nor its runner" "$(grep -c 'Cap...:.*0000000000000000$' <<<"$said")" 8
is "and no other user, nor its runner" "$(grep -c -P 'Uid:\t4001\t4001\t4001\t4001$' <<<"$said")" 2
is "nor group" "$(grep -c -P 'Groups:\t4001 4101 ?$' <<<"$said")" 2
like "with nothing of root's environment" "$said" "^variables 0$"
is "of root's files its runner has one at most, that of the job" "$(grep "^runner's files" <<<"$said" | wc -w | sed 's/^[23]$/no more/')" "no more"
is "it is in the user's own database" "$(json_eval "$(as alice "$PROCTOR" jobs --json)" '[j["outcome"] for j in d if j["job_id"] == "who"]')" "['success']"
report_is "and in the daemon's" root who 'd["outcome"] == "success" and d["command"].endswith("who.yaml")'
is "nothing of it waits or runs" "$(becomes "" listed root)" ""

mkdir -m 700 "$TMP/closed"
: >"$TMP/long.yaml"
for folder in "closed:Permission denied" "closed/x:Permission denied" "alice/nowhere:No such file" "long.yaml:Not a directory"; do
	json "where the user cannot go the job does not go (${folder%:*})" \
		"$(ask_as alice job.submit "{\"file\": \"sheets: [{run: pwd}]\", \"workdir\": \"$TMP/${folder%:*}\", \"job_id\": \"sneak\"}")" \
		"d['code'] == -32602 and '${folder#*:}' in d['message']"
done
json "nor is told of what it cannot see" \
	"$(ask_as alice job.submit "{\"file\": \"sheets: [{run: pwd, workdir: $TMP/closed/x}]\", \"workdir\": \"/\", \"job_id\": \"oracle\"}")" 'd["job_id"] == "oracle" and d.keys() <= {"job_id", "warning"}'

printf 'sheets:\n  - run: sleep 300\n' >"$TMP/long.yaml"
for user in alice bob carol; do
	as "$user" "$PROCTOR" submit --job long "$TMP/long.yaml" >/dev/null
done
waiting() { json_eval "$(ask_as "$1" job.list)" 'sorted((j["job_id"], j["uid"]) for j in d if j["status"] == "queued")'; }
is "each has a job of that name, and one waits" "$(becomes "[('long', 4003)]" waiting root)" "[('long', 4003)]"
run as alice "$PROCTOR" submit --job long "$TMP/long.yaml"
is "nobody has two of one name" "$status" 1
is "who waits is seen by its owner" "$(waiting carol)" "[('long', 4003)]"
is "and by nobody else" "$(waiting bob)" "[]"
ask_as carol job.wait '{"job_id": "long"}' >"$TMP/waited" &
waiter=$!
sleep 0.3
run as carol "$PROCTOR" cancel long
is "its owner cancels it" "$status" 0
wait $waiter
json "who waits for it is told" "$(cat "$TMP/waited")" 'd["outcome"] == "cancelled"'
is "the others' are still there" "$(becomes "long:4001 long:4002" listed root)" "long:4001 long:4002"
run as bob "$PROCTOR" cancel long
is "a running one too" "$status" 0
json "and is over" "$(ask_as bob job.wait '{"job_id": "long"}')" 'd["outcome"] == "cancelled"'
is "that of another goes on" "$(becomes "long:4001" listed root)" "long:4001"
"$PROCTOR" cancel long >/dev/null
json "root may cancel it" "$(ask_as alice job.wait '{"job_id": "long"}')" 'd["outcome"] == "cancelled"'

# ---- jobs of one name ----

for user in alice bob; do
	as "$user" "$PROCTOR" submit --job mine "$TMP/long.yaml" >/dev/null
done
is "two users have a job of one name" "$(becomes "mine:4001 mine:4002" listed root)" "mine:4001 mine:4002"
running_mine() { json_eval "$("$PROCTOR" jobs --json)" 'sorted(j["uid"] for j in d if j["job_id"] == "mine" and j["status"] == "running")'; }
is "both are listed" "$(becomes "[4001, 4002]" running_mine)" "[4001, 4002]"
run "$PROCTOR" jobs
like "with whose they are" "$stdout" "mine +alice +[0-9]+ .*running"
like "each" "$stdout" "mine +bob +[0-9]+ .*running"
run as alice "$PROCTOR" jobs
is "who sees only their own is told no user" "$(grep -c USER <<<"$stdout")" 0
run "$PROCTOR" cancel mine
is "root does not cancel just any of them" "$status" 1
like "and hears which there are" "$stderr" "several users have a job mine: say whose .*user 4001, attempt [0-9]+; user 4002, attempt [0-9]+"
is "both go on" "$(listed root)" "mine:4001 mine:4002"
"$PROCTOR" stop
run "$PROCTOR" cancel mine
like "nor without a daemon" "$status $stderr" "^1 .*several users have a job mine: say whose"
"$PROCTOR" start
is "both go on" "$(becomes "mine:4001 mine:4002" listed root)" "mine:4001 mine:4002"
run as alice "$PROCTOR" cancel mine --user bob
is "another user's is not there for her" "$status" 1
like "which is not to say that it is over" "$stderr" "no job mine of user 4002 is there to be ended$"
run as alice "$PROCTOR" cancel mine --user root
like "whether it is there or not" "$stderr" "no job mine of user 0 is there to be ended$"
run "$PROCTOR" cancel mine --user nobody-of-that-name
is "a user who is not there is bad input" "$status" 2
run "$PROCTOR" cancel mine --user bob
is "the one that is meant is cancelled" "$status$stderr" 0
json "it is over" "$(ask_as bob job.wait '{"job_id": "mine"}')" 'd["outcome"] == "cancelled"'
is "and no other" "$(becomes "mine:4001" listed root)" "mine:4001"
as bob "$PROCTOR" submit --job mine "$TMP/long.yaml" >/dev/null
is "once more" "$(becomes "mine:4001 mine:4002" listed root)" "mine:4001 mine:4002"
is "both run" "$(becomes "[4001, 4002]" running_mine)" "[4001, 4002]"
hers=$(json_eval "$(ask_as alice job.list)" 'd[0]["attempt"]')
run "$PROCTOR" cancel mine --attempt "$hers"
is "an attempt says which, too" "$status$stderr" 0
json "it is hers" "$(ask_as alice job.wait '{"job_id": "mine"}')" 'd["outcome"] == "cancelled"'
is "his goes on" "$(becomes "mine:4002" listed root)" "mine:4002"

# ---- a configuration of the user's that cannot be read ----

mkdir -p "$TMP/alice/.config/proctor"
echo 'bogus: 1' >"$TMP/alice/.config/proctor/proctor.yaml"
as alice "$PROCTOR" submit --job mine "$TMP/long.yaml" >/dev/null
is "their job is followed" "$(becomes "['running', 'running']" list_of root '[j["status"] for j in d if j["job_id"] == "mine"]')" \
	"['running', 'running']"
rm "$TMP/alice/.config/proctor/proctor.yaml"
check "and its output kept" test -f "$TMP/alice/.local/state/proctor/logs/mine.log"

# ---- stopping ----

for user in alice carol; do
	run as "$user" "$PROCTOR" stop --jobs
	is "$user may not stop the daemon" "$status" 1
	like "which is all that is said" "$stderr" "^proctor: only root and the daemon's own user may stop it: no job was cancelled$"
done
is "no job was touched" "$(listed root)" "mine:4001 mine:4002"
run "$PROCTOR" stop --jobs
is "root ends them all" "$status" 0
like "both of that name" "$stderr" "cancelled 2 jobs: mine, mine"
sleepers() { # of this test: others may run the same one
	local pid
	for pid in $(pgrep -u 4001,4002 -x -r D,R,S,T,t sleep); do
		! grep -qF "$TMP/" "/proc/$pid/environ" 2>/dev/null || echo "$pid"
	done
}
is "nothing is left of them" "$(sleepers)" ""
"$PROCTOR" start

# ---- a daemon that answers late ----

# The runner does not wait, but what it said is read: so it says how it ended, too.
state_of() { # JOB
	json_eval "$(ask_as root job.attempts "{\"job_id\": \"$1\"}")" '[a["outcome"] or (a["lost"] and "lost") or a["status"] for a in d["attempts"]][-1]'
}
stopped=$(daemon_pid)
kill -STOP "$stopped"
as alice "$PROCTOR" run -q --job hasty -- sh -c "$(gate hasty)" &
hasty=$!
sleep 1 # by then the runner has given up
kill -CONT "$stopped"
is "who was not answered is followed" "$(becomes running state_of hasty)" running
pass hasty
wait $hasty
is "and its end is known" "$(becomes success state_of hasty)" success

# A power cut loses nothing that was acknowledged: the answer comes after the disk has the copy.
if command -v strace >/dev/null; then
	strace -f -s 1000000 -e trace=desc,network -o "$TMP/trace" -p "$(daemon_pid)" 2>"$TMP/strace" &
	tracer=$!
	becomes 1 grep -c attached "$TMP/strace" >/dev/null
	as alice "$PROCTOR" run -q --job brief -- sleep 0.6
	kill "$tracer"
	wait "$tracer"
	is "the end of a guest is synced before it is acknowledged" "$(python3 - "$TMP/trace" <<'END'
import re, sys
asked = synced = False
for line in open(sys.argv[1], errors="replace"):
    if "runner.frames" in line and r'\"end\"' in line:
        asked, synced = True, False
    elif asked and re.search(r"fdatasync\(\d+\) += 0|fdatasync resumed.*= 0", line):
        synced = True
    elif asked and r'\"appended\"' in line:
        print("synced" if synced else "not synced")
        asked = False
END
)" synced
else
	skip "the end of a guest is synced before it is acknowledged" "there is no strace"
fi

# ---- a daemon of an ordinary user ----

as bob "$PROCTOR" start --foreground 2>/dev/null &
bobs=$TMP/bob/.local/state/proctor
becomes 600 stat -c %a "$bobs/proctor.sock" >/dev/null
is "its socket is closed" "$(stat -c %a "$bobs" "$bobs/proctor.sock" | xargs)" "700 600"
chmod 755 "$TMP/bob/.local" "$TMP/bob/.local/state" "$bobs"
chmod 666 "$bobs/proctor.sock"
json "it runs nobody else's jobs" \
	"$(as alice python3 "$TMP/rpc_client.py" "$bobs/proctor.sock" job.submit '{"file": "sheets: [{run: id}]", "workdir": "/"}')" \
	'd["code"] == -32000 and "not root" in d["message"]'
as bob "$PROCTOR" stop

# ---- links that a user makes for root ----

mkdir -m 700 "$TMP/roots"
as alice ln -s "$TMP/roots" "$TMP/alice/home"
run env PROCTOR_HOME="$TMP/alice/home" "$PROCTOR" run --job led -- true
is "root's run goes on where PROCTOR_HOME is a user's link" "$status" 0
like "and is not recorded there" "$stderr" "is a link that user 4001 has made, and root follows none"
run env PROCTOR_HOME="$TMP/alice/home/below" "$PROCTOR" gc
is "nor is it followed above the folder" "$status" 1
run env PROCTOR_HOME="$TMP/alice/home" "$PROCTOR" start
is "no daemon of root's starts there" "$status" 1
is "nothing was made behind it" "$(ls -A "$TMP/roots")" ""
ln -s "$TMP/roots" "$TMP/moved"
run env PROCTOR_HOME="$TMP/moved" "$PROCTOR" run -q --job own -- true
is "a link of root's own is followed" "$status$stderr$(ls -d "$TMP/roots/proctor.db-logs")" "0$TMP/roots/proctor.db-logs"

finish
