#!/bin/bash
# One daemon of root's for all users of the host: whose jobs it watches, what each may see and do,
# and who a submitted job runs as. In a mount namespace of its own, with users of its own.
if [ -z "${IN_OWN_NAMESPACE:-}" ] && [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	IN_OWN_NAMESPACE=1 exec unshare -m "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"

if [ -z "${IN_OWN_NAMESPACE:-}" ]; then
	skip "a daemon for all users" "needs root, and a machine that makes mount namespaces"
	finish
fi

# ---- a host with users ----

unset PROCTOR_HOME
chmod 755 "$TMP"
cp "$PROCTOR" "$TMP/proctor"
chmod 755 "$TMP/proctor"
PROCTOR=$TMP/proctor
cp -a /etc "$TMP/etc"
rm -rf "$TMP/etc/proctor"
mkdir "$TMP/etc/proctor" "$TMP/var"
printf '%s\n' "alice:x:4001:4001::$TMP/alice:/bin/sh" "bob:x:4002:4002::$TMP/bob:/bin/sh" \
	"carol:x:4003:4003::$TMP/carol:/bin/sh" "dave:x:4004:4004::$TMP/dave:/bin/sh" >>"$TMP/etc/passwd"
printf '%s\n' alice:x:4001: bob:x:4002: carol:x:4003: dave:x:4004: readers:x:4100:carol crew:x:4101:alice >>"$TMP/etc/group"
mkdir "$TMP/alice" "$TMP/bob" "$TMP/carol" "$TMP/dave" # dave may not write at home
chown 4001:4001 "$TMP/alice"
chown 4002:4002 "$TMP/bob"
chown 4003:4003 "$TMP/carol"
mount --bind "$TMP/etc" /etc && mount -t tmpfs none /run && mount --bind "$TMP/var" /var/lib || exit 99
printf 'interval_seconds: 0.3\naccess:\n  read_group: readers\nlimits:\n  max_concurrent_jobs: 2\n  max_daemon_cpu_percent: 50\n' \
	>/etc/proctor/proctor.yaml

as() { # USER COMMAND [ARG...]: as after a login
	local user=$1
	shift
	if [ "$user" = root ]; then
		"$@"
		return
	fi
	(cd "$TMP/$user" && exec setpriv --reuid="$user" --regid="$user" --init-groups \
		env -i HOME="$TMP/$user" PATH="$PATH" LC_ALL="$LC_ALL" "$@")
}

cat >"$TMP/ask.py" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect("/run/proctor/proctor.sock")
s.settimeout(100)
method, params = sys.argv[1], json.loads(sys.argv[2])
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
lines = s.makefile()
def once(pairs):
    assert len(dict(pairs)) == len(pairs), pairs # no member twice
    return dict(pairs)
answer = json.loads(lines.readline(), object_pairs_hook=once)
print(json.dumps(answer["error"] if "error" in answer else answer["result"]))
if len(sys.argv) > 3: # so many events after it
    for _ in range(int(sys.argv[3])):
        print(lines.readline(), end="")
END
ask() { # USER METHOD [PARAMS [EVENTS]]
	as "$1" python3 "$TMP/ask.py" "$2" "${3:-{\}}" ${4:+"$4"}
}
listed() { # USER: the jobs that this user is shown
	json_eval "$(ask "$1" job.list)" '" ".join(sorted("%s:%s" % (j["job_id"], j["uid"]) for j in d))'
}
json_eval_of() { # USER EXPRESSION: of the list of jobs
	json_eval "$(ask "$1" job.list)" "$2"
}
daemon_pid() { json_eval "$(ask root daemon.status)" 'd["pid"]'; }
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT

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
	json_eval "$(ask "$1" daemon.top)" \
		'" ".join(sorted(p["command"] for p in d["processes"] if p["command"].startswith("sleep")))'
}
is "processes of a guest are sampled" "$(becomes "sleep 120 sleep 121 sleep 122" shown root)" \
	"sleep 120 sleep 121 sleep 122"
is "a user is shown their own" "$(shown alice)" "sleep 122"
is "and nobody else's" "$(shown bob)" ""
json "with the progress of their own jobs" "$(ask alice daemon.top)" \
	'[p["job_id"] for p in d["job_progress"]] == ["same"] and d["running_jobs"] == 1'
json "a stream is the user's own, too" "$(ask alice daemon.top.stream '{}' 1 | tail -n 1)" \
	'[p["command"] for p in d["params"]["data"]["processes"] if p["command"].startswith("sleep")] == ["sleep 122"]'
json "and the reader's is everything" "$(ask carol daemon.top.stream '{}' 1 | tail -n 1)" \
	'len([p for p in d["params"]["data"]["processes"] if p["command"].startswith("sleep")]) == 3'
hers=$(json_eval "$(ask alice daemon.top)" '[p["pid"] for p in d["processes"] if p["command"] == "sleep 122"][0]')
his=$(json_eval "$(ask root daemon.top)" '[p["pid"] for p in d["processes"] if p["command"] == "sleep 121"][0]')
json "a process of one's own has a context" "$(ask alice resource.context "{\"pid\": $hers}")" 'd["rss_mb"] > 0'
json "and so has the host" "$(ask alice resource.context)" \
	"d['rss_mb'] > 0 and 0 <= d['cpu_pct'] <= 100 * $(nproc --all) and {'syscall_hotspot', 'anomalies_active', 'daemon_rss_mb'} <= set(d)"
json "one of others has none" "$(ask alice resource.context "{\"pid\": $his}")" 'd["code"] == -32001'
json "nor for another" "$(ask bob resource.context "{\"pid\": $hers}")" 'd["code"] == -32001'

PROCTOR_HOME=$TMP/other "$PROCTOR" run -q --interval 0.5 --job other -- sleep 300 &
other=$!
is "a job of one's own in another database is a guest, too" \
	"$(becomes True json_eval_of root 'any(j["job_id"] == "other" for j in d)')" True
kill "$other"
wait "$other"

# ---- who may do what ----

json "what is not seen cannot be cancelled" "$(ask bob job.cancel '{"job_id": "same"}')" 'd["code"] == -32001'
json "nor reported" "$(ask bob job.report '{"job_id": "roots"}')" 'd["code"] == -32001'
json "not by number either" "$(ask alice job.report '{"job_id": "same", "attempt": 1}')" 'd["code"] == -32001'
json "nor waited for" "$(ask bob job.wait '{"job_id": "roots"}')" 'd["code"] == -32001'
json "to read is not to cancel" "$(ask carol job.cancel '{"job_id": "roots"}')" 'd["code"] == -32000'
json "but to report" "$(ask carol job.report '{"job_id": "roots"}')" 'd["job_id"] == "roots"'
json "to stop is the owner's" "$(ask carol daemon.stop)" 'd["code"] == -32000'
run as alice "$PROCTOR" cancel same
is "a user cancels their own job" "$status" 0
run as alice "$PROCTOR" wait same
is "and waits for that" "$stdout" "same cancelled"
is "root's of the same name goes on" "$(becomes "[]" json_eval_of alice '[j["job_id"] for j in d]')$(json_eval_of root \
	'sorted(j["uid"] for j in d if j["job_id"] == "same")')" "[][0]"
json "the daemon has recorded its end" "$(ask alice job.report '{"job_id": "same"}')" \
	'd["outcome"] == "cancelled" and d["peak_rss_mb"] > 0 and len(d["series"]) > 0'
json "of root's it has another" "$(ask root job.report '{"job_id": "same"}')" 'd["outcome"] is None'
json "so has its own runner" "$(as alice "$PROCTOR" report same --format json)" 'd["outcome"] == "cancelled"'
"$PROCTOR" cancel same >/dev/null
"$PROCTOR" cancel roots >/dev/null

# ---- how a guest goes on, and ends ----

printf 'sheets:\n  - run: sleep 0.8\n    name: first\n  - run: sleep 0.8; exit 3\n' >"$TMP/two.yaml"
run as alice "$PROCTOR" run -q --job two -f "$TMP/two.yaml"
report=$(ask root job.report '{"job_id": "two"}')
json "its end is that of its runner" "$report" 'd["outcome"] == "failure" and d["exit_code"] == 3'
json "with its sheets" "$report" \
	'[(s["outcome"], s["name"]) for s in d["sheet_metrics"].values()] == [("success", "first"), ("failure", None)]'
json "and what it used, as exact" "$report" \
	'd["evidence"]["total_cpu_seconds"] == "exact" and d["process_spawn_count"] >= 2'
json "its events were told" "$(ask alice daemon.events '{"job_id": "two"}')" \
	'[e["event"] for e in d if not e["event"].startswith("process.")] == ["job.started", "sheet.started", "sheet.completed", "sheet.started", "sheet.failed", "job.failed"]'
json "to nobody else" "$(ask bob daemon.events)" 'd == []'
json "but to who reads all" "$(ask carol daemon.events '{"limit": 4096}')" '{e["job_id"] for e in d} >= {"same", "two", "roots"}'
json "the newest of them, oldest first" "$(ask root daemon.events '{"limit": 2, "job_id": "two"}')" \
	'len(d) == 2 and d[1]["event"] in ("job.failed", "process.exit")'

as alice "$PROCTOR" run -q --job killed -- sleep 123 &
is "a guest runs" "$(becomes "killed:4001" listed root)" "killed:4001"
runner=$(pgrep -u 4001 -f 'run -q --job killed')
orphan=$(pgrep -P "$runner")
kill -9 "$runner"
is "its runner is killed" "$(becomes "" listed root)" ""
json "and that is all that is known" "$(ask root job.report '{"job_id": "killed"}')" 'd["outcome"] is None and d["lost"]'
kill "$orphan"

as alice "$PROCTOR" run -q --job outlives -- sh -c "$(gate outlives); exit 5" &
is "a guest runs" "$(becomes "outlives:4001" listed root)" "outlives:4001"
kill -9 "$(daemon_pid)"
"$PROCTOR" start
is "the daemon was killed and knows it again" "$(becomes "outlives:4001" listed alice)" "outlives:4001"
pass outlives
json "its end is told when it comes" "$(ask alice job.wait '{"job_id": "outlives"}')" \
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
		json_eval "$(ask root job.report "{\"job_id\": \"ten-$n\"}")" '"%s %s %s" % (d.get("outcome"), d.get("exit_code"), d.get("signal"))'
	done
}
expected=$(for n in 1 2 3 4 5 6; do echo "failure 2$n None"; done
	echo "failure None 9"
	for n in 8 9 10; do echo "failure 2$n None"; done)
is "the next daemon knows how each of them ended" "$(becomes "$expected" told)" "$expected"
json "each ran once" "$(as alice "$PROCTOR" jobs --json)" \
	'sorted(j["attempt"] for j in d if j["job_id"].startswith("ten-")) == [1] * 10'
json "the daemon has each once, too" "$("$PROCTOR" sql --json "select count(*) as n from attempts a join jobs j on j.id = a.job where j.job_id like 'ten-%'")" \
	'd[0]["n"] == 10'
json "their ends were told, and none as lost" "$(ask alice daemon.events '{"limit": 4096}')" \
	'sorted(e["job_id"] for e in d if e["event"] == "job.failed" and not e["lost"] and e["job_id"].startswith("ten-")) == sorted("ten-%d" % n for n in range(1, 11))'
messengers() { # those of this test: others may run the same one
	local pid
	for pid in $(pgrep -u 4001 -x proctor-late); do
		[ "$(readlink "/proc/$pid/exe")" != "$PROCTOR" ] || echo "$pid"
	done
}
is "who carried the word is gone" "$(becomes "" messengers)" ""
json "nobody else tells an end" "$(ask bob runner.ended '{"pid": 1, "start_ticks": 1, "job": {"job_id": "ten-1", "outcome": "success"}}')" \
	'd["code"] == -32001'

# A runner that was not answered in time tells its end elsewhere, and its first words are read after that.
cat >"$TMP/late.py" <<'END'
import json, os, socket
def ask(method, params):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/proctor/proctor.sock")
    s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
    return s, json.loads(s.makefile().readline())
job = {"job_id": "twice", "command": "x"}
hello = {"job_id": "twice", "attempt": 1, "interval_seconds": 1, "job": job}
start = int(open("/proc/self/stat").read().rpartition(")")[2].split()[19])
line, answer = ask("runner.hello", hello)
print(answer["result"]["guest"], end=" ")
line.close()
print(ask("runner.ended", {"pid": os.getpid(), "start_ticks": start, "job": dict(job, outcome="success", exit_code=0)})[1].get("error"), end=" ")
print(ask("runner.hello", hello)[1]["error"]["code"])
END
is "a job that is over does not begin again" "$(as alice python3 "$TMP/late.py")" "True None -32006"
json "it is one attempt" "$("$PROCTOR" sql --json "select count(*) as n from attempts a join jobs j on j.id = a.job where j.job_id = 'twice'")" \
	'd[0]["n"] == 1'

# ---- hostile ones ----

cat >"$TMP/hostile.py" <<'END'
import json, socket, sys
def ask(s, method, params):
    s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
    return json.loads(s.makefile().readline())
def hello(job, **more):
    s = socket.socket(socket.AF_UNIX)
    s.connect("/run/proctor/proctor.sock")
    params = {"job_id": "evil", "attempt": 1, "interval_seconds": 1, "job": job}
    params.update(more)
    return s, ask(s, "runner.hello", params)
good = {"job_id": "evil", "command": "x"}
bad = [{}, {"job_id": "../a b"}, {"job_id": "-x"}, {"job_id": "x" * 200}, {"job_id": 7},
       dict(good, total_sheets=-1), dict(good, total_sheets=1 << 40), dict(good, started_wall_ns="now"),
       dict(good, sheets=7), dict(good, sheets=[{"num": 1}]), dict(good, sheets=[{}] * 2000),
       dict(good, sheets=[{"num": 1, "try_num": 1, "outcome": "perfect"}]), dict(good, argv_hash="xyz"),
       dict(good, interval_seconds=1e300), dict(good, outcome="won")]
print(sorted({hello(job)[1]["error"]["code"] for job in bad}))
s, answer = hello(dict(good, command="\x1b[31m" + "\u20ac" * 5000, uid=0, pid=1, runner={"pid": 1},
                       host="elsewhere", started_wall_ns=(1 << 63) - 1, name="\x00" and "n"))
print(answer["result"]["guest"])
print(ask(s, "runner.hello", {"job_id": "evil", "attempt": 1, "interval_seconds": 1, "job": good})["error"]["code"])
print(ask(s, "runner.changed", {"job": dict(good, job_id="other")})["error"]["code"])
job = [j for j in ask(s, "job.list", {}) ["result"] if j["job_id"] == "evil"][0]
print(job["uid"], job["started"] < 2e9)
s2, answer = hello(dict(good, job_id="second")) # the same process is the same runner
print(answer["error"]["code"])
print(ask(s, "runner.changed", {"job": dict(good, outcome="success", ended_wall_ns=1)})["result"])
print(ask(s, "runner.changed", {"job": good})["error"]["code"])
END
is "what a runner says is not believed further than its job" "$(as alice python3 "$TMP/hostile.py" 2>&1)" \
	"[-32602]
True
-32006
-32602
4001 True
-32006
None
-32602"
json "its record is hers" "$(ask alice job.report '{"job_id": "evil"}')" 'd["outcome"] == "success" and "\x1b" not in d["command"] and len(d["command"].encode()) <= 500'

# ---- a job of which nobody knows whose it is ----

"$PROCTOR" run -q --job ownerless -- sh -c "$(gate ownerless)" &
ownerless=$!
becomes True json_eval_of root 'any(j["job_id"] == "ownerless" for j in d)' >/dev/null
python3 -c '
import sqlite3
db = sqlite3.connect("/var/lib/proctor/proctor.db", timeout=60)
db.execute("update attempts set uid = NULL where job = (select id from jobs where job_id = ?)", ("ownerless",))
db.commit()'
pass ownerless
wait $ownerless
ends() { # USER: that this user is told of
	json_eval "$(ask "$1" daemon.events '{"job_id": "ownerless", "limit": 4096}')" \
		'any(e["event"] == "job.completed" for e in d)'
}
is "root is told of its end" "$(becomes True ends root)" True
is "and others are told nothing of it" "$(ask bob daemon.events '{"job_id": "ownerless"}')" "[]"

json "who runs no job has no change to tell" "$(ask bob runner.changed)" 'd["code"] == -32602'

# A connection has the pid of who made it: by now that may be the runner of another user's job.
cat >"$TMP/heir.py" <<'END'
import json, os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
os.seteuid(4001)
s.connect("/run/proctor/proctor.sock") # as alice, by this pid, which becomes root's runner
os.seteuid(0)
if os.fork() > 0:
    os.execv(sys.argv[1], ["proctor", "run", "-q", "--job", "inherited", "--", "sleep", "6"])
os.setresgid(4001, 4001, 4001)
os.setresuid(4001, 4001, 4001)
lines = s.makefile()
def ask(method, params):
    s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
    return json.loads(lines.readline())
time.sleep(3)
place = {"device": int(sys.argv[2]), "inode": int(sys.argv[3])}
hello = ask("runner.hello", dict(place, job_id="inherited", attempt=1, interval_seconds=300))
print(hello["result"]["records"], "error" in ask("runner.calls", {}), flush=True)
END
read -r device inode <<<"$(stat -c '%d %i' /var/lib/proctor/proctor.db)"
is "who has had a runner's pid is not that runner" "$(python3 "$TMP/heir.py" "$PROCTOR" "$device" "$inode" 2>&1)" "False True"

cat >"$TMP/many.py" <<'END'
import json, os, signal, socket
children, n_guests, error = [], 0, None
for i in range(260): # one process each
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        s = socket.socket(socket.AF_UNIX)
        s.connect("/run/proctor/proctor.sock")
        job = {"job_id": "many-%d" % i}
        s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "runner.hello", "params":
                              {"job_id": job["job_id"], "attempt": 1, "interval_seconds": 1, "job": job}}).encode() + b"\n")
        os.write(w, s.makefile().readline().encode())
        signal.pause() # until it is killed
        os._exit(0)
    children.append(pid)
    answer = json.loads(os.read(r, 65536))
    n_guests += "result" in answer
    error = answer.get("error", error)
print(n_guests, error["code"])
for pid in children:
    os.kill(pid, 9)
END
is "one user has so many guests" "$(as bob python3 "$TMP/many.py" 2>&1)" "256 -32002"
# A daemon that is too busy to answer in time is asked again after some seconds.
run_as_guest() {
	local seconds
	for seconds in 0.5 8; do
		as alice "$PROCTOR" run -q --job after -- sleep "$seconds"
		ask alice job.wait '{"job_id": "after"}' | grep -o success && return
	done
}
is "others are none the worse" "$(run_as_guest)" success

# ---- two databases, two numbers ----

as bob "$PROCTOR" run -q --job numbered -- sleep 300 &
is "another user's is the daemon's first" "$(becomes "numbered:4002" listed bob)" "numbered:4002"
as alice "$PROCTOR" run -q --job numbered -- sleep 300 &
is "hers its second" "$(becomes "[2]" json_eval_of alice '[j["attempt"] for j in d if j["job_id"] == "numbered"]')" "[2]"
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
json "it has run" "$(ask alice job.wait '{"job_id": "who"}')" 'd["outcome"] == "success"'
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
is "of root's files its runner has the job file alone" "$(grep "^runner's files" <<<"$said" | sed 's,/[0-9]*\.,/N.,')" \
	"runner's files /var/lib/proctor/queue/N.started"
is "it is in the user's own database" "$(json_eval "$(as alice "$PROCTOR" jobs --json)" '[j["outcome"] for j in d if j["job_id"] == "who"]')" "['success']"
json "and in the daemon's" "$(ask root job.report '{"job_id": "who"}')" 'd["outcome"] == "success" and d["command"].endswith("who.yaml")'
becomes "" ls /var/lib/proctor/queue >/dev/null
is "nothing is left in the queue" "$(ls /var/lib/proctor/queue)" ""

mkdir -m 700 "$TMP/closed"
: >"$TMP/long.yaml"
for folder in "closed:Permission denied" "closed/x:Permission denied" "alice/nowhere:No such file" "long.yaml:Not a directory"; do
	json "where the user cannot go the job does not go (${folder%:*})" \
		"$(ask alice job.submit "{\"file\": \"sheets: [{run: pwd}]\", \"workdir\": \"$TMP/${folder%:*}\", \"job_id\": \"sneak\"}")" \
		"d['code'] == -32602 and '${folder#*:}' in d['message']"
done
json "nor is told of what it cannot see" \
	"$(ask alice job.submit "{\"file\": \"sheets: [{run: pwd, workdir: $TMP/closed/x}]\", \"workdir\": \"/\", \"job_id\": \"oracle\"}")" 'd["job_id"] == "oracle" and d.keys() <= {"job_id", "warning"}'

printf 'sheets:\n  - run: sleep 300\n' >"$TMP/long.yaml"
for user in alice bob carol; do
	as "$user" "$PROCTOR" submit --job long "$TMP/long.yaml" >/dev/null
done
waiting() { json_eval "$(ask "$1" job.list)" 'sorted((j["job_id"], j["uid"]) for j in d if j["status"] == "queued")'; }
is "each has a job of that name, and one waits" "$(becomes "[('long', 4003)]" waiting root)" "[('long', 4003)]"
run as alice "$PROCTOR" submit --job long "$TMP/long.yaml"
is "nobody has two of one name" "$status" 1
is "who waits is seen by its owner" "$(waiting carol)" "[('long', 4003)]"
is "and by nobody else" "$(waiting bob)" "[]"
ask carol job.wait '{"job_id": "long"}' >"$TMP/waited" &
waiter=$!
sleep 0.3
run as carol "$PROCTOR" cancel long
is "its owner cancels it" "$status" 0
wait $waiter
json "who waits for it is told" "$(cat "$TMP/waited")" 'd["outcome"] == "cancelled"'
is "the others' are still there" "$(becomes "long:4001 long:4002" listed root)" "long:4001 long:4002"
run as bob "$PROCTOR" cancel long
is "a running one too" "$status" 0
json "and is over" "$(ask bob job.wait '{"job_id": "long"}')" 'd["outcome"] == "cancelled"'
is "that of another goes on" "$(becomes "long:4001" listed root)" "long:4001"
"$PROCTOR" cancel long >/dev/null
json "root may cancel it" "$(ask alice job.wait '{"job_id": "long"}')" 'd["outcome"] == "cancelled"'

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
run as alice "$PROCTOR" cancel mine --user bob
is "another user's is not there for her" "$status" 1
like "which is not to say that it is over" "$stderr" "no job mine of user 4002 is there to be ended$"
run as alice "$PROCTOR" cancel mine --user root
like "whether it is there or not" "$stderr" "no job mine of user 0 is there to be ended$"
run "$PROCTOR" cancel mine --user nobody-of-that-name
is "a user who is not there is bad input" "$status" 2
run "$PROCTOR" cancel mine --user bob
is "the one that is meant is cancelled" "$status$stderr" 0
json "it is over" "$(ask bob job.wait '{"job_id": "mine"}')" 'd["outcome"] == "cancelled"'
is "and no other" "$(becomes "mine:4001" listed root)" "mine:4001"
as bob "$PROCTOR" submit --job mine "$TMP/long.yaml" >/dev/null
is "once more" "$(becomes "mine:4001 mine:4002" listed root)" "mine:4001 mine:4002"
is "both run" "$(becomes "[4001, 4002]" running_mine)" "[4001, 4002]"
hers=$(json_eval "$(ask alice job.list)" 'd[0]["attempt"]')
run "$PROCTOR" cancel mine --attempt "$hers"
is "an attempt says which, too" "$status$stderr" 0
json "it is hers" "$(ask alice job.wait '{"job_id": "mine"}')" 'd["outcome"] == "cancelled"'
is "his goes on" "$(becomes "mine:4002" listed root)" "mine:4002"

# ---- a configuration of the user's that cannot be read ----

mkdir -p "$TMP/alice/.config/proctor"
echo 'bogus: 1' >"$TMP/alice/.config/proctor/proctor.yaml"
as alice "$PROCTOR" submit --job mine "$TMP/long.yaml" >/dev/null
is "their job is followed" "$(becomes "['running', 'running']" json_eval_of root '[j["status"] for j in d if j["job_id"] == "mine"]')" \
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
has_news=$(json_eval "$("$PROCTOR" status --json)" '"polling" not in d["rungs"]["births, deaths, exit codes"]')

# ---- what root's database alone has ----

mkfifo -m 644 "$TMP/go"
is_sampled() { [ "$(json_eval "$(as dave "$PROCTOR" history --job "$1" --json)" 'len(d) > 1')" = True ]; }
printf 'job_id: daves\nsheets:\n  - run: read -r _ <%s; sleep 3.4; sh -c "exit 3"; sleep 0.4\n' "$TMP/go" >"$TMP/daves.yaml"
chmod 644 "$TMP/daves.yaml"
run as dave "$PROCTOR" submit "$TMP/daves.yaml"
is "who has no database submits a job" "$status" 0
like "that what it prints will be lost is said at once" "$stderr" 'job daves: what it prints is lost: no folder .*Permission denied'
check "and in the log of the daemon" grep -q 'what job daves of user 4004 prints is lost' /var/lib/proctor/daemon.log
eventually is_sampled daves
echo >"$TMP/go"
as dave "$PROCTOR" wait daves >/dev/null
setpriv --reuid=dave --regid=dave --init-groups sh -c "read -r _ <$TMP/go; sleep 3.4; true" &
tree=$!
is_daves() { [ "$(stat -c %u "/proc/$tree")" = 4004 ]; }
eventually is_daves
run as dave "$PROCTOR" attach --pid "$tree" --job tree
is "and attaches a tree" "$status$stderr" 0
eventually is_sampled tree
echo >"$TMP/go"
wait "$tree"
as dave "$PROCTOR" wait tree >/dev/null
flat() { tr '\n' ' ' <<<"$stdout"; }
ends=success
end=job.completed
[ "$has_news" = True ] || ends='(success|-)' end='job.(completed|failed)' # who waited for it may not tell
for user in dave carol; do
	run as "$user" "$PROCTOR" jobs
	like "$user lists both" "$(flat)" " daves .* success .* tree .* $ends"
	run as "$user" "$PROCTOR" jobs --json
	json "$user's list is complete" "$stdout" \
		'[(j["job_id"], j["uid"]) for j in d if j["uid"] == 4004] == [("daves", 4004), ("tree", 4004)]'
	for job in daves tree; do
		run as "$user" "$PROCTOR" events --job "$job"
		like "$user sees what happened to $job" "$status $(flat)" "^0 TIME .*job.started .*spawn .*$end .* $job"
		run as "$user" "$PROCTOR" events --job "$job" --json
		like "as objects too ($user, $job)" "$stdout" '^{"event":"process.spawn",'
		[ "$has_news" != True ] ||
			like "with the end of each ($user, $job)" "$stdout" '^{"event":"process.exit",.*"exit_code":0'
		run as "$user" "$PROCTOR" history --job "$job"
		like "$user sees the samples of $job" "$status $(flat)" '^0 TIME .*sleep 3\.4'
		run as "$user" "$PROCTOR" history --job "$job" --json
		json "as objects, too" "$stdout" "len(d) > 1 and {p['job_id'] for p in d} == {'$job'}"
		run as "$user" "$PROCTOR" anomalies --job "$job" --json
		json "and what was out of the ordinary" "$status" 'd == 0'
		run as "$user" "$PROCTOR" report "$job"
		like "all sections of the report of $job are there" "$(flat)" 'Processes.*Life of the processes.*How it was measured'
	done
done
run as dave "$PROCTOR" report daves --format json
json "that what it printed is lost is said" "$stdout" \
	'[u["why"] for u in d["unknown"] if u["what"] == "output"][0].startswith("what the job prints is lost: ")'
if [ "$has_news" = True ]; then
	json "how each process ended is known" "$stdout" \
		'len(d["processes"]) == 4 and sorted(p["exit_code"] for p in d["processes"]) == [0, 0, 0, 3]'
	json "and when" "$stdout" 'all(p["born"] < p["died"] for p in d["processes"])'
else
	skip "how each process ended" "the kernel does not tell of births here"
fi
json "who measured is told" "$stdout" '"births, deaths, exit codes" in d["rungs"]'
run as bob "$PROCTOR" jobs --json
json "others do not see them" "$stdout" 'all(j["uid"] == 4002 for j in d)'
for verb in events history anomalies; do
	run as bob "$PROCTOR" "$verb" --job daves
	is "nor what became of them ($verb)" "$status" 1
done
for method in job.events job.samples job.anomalies; do
	json "nor by asking ($method)" "$(ask bob $method '{"job_id": "daves"}')" 'd["code"] == -32001'
done
json "nor the whole list" "$(ask bob job.attempts)" 'all(a["uid"] == 4002 for a in d["attempts"])'

# ---- a daemon that answers late ----

# The runner does not wait, but what it said is read: so it says how it ended, too.
state_of() { # JOB
	json_eval "$(ask root job.attempts "{\"job_id\": \"$1\"}")" '[a["outcome"] or (a["lost"] and "lost") or a["status"] for a in d["attempts"]][-1]'
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

# ---- whose ends one hears of ----

# Alice runs something as bob, and says before or after that that she begins.
cp "$(command -v setpriv)" "$TMP/become" && chmod 4755 "$TMP/become"
cat >"$TMP/around.py" <<'END'
import json, os, socket, subprocess, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect("/run/proctor/proctor.sock")
lines = s.makefile()
def ask(method):
    s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}).encode() + b"\n")
    return json.loads(lines.readline())["result"]
when, become, home, *command = sys.argv[1:]
if when == "before":
    follows = ask("runner.begins")["follows"]
bob = subprocess.Popen([become, "--reuid=4002", "--regid=4002", "--clear-groups", "env", "HOME=" + home, *command,
    "sh", "-c", "i=0; while [ $i -lt 40 ]; do (exit 3); sleep 0.005; i=$((i + 1)); done; sleep 0.3"], cwd="/")
if when == "after":
    time.sleep(0.1)
    follows = ask("runner.begins")["follows"]
subprocess.run(["sh", "-c", "exit 7"])
bob.wait()
told = ask("runner.deaths")["processes"] if follows else []
print(follows, sorted(set(p["exit_code"] for p in told)))
END
around() { # WHEN JOB
	as alice python3 "$TMP/around.py" "$1" "$TMP/become" "$TMP/bob" "$PROCTOR" run -q --job "$2" --
}
exact_ends() { # JOB of bob's: how many of its short processes have one, unless a busy machine had no time for them
	json_eval "$(as bob "$PROCTOR" report "$1" --format json)" \
		'(40 if any("did not wait for it" in u["why"] for u in d["unknown"]) else
		len([p for p in d["processes"] if p["exit_code"] == 3 and p["cpu_evidence"] == "exact"]))'
}
run around before inside
if [[ $stdout == True* ]]; then
	is "who begins hears of its own ends, and not of another user's" "$stdout" "True [7]"
	check "who has all of them" test "$(exact_ends inside)" -ge 36
	is "nor of those that were there before" "$(around after beside)" "True [7]"
	check "which are not taken from them" test "$(exact_ends beside)" -ge 36
else
	skip "ends of other users" "the daemon does not use eBPF here"
fi

# ---- what programs of root have done in a job of one's own ----

cp "$(readlink -f "$(command -v dd)")" "$TMP/sdd" && chmod 4755 "$TMP/sdd"
cp "$TMP/sdd" "$TMP/gdd" && chgrp readers "$TMP/gdd" && chmod 2755 "$TMP/gdd"
its='[p for p in d["processes"] if "sdd" in str(p["command"]) and not p["command"].startswith("sh ")]'
keeps_secrets() { # RUNG
	# shellcheck disable=SC2016 # the shell inside knows it
	run as alice "$PROCTOR" run -q --json -- sh -c 'sleep 0.6; "$0" if=/dev/zero of=/dev/null bs=16k count=4096 2>/dev/null
		dd if=/dev/zero of=/dev/null bs=16k count=4096 2>/dev/null; sleep 0.5; true' "$TMP/sdd"
	json "by $1: one that is set-user-ID is listed" "$stdout" "len($its) == 1"
	# Until it was that program it was hers, and a busy machine may have looked by then.
	json "and what it has read, written and called is not told" "$stdout" \
		"(all((p[k] or 0) < 16384 for p in $its for k in ('rchar', 'wchar')) and
		not any(c['name'] in ('read', 'write') for p in $its for c in p.get('syscalls') or []))"
	json "which is said, of ends that are" "$stdout" \
		'any("set-user-ID" in u["why"] for u in d["unknown"]) or any("did not wait" in u["why"] for u in d["unknown"])'
}
copiers='[p for p in d[%s] if "of=/dev/null" in str(p["command"]) and not p["command"].startswith("sh ")]'
told_of() { # LIST METHOD [PARAMS]: whose I/O alice is told, of those that have read and go on
	# shellcheck disable=SC2059 # it has the place
	json_eval "$(ask alice "$2" "${3:-{\}}")" \
		"sorted({p['command'].split()[0].split('/')[-1]: (p['rchar'] or 0) >= 65536
		for p in sorted($(printf "$copiers" "'$1'"), key=lambda p: p['rchar'] or 0)}.items())"
}
keeps_secrets_meanwhile() { # RUNG NUMBER
	local expected="[('dd', True), ('gdd', False), ('sdd', False)]"
	rm -f "$TMP/alice/go"
	# shellcheck disable=SC2016 # the shell inside knows it
	as alice "$PROCTOR" run -q --job "secret-$2" -- sh -c 'for dd in "$@"; do
		{ head -c 131072 /dev/zero; while [ ! -e go ]; do sleep 0.1; done; } | "$dd" of=/dev/null bs=64k 2>/dev/null &
		done; wait' sh dd "$TMP/sdd" "$TMP/gdd" &
	local run=$!
	is "by $1: what programs with more rights read is not told while they do" \
		"$(becomes "$expected" told_of processes daemon.top)" "$expected"
	# shellcheck disable=SC2059
	json "nor what they call" "$(ask alice daemon.top)" \
		"all(p['syscall_counts'] is None for p in $(printf "$copiers" "'processes'") if not p['command'].startswith('dd '))"
	is "nor what they have read" "$(becomes "$expected" told_of samples job.samples "{\"job_id\": \"secret-$2\"}")" "$expected"
	touch "$TMP/alice/go"
	wait $run
}
# Of a tree that was attached, too: what each used is withheld, and not as if it had not been there.
counts_withheld() {
	local tree
	setpriv --reuid=alice --regid=alice --init-groups sh -c \
		"read -r _ <$TMP/go; $TMP/sdd if=/dev/zero count=9 of=/dev/null; $TMP/sdd if=/dev/zero count=9 of=/dev/null; true" \
		2>/dev/null &
	tree=$!
	is_alices() { [ "$(stat -c %u "/proc/$tree")" = 4001 ]; }
	eventually is_alices
	as alice "$PROCTOR" attach --pid "$tree" --job secrets
	echo >"$TMP/go"
	wait "$tree"
	as alice "$PROCTOR" wait secrets >/dev/null
	run as alice "$PROCTOR" report secrets --format json
	json "of an attached tree it is said how many ends are withheld" "$stdout" \
		'[u["why"].split()[0] for u in d["unknown"] if u["what"] == "processes" and "set-user-ID" in u["why"]] == ["2"]'
	json "and that its CPU time lacks them" "$stdout" 'any(u["what"] == "total_cpu_seconds" for u in d["unknown"])'
}
if [ "$has_news" = True ]; then
	counts_withheld
	keeps_secrets "$(json_eval "$("$PROCTOR" status --json)" 'd["rungs"]["births, deaths, exit codes"]')"
	keeps_secrets_meanwhile "$(json_eval "$("$PROCTOR" status --json)" 'd["rungs"]["process samples"]')" 1
	"$PROCTOR" stop
	echo 'ebpf_enabled: false' >>/etc/proctor/proctor.yaml
	"$PROCTOR" start
	keeps_secrets "the rung below"
	# The daemon has heard of the shell before it looks the next time: it started all the others.
	if [[ $(json_eval "$("$PROCTOR" status --json)" 'd["rungs"]["births, deaths, exit codes"]') == *taskstats ]]; then
		json "what is hers is, as far as that goes" "$stdout" \
			'([p["cpu_evidence"] for p in d["processes"] if str(p["command"]).startswith("dd ")] == ["at least"] or
			any("did not wait" in u["why"] for u in d["unknown"]))'
		json "and why it is not exact" "$stdout" \
			'(any("without eBPF" in u["why"] or "did not wait" in u["why"] for u in d["unknown"]) and
			not any("had not done with" in u["why"] for u in d["unknown"]))'
	fi
	keeps_secrets_meanwhile "proc/PID" 2
else
	skip "what programs of root have done" "the kernel does not tell of births here"
fi

# ---- what is found out about a program of root's in which something began ----

mkdir -m 700 "$TMP/vault"
touch "$TMP/vault/names"
cp "$(readlink -f "$(command -v bash)")" "$TMP/sbash" && chmod 4755 "$TMP/sbash"
# shellcheck disable=SC2016 # the shell inside knows them
hoard='for i in {3..41}; do eval "exec $i<\"$1\""; done; exec sleep 30'
began() { # JOB: what began in it, of the open files of a process
	json_eval "$(ask alice job.anomalies '{"job_id": "'"$1"'"}')" \
		'len([a for a in d["anomalies"] if a["anomaly_type"] == "fd_exhaustion"])'
}
hoards() { # JOB SHELL FILE: what alice is told when it is over
	# shellcheck disable=SC2016
	as alice sh -c 'ulimit -n 44; exec "$@"' - "$PROCTOR" run -q --job "$1" -- "$2" -p -c "$hoard" - "$3" &
	becomes 1 began "$1" >/dev/null
	as alice "$PROCTOR" cancel "$1" >/dev/null 2>&1
	wait $!
	ask alice job.anomalies '{"job_id": "'"$1"'"}'
}
touch "$TMP/alice/names"
told=$(hoards mine-open "$(command -v bash)" "$TMP/alice/names")
like "which files a program of hers has open alice is told" "$told" "alice/names"
told=$(hoards roots-open "$TMP/sbash" "$TMP/vault/names")
like "that one of root's in her job has too many, too" "$told" fd_exhaustion
unlike "but not which" "$told" vault

# ---- a daemon of an ordinary user ----

as bob "$PROCTOR" start --foreground 2>/dev/null &
bobs=$TMP/bob/.local/state/proctor
becomes 600 stat -c %a "$bobs/proctor.sock" >/dev/null
is "its socket is closed" "$(stat -c %a "$bobs" "$bobs/proctor.sock" | xargs)" "700 600"
chmod 755 "$TMP/bob/.local" "$TMP/bob/.local/state" "$bobs"
chmod 666 "$bobs/proctor.sock"
sed -i "s,/run/proctor/proctor.sock,$bobs/proctor.sock," "$TMP/ask.py"
json "it runs nobody else's jobs" "$(ask alice job.submit '{"file": "sheets: [{run: id}]", "workdir": "/"}')" \
	'd["code"] == -32000 and "not root" in d["message"]'
as bob "$PROCTOR" stop

finish
