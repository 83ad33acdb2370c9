#!/bin/bash
# One user who takes all there is to take of root's daemon: there is a bound, it is told, and other users
# go on as before.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/users.sh"

printf 'interval_seconds: 0.5\nlimits:\n  max_concurrent_jobs: 1\n  max_daemon_cpu_percent: 100\n' >/etc/proctor/proctor.yaml
check "the daemon of the host starts" start_daemon

python_as() { # USER [ARG...]: Python, which finds Client
	local user=$1
	shift
	as "$user" env PYTHONPATH="$TMP" python3 "$@"
}

# ---- a runner that is gone, whose end may still come ----

as alice "$PROCTOR" run -q --job gone -- sleep 60 &
becomes "gone:4001" listed alice >/dev/null
gone=$(pgrep -u 4001 -f 'run -q --job gone')
left=$(pgrep -P "$gone")
kill -9 "$gone"
wait $! 2>/dev/null
run as alice "$PROCTOR" cancel gone
is "what is over is not called somebody else's" "$(grep 'not yours' <<<"$stderr")" ""
kill "$left"
becomes "" listed alice >/dev/null

# ---- guests that lie ----

# The frames of a log of hers, for whoever sends them: she may as well give them away.
as alice "$PROCTOR" run -q --job honest -- sh -c "$(gate honest)" &
honest=$!
becomes "honest:4001" listed alice >/dev/null
logs=("$TMP"/alice/.local/state/proctor/proctor.db-logs/*.0) # that of the job above may still be there
for log in "${logs[@]}"; do
	grep -q honest "$log" && cp "$log" "$TMP/hers"
done
chmod 644 "$TMP/hers"
cat >"$TMP/guest.py" <<'END'
import base64, os, struct, sys, zlib
from rpc_client import Client

log = open(sys.argv[1], "rb").read()
own_id = log[24:40].hex()

def frame(seq, type, flags, body):
    head = struct.pack("<IIQBBxx", 0x9e4c50f1, len(body), seq, type, flags)
    return head + struct.pack("<I", zlib.crc32(body, zlib.crc32(head))) + body

def frames_of(log):
    at = 128 + struct.unpack("<I", log[8:12])[0]
    while log[at:at + 4] == b"\xf1\x50\x4c\x9e":
        n = 24 + struct.unpack("<I", log[at + 4:at + 8])[0]
        yield log[at:at + n]
        at += n

begin = next(frames_of(log)) # RECORD_BEGIN

def hello(c, frames=begin, id=None, offset=0, text=None):
    return c.ask("runner.hello", {"job_id": "honest", "end_bytes": 4096,
        "log": id or os.urandom(16).hex(), "offset": offset, "frames": text or base64.b64encode(frames).decode()})

def send(c, offset, frames, **more):
    params = {"offset": offset, **more}
    if frames:
        params["frames"] = base64.b64encode(frames).decode()
    return c.ask("runner.frames", params)

def code(answer):
    return answer["error"]["code"] if "error" in answer else "taken"

def damage(bytes, at):
    return bytes[:at] + b"\xff" + bytes[at + 1:]
END
cat >"$TMP/lies.py" <<'END'
from guest import *
print("no base64", code(hello(Client(), text="no*base64")), code(hello(Client(), text="abc")))
print("no id", code(hello(Client(), id="xyz")), code(hello(Client(), id="../../../../etc/passwd")))
print("checksums", code(hello(Client(), damage(begin, 30))), code(hello(Client(), begin + damage(begin, 60))))
print("half a frame", code(hello(Client(), begin[:-1])))
print("far away", code(hello(Client(), offset=2**60)))
print("another's log", code(hello(Client(), id=own_id)))
print("no line", code(send(Client(), 0, begin)))
c = Client()
print("no key", hello(c, frame(1, 7, 0, b"x"))["result"]["guest"])
print("an end without a beginning", code(send(c, 25, b"", end="AAAA")))
c = Client()
print("a gap", hello(c)["result"]["from"] == len(begin), code(send(c, 10**6, frame(5, 7, 0, b"x"))))
print("another number", code(send(c, len(begin), frame(0, 9, 0, b"x"))))
print("records that make no sense", code(send(c, len(begin), b"".join(frame(9 + i, i, 0, b"\xff" * 99) for i in range(20)))))
print("many gaps", [code(send(c, 10**6 * (i + 1), frame(50 + i, begin[16], begin[17], begin[24:]))) for i in range(9)][-2:])
print("a key of no beginning", code(send(c, 10**8, frame(99, 7, begin[17], b"x"))), len(os.listdir(sys.argv[2])) < 20)
print("twice the line", code(hello(c)))
print("the end", code(send(c, 0, b"", end="AAAA")), code(send(c, 0, b"", end="AAAA")))
print("and more", code(send(c, 10**6, begin)))
END
is "what makes no sense is refused, and what does is taken" "$(python_as bob "$TMP/lies.py" "$TMP/hers" "$TMP" 2>&1)" "no base64 -32602 -32602
no id -32602 -32602
checksums -32602 -32602
half a frame -32602
far away -32602
another's log -32006
no line -32602
no key True
an end without a beginning -32602
a gap True taken
another number -32602
records that make no sense taken
many gaps ['taken', -32602]
a key of no beginning taken True
twice the line -32006
the end taken taken
and more -32602"
json "it is his, whatever it said" "$(ask_as root job.attempts '{"job_id": "honest"}')" \
	'sorted(a["uid"] for a in d["attempts"]) == [4001, 4002]'
json "she has not heard of it" "$(ask_as alice job.attempts '{"job_id": "honest"}')" '[a["uid"] for a in d["attempts"]] == [4001]'
json "nor of its events" "$(ask_as alice daemon.events '{"limit": 4096, "job_id": "honest"}')" \
	'{e["event"] for e in d} <= {"job.started", "sheet.started", "process.spawn", "process.exit"}'
cat >"$TMP/flood.py" <<'END'
from guest import *
c = Client()
at, seq, n = hello(c)["result"]["from"], 1, 0
big = b"\0" * (3 << 20)
while n < 60:
    answer = code(send(c, at, frame(seq, 99, 0, big)))
    if answer != "taken":
        break
    at, seq, n = at + 24 + len(big), seq + 1, n + 1
print(answer, 5 <= n < 40, code(hello(Client())))
END
is "who sends too much is told so" "$(python_as dave "$TMP/flood.py" "$TMP/hers" 2>&1)" "-32002 True -32002"
pass honest
wait $honest
json "hers has its end all the same" "$(ask_as alice job.wait '{"job_id": "honest"}')" 'd["outcome"] == "success"'
json "and the daemon lives" "$(ask_as root daemon.status)" 'd["ticks"] > 0'

# ---- subscriptions ----

cat >"$TMP/subscribe.py" <<'END'
from rpc_client import Client
clients = [Client() for _ in range(70)]
answers = [c.ask("events.subscribe", {"topics": ["*"]}) for c in clients]
print(sum("result" in a for a in answers), {a["error"]["code"] for a in answers if "error" in a})
print({"result" in c.ask("events.subscribe", {"topics": ["job.*"]}) for c in clients[:60] for _ in range(20)})
clients[0].close() # which makes room for another
print("result" in Client.until(lambda c: c.ask("daemon.top.stream"), lambda a: "result" in a))
input()
END
coproc python_as alice "$TMP/subscribe.py"
greedy=$COPROC_PID
is "of one user so many connections subscribe, each as often as it likes" \
	"$(for _ in 1 2 3; do read -r line <&"${COPROC[0]}" && echo "$line"; done)" "64 {-32002}
{True}
True"
is "another user subscribes all the same" "$(python_as bob -c '
from rpc_client import Client
print(Client().ask("events.subscribe", {"topics": ["*"]})["result"])')" None
is "and root" "$(python_as root -c '
from rpc_client import Client
print(Client().ask("events.subscribe", {"topics": ["*"]})["result"])')" None
echo >&"${COPROC[1]}"
wait "$greedy"
cat >"$TMP/twice.py" <<'END'
from rpc_client import Client
c = Client()
for topics in (["snapshot"], ["*"], ["snapshot", "job.*"]):
    c.ask("events.subscribe", {"topics": topics})
stamps = [c.read()["params"]["timestamp"] for _ in range(3)]
print(len(set(stamps)))
END
is "who subscribes thrice gets each event once" "$(python_as alice "$TMP/twice.py")" 3

# ---- attached trees ----

cat >"$TMP/attach.py" <<'END'
import subprocess, time
from rpc_client import Client
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
is "who may not attach causes no look, and who may has a bound" "$(python_as carol "$TMP/attach.py")" "{-32602} True
64 {-32002}"

# The same where they wait for the database.
cat >"$TMP/wishes.py" <<'END'
import subprocess, sys
from rpc_client import Client
naps = [subprocess.Popen(["sleep", "300"]) for _ in range(70)]
clients = [Client() for _ in naps]
for i, (c, nap) in enumerate(zip(clients, naps)):
    c.send("job.attach", {"pid": nap.pid, "job_id": "wish-%d" % i})
refused = clients[69].read() # while the others wait
print(file=open(sys.argv[1], "w"))
answers = [c.read() for c in clients[:69]]
for nap in naps:
    nap.kill()
    nap.wait()
print(0 < sum("result" in a for a in answers) <= 64, "64 trees" in refused.get("error", {}).get("message", ""))
END
becomes "" listed carol >/dev/null # their ends are recorded: they are not what is tested here
PROCTOR_HOME=/var/lib/proctor hold_database wishes
mkfifo -m 666 "$TMP/refused"
(read -r _ <"$TMP/refused"; pass wishes) &
is "who waits to attach is counted, too" "$(python_as bob "$TMP/wishes.py" "$TMP/refused")" "True True"
wait "$holder"

# ---- two jobs of one name ----

cat >"$TMP/greedy.py" <<'END'
import resource, time
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = [open("/dev/null") for _ in range(55)]
time.sleep(60)
END
as alice "$PROCTOR" run -q --job same -- sleep 60 &
first=$!
becomes same:4001 listed root >/dev/null
as bob "$PROCTOR" run -q --job same -- python3 "$TMP/greedy.py" &
second=$!
cat >"$TMP/anomalies.py" <<'END'
import sys
from rpc_client import Client
def found(c):
    return [e["job_id"] for e in c.ask("daemon.events", {"limit": 4096})["result"] if e["event"] == "monitor.anomaly"]
print(Client.until(found, bool) if len(sys.argv) > 1 else found(Client()))
END
is "an anomaly in one of two jobs of one name is its owner's" \
	"$(python_as bob "$TMP/anomalies.py" wait)$(python_as alice "$TMP/anomalies.py")" "['same'][]"
for user in alice bob; do
	"$PROCTOR" cancel same --user $user
done
wait "$first" "$second"

# ---- the queue ----

# None is over before all wait.
cat >"$TMP/queue.py" <<'END'
import json, sys
from rpc_client import Client
c = Client()
for job_id in sys.argv[2:]:
    answer = c.ask("job.submit", {"file": json.dumps({"sheets": [{"run": sys.argv[1]}]}), "workdir": "/", "job_id": job_id})
    assert "result" in answer, answer
END
python_as alice "$TMP/queue.py" "$(gate turns)" a1 a2 a3 a4
python_as bob "$TMP/queue.py" "$(gate turns)" b1
pass turns
for job in a1 a2 a3 a4 b1; do
	"$PROCTOR" wait "$job" >/dev/null
done
cat >"$TMP/order.py" <<'END'
from rpc_client import Client
events = Client().ask("daemon.events", {"limit": 4096})["result"]
started = [e["job_id"] for e in events if e["event"] == "job.started" and e["job_id"] in ("a1", "a2", "a3", "a4", "b1")]
print(*dict.fromkeys(started))
END
is "users take turns in the queue, and each has the first first" \
	"$(python_as root "$TMP/order.py")" "a1 b1 a2 a3 a4"

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
from rpc_client import Client
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
		"$(python_as root "$TMP/submit.py" "$TMP/far")" "{'job_id': 'far'} True"
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
from rpc_client import Client
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
is "who asks for dear things is answered, and no tick is late" "$(python_as alice "$TMP/dear.py")" \
	"42 {True} 3 True"

"$PROCTOR" stop

# ---- few files ----

run as alice sh -c 'ulimit -n 64; exec "$@"' - "$PROCTOR" start
is "a daemon that may open too few files does not start" "$status" 1
like "and says how many it needs" "$stderr" 'needs [0-9]+ open files, and may have 64: raise the limit'
run bash -c 'ulimit -Sn 64; exec "$0" start' "$PROCTOR"
is "it raises the limit itself as far as it may" "$status $stderr" "0 "
pid=$(daemon_pid)
is "which is more than one user can take" \
	"$(awk '/open files/ { print ($4 >= 1024 ? "yes" : "no") }' "/proc/$pid/limits")" yes

# As if all that else is open in it had taken the others.
prlimit --pid "$pid" --nofile="$(($(find "/proc/$pid/fd" -type l | wc -l) + 60))"
cat >"$TMP/many.py" <<'END'
import sys, time
from rpc_client import Client
clients = []
try:
    for i in range(200):
        clients.append(Client())
        clients[-1].ask("daemon.status")["result"]
except Exception:
    pass
print(10 < len(clients) < 200, flush=True)
sys.stdin.read()
END
mkfifo "$TMP/enough"
python_as alice "$TMP/many.py" <"$TMP/enough" >"$TMP/let_in" &
exec 9>"$TMP/enough"
eventually test -s "$TMP/let_in"
is "a user gets some of the files" "$(cat "$TMP/let_in")" True
run "$PROCTOR" status
is "who may stop it is answered all the same" "$status $stderr" "0 "
run "$PROCTOR" stop
is "and it stops" "$status $stderr" "0 "
is "it does" "$(readlink "/proc/$pid/exe")" ""
exec 9>&-
finish
