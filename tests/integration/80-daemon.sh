#!/bin/bash
# The life of the daemon: start, stop, signals, its socket, its configuration, and what it tells
# a service manager.
. "$(dirname "$0")/lib.sh"
manager=$SOURCE_ROOT/tests/integration/manager.py
config=$PROCTOR_HOME/proctor.yaml
log=$PROCTOR_HOME/daemon.log
mkdir -p "$PROCTOR_HOME"
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT

is_up() {
	"$PROCTOR" status
}

field() { # EXPRESSION: of "status --json", as d
	json_eval "$("$PROCTOR" status --json 2>/dev/null)" "$1"
}

is_true() { # EXPRESSION
	[ "$(field "$1")" = True ]
}

# A process that is over, though its new parent may not have noticed yet.
is_gone() { # PID
	! [ -e "/proc/$1" ] || grep -q '^State:[[:space:]]*Z' "/proc/$1/status"
}

has_line() { # FILE REGEX
	grep -Eq -- "$2" "$1"
}

count_lines() { # FILE REGEX
	grep -Ec -- "$2" "$1"
}

# ---- none runs ----

run "$PROCTOR" status
is "without a daemon status fails" "$status" 1
like "and says so" "$stderr" 'no daemon'
run "$PROCTOR" stop
is "stop too" "$status" 1

# ---- in the background ----

# A daemon that kept the pipe would keep us here.
said=$(timeout 30 "$PROCTOR" start 2>&1)
is "start succeeds" "$?" 0
is "with nothing to say" "$said" ""
run "$PROCTOR" status --json
is "when it returns the daemon answers" "$status" 0
json "how it is can be seen" "$stdout" \
	'(d["uptime_seconds"] >= 0 and len(d["version"]) > 0 and d["rss_mb"] > 0 and
		(d["cpu_percent"] is None) == (d["uptime_seconds"] < 1) and
		d["tick_lag_seconds"] >= 0 and len(d["rungs"]) > 3 and d["running_jobs"] == 0)'
json "and which configuration it has" "$stdout" \
	'd["config"]["was_read"] is False and d["config"]["error"] is None and d["config"]["loaded"] > 1e9'
pid=$(json_eval "$stdout" 'd["pid"]')
is "the log is for nobody else" "$(stat -c %a "$log")" 600
like "and has the time" "$(cat "$log")" '^20[0-9-]+ [0-9:]+ proctor: listens on '
is "the socket is for nobody else" "$(stat -c %a "$PROCTOR_HOME/proctor.sock")" 600
is "it is nobody's child" "$(ps -o pgid= -p "$pid" | tr -d ' ')" "$(ps -o sid= -p "$pid" | tr -d ' ')"
is "nothing of ours is open in it" "$(readlink "/proc/$pid/fd/0" "/proc/$pid/fd/1" "/proc/$pid/fd/2")" \
	"/dev/null
/dev/null
$log"

run "$PROCTOR" start
is "a second one is refused" "$status" 1
like "and told which is there" "$stderr" "another daemon \\(pid $pid\\) listens on"
is "the first goes on" "$(field 'd["pid"]')" "$pid"
run "$PROCTOR" start --foreground
is "in the foreground too" "$status" 1

run "$PROCTOR" stop
is "stop succeeds" "$status" 0
check "the daemon is gone" eventually is_gone "$pid"
check "and its socket" [ ! -e "$PROCTOR_HOME/proctor.sock" ]

# ---- in the foreground ----

for signal in TERM INT; do
	"$PROCTOR" start --foreground 2>"$TMP/said" &
	pid=$!
	check "in the foreground it comes up" eventually is_up
	is "as the process that was started" "$(field 'd["pid"]')" "$pid"
	kill -s $signal $pid
	wait $pid
	is "SIG$signal ends it well" $? 0
done

# ---- what is at the socket's path ----

"$PROCTOR" start
pid=$(field 'd["pid"]')
kill -KILL "$pid"
check "killed, it is gone" eventually is_gone "$pid"
check "and its socket is left" [ -S "$PROCTOR_HOME/proctor.sock" ]
run "$PROCTOR" start
is "the next takes it over" "$status" 0
check "and answers" is_up
check "as another process" is_true "d['pid'] != $pid"
"$PROCTOR" stop

"$PROCTOR" start
pid=$(field 'd["pid"]')
rm "$PROCTOR_HOME/proctor.sock"
check "a socket that was removed is made anew" eventually is_up
is "by the same daemon" "$(field 'd["pid"]')" "$pid"
rm "$PROCTOR_HOME/proctor.sock" "$PROCTOR_HOME/proctor.sock.lock"
run "$PROCTOR" start
is "no second daemon comes in its place" "$status" 1
like "and why is told" "$stderr" 'another daemon'
check "and it is found again" eventually is_up
is "the same" "$(field 'd["pid"]')" "$pid"
run "$PROCTOR" stop
is "and stops" "$status" 0
check "with its socket" [ ! -e "$PROCTOR_HOME/proctor.sock" ]

"$PROCTOR" start
pid=$(field 'd["pid"]')
rm -rf "$PROCTOR_HOME"
check "all that it has written is removed, and it is found again" eventually is_up
is "as the same daemon" "$(field 'd["pid"]')" "$pid"
printf 'job_id: after\nsheets:\n  - run: echo done\n' >"$TMP/after.yaml"
check "jobs are taken again" eventually "$PROCTOR" submit "$TMP/after.yaml"
run "$PROCTOR" wait after
is "and run" "$status" 0
like "and the log goes on" "$(cat "$log")" 'the log was removed, and begins again'
run "$PROCTOR" stop

touch "$TMP/target"
ln -s "$TMP/target" "$PROCTOR_HOME/proctor.sock"
run "$PROCTOR" start
is "a symbolic link is refused" "$status" 1
like "and told" "$stderr" 'is a symbolic link'
is "what it points to is as it was" "$(stat -c '%F %s' "$TMP/target")" "regular empty file 0"
rm "$PROCTOR_HOME/proctor.sock"
echo mine >"$PROCTOR_HOME/proctor.sock"
run "$PROCTOR" start
is "a file is refused" "$status" 1
is "and kept" "$(cat "$PROCTOR_HOME/proctor.sock")" mine
rm "$PROCTOR_HOME/proctor.sock"

# ---- why it cannot ----

echo 'interval_seconds: 0.01' >"$config"
for how in "" --foreground; do
	run "$PROCTOR" start $how
	is "a bad configuration is bad input ${how:-in the background}" "$status" 2
	is "told with file, line and range" "$stderr" \
		"proctor: $config:1: 'interval_seconds' is '0.01'; it must be a number from 0.1 to 300"
done
printf '\nenabled: false\n' >"$config"
run "$PROCTOR" start
is "a daemon that is not wanted is not started" "$status" 2
like "with who says so" "$stderr" "$config:2: 'enabled' is false"
rm "$config"
mkdir -p "$TMP/odd/daemon.log"
run env PROCTOR_HOME="$TMP/odd" "$PROCTOR" start
is "without a log it does not start" "$status" 1
like "and the caller is told why" "$stderr" "cannot write $TMP/odd/daemon.log: Is a directory"
(cd "$TMP" && PROCTOR_HOME=near "$PROCTOR" start)
is "a relative folder is meant from where one is" "$?" 0
check "the daemon is there" [ -S "$TMP/near/proctor.sock" ]
(cd "$TMP" && PROCTOR_HOME=near "$PROCTOR" stop)

truncate -s 2M "$log"
"$PROCTOR" start
check "a long log is put aside" [ "$(stat -c %s "$log.1")" = 2097152 ]
like "and a new one begun" "$(cat "$log")" 'listens on'

# ---- SIGHUP ----

pid=$(field 'd["pid"]')
is "by default a tick comes every 5 s" "$(field 'd["interval_seconds"]')" 5.0
cat >"$config" <<END
interval_seconds: 0.5
jsonl_path: elsewhere.jsonl
limits:
  max_processes: 5
END
kill -HUP "$pid"
check "SIGHUP reads the configuration" eventually is_true 'd["config"]["was_read"] and d["interval_seconds"] == 0.5'
check "limits take effect" eventually is_true \
	'd["pressure_level"] == "critical" and d["pressure_reason"].endswith("of 5 processes")'
check "so does the log of snapshots" eventually [ -s "$PROCTOR_HOME/elsewhere.jsonl" ]
like "what changed is logged" "$(cat "$log")" 'interval_seconds is 0\.5 now, and was 5'
like "each of them" "$(cat "$log")" 'limits\.max_processes is 5 now, and was 0'
is "it is the same process" "$(field 'd["pid"]')" "$pid"

loaded=$(field 'd["config"]["loaded"]')
printf 'interval_seconds: 1\nlimits:\n  max_proceses: 7\n' >"$config"
kill -HUP "$pid"
check "a bad file is refused" eventually is_true 'd["config"]["error"] is not None'
like "with file and line" "$(field 'd["config"]["error"]')" \
	"^$config:3: unknown key 'max_proceses' in the limits mapping; did you mean 'max_processes'\\?$"
check "and all of the old one stays" is_true \
	"d['interval_seconds'] == 0.5 and d['config']['loaded'] == $loaded and d['config']['refused'] >= $loaded"
is "it is logged once" "$(count_lines "$log" 'the configuration stays as it was: ')" 1
run "$PROCTOR" status
like "status tells when it was read" "$stdout" "^config +$config, read 20"
like "and what was refused" "$stdout" '^ +refused 20.*max_proceses'
check "ticks go on" eventually is_true "d['ticks'] > $(field 'd["ticks"]')"

rm "$config"
kill -HUP "$pid"
check "no file is the defaults, and the refusal is over" eventually is_true \
	'd["interval_seconds"] == 5 and d["config"]["refused"] is None and not d["config"]["was_read"]'
check "the limits are gone" eventually is_true 'd["pressure_reason"].endswith("GB")'

# Questions that wait for their turn use the mask that was in force when they came.
cat >"$TMP/ask_many.py" <<'END'
import json, os, select, signal, socket, sys, time
path, pid, config = sys.argv[1], int(sys.argv[2]), sys.argv[3]
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(path)
    return s
lines = [connect() for _ in range(3)]
question = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "admit", "params": {"command": ["x", "--some-name", "1"] * 50}})
for s in lines:
    s.sendall((question + "\n").encode() * 50)
n = 0
for i in range(8):
    with open(config, "w") as f:
        f.write("mask_patterns: [%s]\n" % ", ".join("pattern%d_%d" % (i, k) for k in range(50)))
    os.kill(pid, signal.SIGHUP)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        for s in select.select(lines, [], [], 0.05)[0]:
            got = s.recv(1 << 16)
            assert got, "the daemon is gone"
            n += got.count(b"\n")
            s.sendall((question + "\n").encode() * got.count(b"\n"))
print(n > 0)
END
run timeout 60 python3 "$TMP/ask_many.py" "$PROCTOR_HOME/proctor.sock" "$pid" "$config"
is "other patterns while many wait for an answer are no harm" "$stdout$stderr" True
check "and they are in force, though somebody always waits" eventually has_line "$log" 'mask_patterns is .*pattern7_49'
is "in the same process" "$(field 'd["pid"]')" "$pid"
is "that looks as before" "$(field 'd["interval_seconds"]')" 5.0

printf 'interval_seconds: 0.1\nlimits:\n  max_daemon_cpu_percent: 0.1\n' >"$config"
kill -HUP "$pid"
check "a daemon that costs too much looks less often" eventually is_true \
	'd["interval_seconds"] > 0.1 and d["configured_interval_seconds"] == 0.1'
like "which is told with what was asked for" "$("$PROCTOR" status)" 'every 0?\.?[0-9.]+ s instead of 0\.1 s'
check "and what it costs, once that can be told" eventually is_true 'd["cpu_percent"] >= 0'
like "and says so" "$(cat "$log")" 'looks every [0-9.]+ s from now on'

printf 'interval_seconds: 0.1\nlimits:\n  max_daemon_cpu_percent: 5\n' >"$config"
kill -HUP "$pid"
cat >"$TMP/ask_on.py" <<'END'
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
while True: # until it is killed
    s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "daemon.status"}\n')
    while not s.recv(65536).endswith(b"\n"):
        pass
END
check "nobody asks yet" eventually is_true 'd["interval_seconds"] == 0.1 and d["other_cpu_percent"] < 2.5'
python3 "$TMP/ask_on.py" "$PROCTOR_HOME/proctor.sock" &
asking=$!
check "what requests cost counts too" eventually is_true 'd["other_cpu_percent"] > 5'
check "and is told apart" eventually has_line "$log" \
	'requests, learning and GPUs take ([5-9]|[0-9][0-9]+)[.][0-9] % of a core, and ticks [0-9.]+ %'
kill "$asking"
wait "$asking" 2>/dev/null

echo 'enabled: false' >"$config"
kill -HUP "$pid"
check "a daemon that is no longer wanted ends" eventually is_gone "$pid"
rm "$config"

# ---- what jobs are called, by a mask that is new ----

"$PROCTOR" start
pid=$(field 'd["pid"]')
"$PROCTOR" run -q --job pinned -- sh -c 'sleep 60' sh --pin=1234 &
runner=$!
shown() {
	python3 - "$PROCTOR_HOME/proctor.sock" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "daemon.top"}\n')
print([p["command"] for p in json.loads(s.makefile().readline())["result"]["processes"]])
END
}
shows() { # REGEX
	grep -Eq -- "$1" <<<"$(shown)"
}
check "a command line is shown as it is" eventually shows '--pin=1234'
echo 'mask_patterns: [pin]' >"$config"
kill -HUP "$pid"
check "until a new mask hides it" eventually shows '--pin=\*\*\*'
kill "$runner"
wait
"$PROCTOR" stop
rm "$config"

# ---- a service manager ----

printf 'interval_seconds: 0.2\n' >"$config"
python3 "$manager" "$TMP/told" --watchdog 0.4 -- "$PROCTOR" start --foreground 2>"$TMP/said" &
manager_pid=$!
check "the manager is told when it is ready" eventually has_line "$TMP/told" '^READY=1$'
is "before anything else" "$(head -n 1 "$TMP/told")" READY=1
check "by then it answers" is_up
pid=$(field 'd["pid"]')
is "it does not follow in the background" "$(ps -o ppid= -p "$pid" | tr -d ' ')" "$manager_pid"

pings() { # MORE-THAN
	[ "$(count_lines "$TMP/told" '^WATCHDOG=1$')" -gt "$1" ]
}
check "signs of life come" eventually pings 2
kill -STOP "$pid"
sleep 0.5 # what was on its way has come
before=$(count_lines "$TMP/told" '^WATCHDOG=1$')
sleep 1.2
is "none come while it hangs" "$(count_lines "$TMP/told" '^WATCHDOG=1$')" "$before"
kill -CONT "$pid"
check "and again when it goes on" eventually pings "$before"

kill -HUP "$pid"
check "it says that it reads its configuration" eventually has_line "$TMP/told" '^RELOADING=1 MONOTONIC_USEC=[0-9]+$'
is "and when it is done" "$(becomes 2 count_lines "$TMP/told" '^READY=1$')" 2
echo 'nonsense' >"$config"
kill -HUP "$pid"
check "also when it was refused" eventually has_line "$TMP/said" 'the configuration stays as it was'
kill -TERM "$pid"
wait "$manager_pid"
is "it ends well" $? 0
is "and has said so" "$(grep -v WATCHDOG "$TMP/told" | tail -n 1)" STOPPING=1
is "nobody else spoke for it" "$(count_lines "$TMP/told" '^stranger')" 0
unlike "with a manager that stamps lines it does not" "$(cat "$TMP/said")" '^20'
rm "$config"

# ---- a socket that is handed over ----

python3 "$manager" "$TMP/told2" --listen "$PROCTOR_HOME/proctor.sock" -- \
	"$PROCTOR" start --foreground 2>"$TMP/said" &
manager_pid=$!
check "who asks there is served" eventually is_up
"$PROCTOR" stop
wait "$manager_pid"
is "it ends well with that too" $? 0
check "the socket stays with the manager" [ -S "$PROCTOR_HOME/proctor.sock" ]

# ---- one that takes its time to end ----

"$PROCTOR" stop 2>/dev/null
cat >"$TMP/lingers.py" <<'END'
import json, os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1] + ".new")
s.listen()
os.rename(sys.argv[1] + ".new", sys.argv[1]) # who sees it can connect
conn, _ = s.accept()
for line in conn.makefile():
    asked = json.loads(line)
    result = {"pid": os.getpid()} if asked["method"] == "daemon.status" else None
    conn.sendall(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode() + b"\n")
    if asked["method"] == "daemon.stop":
        break
conn.shutdown(socket.SHUT_RDWR)
time.sleep(60)
END
rm -f "$PROCTOR_HOME/proctor.sock"
python3 "$TMP/lingers.py" "$PROCTOR_HOME/proctor.sock" &
lingering=$!
eventually [ -S "$PROCTOR_HOME/proctor.sock" ]
run "$PROCTOR" stop
is "a daemon that goes on is not said to have stopped" "$status" 1
like "but which it is" "$stderr" "\(pid $lingering\) was told to stop, and has not ended after"
kill $lingering
wait $lingering 2>/dev/null
rm -f "$PROCTOR_HOME/proctor.sock"

finish
