#!/bin/bash
# One user who takes all there is to take of root's daemon: there is a bound, it is told, and other users
# go on as before. In a mount namespace of its own.
if [ -z "${IN_OWN_NAMESPACE:-}" ] && [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	IN_OWN_NAMESPACE=1 exec unshare -m "$0" "$@"
fi
. "$(dirname "$0")/lib.sh"

if [ -z "${IN_OWN_NAMESPACE:-}" ]; then
	skip "what one user may take" "needs root, and a machine that makes mount namespaces"
	finish
fi
unset PROCTOR_HOME
chmod 755 "$TMP"
mkdir "$TMP/var" "$TMP/etc"
cp -a /etc/. "$TMP/etc"
rm -rf "$TMP/etc/proctor"
mkdir "$TMP/etc/proctor"
mount --bind "$TMP/etc" /etc && mount -t tmpfs none /run && mount --bind "$TMP/var" /var/lib || exit 99
printf '%s\n' "one:x:4001:4001::$TMP/one:/bin/sh" "two:x:4002:4002::$TMP/two:/bin/sh" >>/etc/passwd
mkdir "$TMP/one" "$TMP/two"
chown 4001 "$TMP/one"
chown 4002 "$TMP/two"
printf 'interval_seconds: 0.5\nlimits:\n  max_concurrent_jobs: 1\n  max_daemon_cpu_percent: 100\n' >/etc/proctor/proctor.yaml
trap '"$PROCTOR" stop --jobs 2>/dev/null; rm -rf "$TMP"' EXIT

as() { # UID COMMAND [ARG...]
	local uid=$1
	shift
	setpriv --reuid="$uid" --regid="$uid" --clear-groups env PYTHONPATH="$SOURCE_ROOT/tests/integration" "$@"
}
status() { # EXPRESSION: of "status --json", as d
	json_eval "$("$PROCTOR" status --json)" "$1"
}

run "$PROCTOR" start
is "the daemon of the host starts" "$status$stderr" 0

# ---- a runner that is gone, of which word may still come ----

as 4001 env HOME="$TMP/one" "$PROCTOR" run -q --job gone -- sleep 60 &
gone=$!
becomes 1 status 'd["running_jobs"]' >/dev/null
left=$(pgrep -P $gone)
kill -9 $gone
wait $gone 2>/dev/null
run as 4001 env HOME="$TMP/one" "$PROCTOR" cancel gone
is "what is over is not called somebody else's" "$(grep 'not yours' <<<"$stderr")" ""
kill "$left"
becomes 0 status 'd["running_jobs"]' >/dev/null

# ---- subscriptions ----

cat >"$TMP/subscribe.py" <<'END'
from shares import Client
clients = [Client() for _ in range(70)]
answers = [c.ask("events.subscribe", {"topics": ["*"]}) for c in clients]
print(sum("result" in a for a in answers), {a["error"]["code"] for a in answers if "error" in a})
print({"result" in c.ask("events.subscribe", {"topics": ["job.*"]}) for c in clients[:60] for _ in range(20)})
clients[0].close() # which makes room for another
print("result" in Client.until(lambda c: c.ask("daemon.top.stream"), lambda a: "result" in a))
input()
END
coproc as 4001 python3 "$TMP/subscribe.py"
greedy=$COPROC_PID
is "of one user so many connections subscribe, each as often as it likes" \
	"$(for _ in 1 2 3; do read -r line <&"${COPROC[0]}" && echo "$line"; done)" "64 {-32002}
{True}
True"
is "another user subscribes all the same" "$(as 4002 python3 -c '
from shares import Client
print(Client().ask("events.subscribe", {"topics": ["*"]})["result"])')" None
is "and root" "$(python3 -c '
import sys; sys.path.insert(0, sys.argv[1])
from shares import Client
print(Client().ask("events.subscribe", {"topics": ["*"]})["result"])' "$SOURCE_ROOT/tests/integration")" None
echo >&"${COPROC[1]}"
wait "$greedy"
cat >"$TMP/twice.py" <<'END'
from shares import Client
c = Client()
for topics in (["snapshot"], ["*"], ["snapshot", "job.*"]):
    c.ask("events.subscribe", {"topics": topics})
stamps = [c.read()["params"]["timestamp"] for _ in range(3)]
print(len(set(stamps)))
END
is "who subscribes thrice gets each event once" "$(as 4001 python3 "$TMP/twice.py")" 3

# ---- sheets ----

cat >"$TMP/sheets.py" <<'END'
from shares import Client
def hello(n):
    c = Client()
    sheets = [{"num": i, "try_num": 1, "command": "x" * 400} for i in range(n)]
    answer = c.ask("runner.hello", {"job_id": "many", "attempt": 1, "interval_seconds": 1,
                                    "job": {"job_id": "many", "total_sheets": 1, "sheets": sheets}})
    assert answer["result"]["guest"], answer
    return c
def tell(c, **more):
    answer = c.ask("runner.changed", {"job": dict({"job_id": "many"}, **more)})
    assert "result" in answer, answer
c = hello(100)
for k in range(8):
    tell(c, sheets=[{"num": k * 1024 + i, "try_num": 1, "command": "x" * 400} for i in range(1024)])
c.close()
c = hello(1024) # again, with what is known
for k in range(3):
    tell(c, sheets=[{"num": 1 + i, "try_num": 3 + k, "command": "x"} for i in range(1024)])
tell(c, sheets=[{"num": 7, "try_num": 1, "outcome": "failure", "ended_wall_ns": 1 << 60, "exit_code": 9}])
tell(c, outcome="failure", exit_code=9)
report = c.ask("job.report", {"job_id": "many"})["result"]
print(len(report["sheet_metrics"]), report["outcome"], report["exit_code"], report["sheet_metrics"]["7"]["outcome"])
END
is "of a guest's job so many sheets are kept, and always its end" "$(as 4002 python3 "$TMP/sheets.py")" "4096 failure 9 failure"
is "no more than those are there" "$(python3 - <<'END'
import sqlite3
db = sqlite3.connect("file:/var/lib/proctor/proctor.db?mode=ro", uri=True)
print(db.execute("SELECT count(*) FROM sheets JOIN attempts ON attempts.id = sheets.attempt JOIN jobs ON jobs.id = attempts.job WHERE jobs.job_id = 'many'").fetchone()[0])
END
)" 4096

# ---- attached trees ----

cat >"$TMP/attach.py" <<'END'
import subprocess, time
from shares import Client
c = Client()
def top():
    return c.ask("daemon.top")["result"]["timestamp"]
def ticks():
    return c.ask("daemon.status")["result"]["ticks"]
before, stamps = ticks(), set()
codes = set()
for i in range(40): # init is not hers: that needs no look at all processes
    codes.add(c.ask("job.attach", {"pid": 1, "job_id": "none"})["error"]["code"])
    stamps.add(top())
print(codes, len(stamps) <= ticks() - before + 1)
naps = [subprocess.Popen(["sleep", "300"]) for _ in range(70)]
def attach(i, pid): # a database that is busy is busy for a moment
    for _ in range(100):
        answer = c.ask("job.attach", {"pid": pid, "job_id": "nap-%d" % i})
        if "result" in answer or "64" in answer["error"]["message"]:
            break
        time.sleep(0.1)
    return answer
answers = [attach(i, nap.pid) for i, nap in enumerate(naps)]
for nap in naps:
    nap.kill()
    nap.wait()
print(sum("result" in a for a in answers), {a["error"]["code"] for a in answers if "error" in a})
END
is "who may not attach causes no look, and who may has a bound" "$(as 4003 python3 "$TMP/attach.py")" "{-32602} True
64 {-32002}"

# The same where they wait for the database.
cat >"$TMP/hold.py" <<'END'
import os, sqlite3, sys, time
db = sqlite3.connect("/var/lib/proctor/proctor.db", isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
for _ in range(600):
    if os.path.exists(sys.argv[1]):
        break
    time.sleep(0.05)
db.execute("ROLLBACK")
END
cat >"$TMP/wishes.py" <<'END'
import subprocess, sys
from shares import Client
naps = [subprocess.Popen(["sleep", "300"]) for _ in range(70)]
clients = [Client() for _ in naps]
for i, (c, nap) in enumerate(zip(clients, naps)):
    c.send("job.attach", {"pid": nap.pid, "job_id": "wish-%d" % i})
refused = clients[69].read() # while the others wait
open(sys.argv[1], "w").close()
answers = [c.read() for c in clients[:69]]
for nap in naps:
    nap.kill()
    nap.wait()
print(0 < sum("result" in a for a in answers) <= 64, "64 trees" in refused.get("error", {}).get("message", ""))
END
mkdir "$TMP/four"
chown 4004 "$TMP/four"
exec {held}< <(python3 "$TMP/hold.py" "$TMP/four/free")
read -r -u "$held" _
is "who waits to attach is counted, too" "$(as 4004 python3 "$TMP/wishes.py" "$TMP/four/free")" "True True"
exec {held}<&-

# ---- two jobs of one name ----

cat >"$TMP/greedy.py" <<'END'
import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = [open("/dev/null") for _ in range(55)]
time.sleep(60)
END
as 4001 env HOME="$TMP/one" "$PROCTOR" run -q --job same -- sleep 60 &
first=$!
becomes 1 status 'd["running_jobs"]' >/dev/null
as 4002 env HOME="$TMP/two" "$PROCTOR" run -q --job same -- python3 "$TMP/greedy.py" &
second=$!
cat >"$TMP/anomalies.py" <<'END'
import sys
from shares import Client
def found(c):
    return [e["job_id"] for e in c.ask("daemon.events", {"limit": 4096})["result"] if e["event"] == "monitor.anomaly"]
print(Client.until(found, bool) if len(sys.argv) > 1 else found(Client()))
END
is "an anomaly in one of two jobs of one name is its owner's" \
	"$(as 4002 python3 "$TMP/anomalies.py" wait)$(as 4001 python3 "$TMP/anomalies.py")" "['same'][]"
for user in one two; do
	"$PROCTOR" cancel same --user $user
done
wait "$first" "$second"

# ---- the queue ----

# None is over before all wait.
cat >"$TMP/queue.py" <<'END'
import json, sys
from shares import Client
c = Client()
for job_id in sys.argv[2:]:
    answer = c.ask("job.submit", {"file": json.dumps({"sheets": [{"run": sys.argv[1]}]}), "workdir": "/", "job_id": job_id})
    assert "result" in answer, answer
END
as 4001 python3 "$TMP/queue.py" "$(gate turns)" a1 a2 a3 a4
as 4002 python3 "$TMP/queue.py" "$(gate turns)" b1
pass turns
for job in a1 a2 a3 a4 b1; do
	"$PROCTOR" wait "$job" >/dev/null
done
cat >"$TMP/order.py" <<'END'
from shares import Client
events = Client().ask("daemon.events", {"limit": 4096})["result"]
started = [e["job_id"] for e in events if e["event"] == "job.started" and e["job_id"] in ("a1", "a2", "a3", "a4", "b1")]
print(*dict.fromkeys(started))
END
is "users take turns in the queue, and each has the first first" \
	"$(PYTHONPATH=$SOURCE_ROOT/tests/integration python3 "$TMP/order.py")" "a1 b1 a2 a3 a4"

# ---- a folder that does not answer ----

cat >"$TMP/hang.py" <<'END'
# A file system whose server never answers, until its stdin ends.
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open("/dev/fuse", os.O_RDWR)
options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fd
if libc.mount(b"none", sys.argv[1].encode(), b"fuse", 0, options.encode()) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print("mounted", flush=True)
sys.stdin.read()
END
cat >"$TMP/submit.py" <<'END'
import sys, time
from shares import Client
c = Client()
def skipped():
    return c.ask("daemon.status")["result"]["ticks_skipped"]
before = skipped()
answer = c.ask("job.submit", {"file": "sheets: [{run: 'true'}]", "workdir": sys.argv[1], "job_id": "far"})
time.sleep(2.5)
print(answer.get("result"), skipped() - before <= 1)
END
mkdir "$TMP/far"
coproc python3 "$TMP/hang.py" "$TMP/far"
server=$COPROC_PID
if read -r line <&"${COPROC[0]}" && [ "$line" = mounted ]; then
	is "a job in a folder that does not answer holds up nothing" \
		"$(PYTHONPATH=$SOURCE_ROOT/tests/integration python3 "$TMP/submit.py" "$TMP/far")" "{'job_id': 'far'} True"
	kill "$server" # whose file system fails from now on
	run "$PROCTOR" wait far
	is "and fails when that does" "$stdout" "far failure"
	like "with the reason" "$("$PROCTOR" report far)" "cannot go to its folder: "
	umount -l "$TMP/far"
else
	skip "a job in a folder that does not answer holds up nothing" "no file system of one's own can be mounted here"
fi
wait "$server" 2>/dev/null

# ---- dear questions ----

cat >"$TMP/dear.py" <<'END'
import time
from shares import Client
status = Client()
def ticks():
    d = status.ask("daemon.status")["result"]
    return d["ticks_skipped"]
before = ticks()
file = "sheets:\n" + "".join("  - run: [echo, '%s']\n" % ("x" * 100) for _ in range(8000))
batch = [{"jsonrpc": "2.0", "id": i, "method": m, "params": {"file": file}}
         for i, m in enumerate(["estimate", "admit"] * 7)]
clients = [Client() for _ in range(3)]
for c in clients:
    c.write(batch)
quick = Client()
n_quick = 0
answers = []
for c in clients:
    answers += c.read()
    n_quick += "result" in quick.ask("daemon.status")
print(len(answers), {"result" in a for a in answers}, n_quick, ticks() - before <= 1)
END
is "who asks for dear things is answered, and no tick is late" "$(as 4001 timeout 100 python3 "$TMP/dear.py")" \
	"42 {True} 3 True"

"$PROCTOR" stop
finish
