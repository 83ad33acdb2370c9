#!/bin/bash
# A crowd at the daemon's socket, with those in it who send half a line, never read, or send junk: each
# gets its error or is dropped, ticks stay on time, and memory stays flat. And no file is left to open.
. "$(dirname "$0")/lib.sh"
load=$SOURCE_ROOT/tests/integration/load.py
mkdir -p "$PROCTOR_HOME"
trap '"$PROCTOR" stop 2>/dev/null; [ -z "${runner:-}" ] || kill "$runner" 2>/dev/null; rm -rf "$TMP"' EXIT

field() { # EXPRESSION: of "status --json", as d
	json_eval "$("$PROCTOR" status --json 2>/dev/null)" "$1"
}

cpu_ticks() { # PID: user and system time
	awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$1/stat"
}

# ---- a crowd ----

# What a login shell has, on a host with more processes than that.
printf 'interval_seconds: 1\nlimits:\n  max_daemon_cpu_percent: 100\n' >"$PROCTOR_HOME/proctor.yaml"
(ulimit -Sn 1024 && "$PROCTOR" start)
# shellcheck disable=SC2016 # the job's shell is asked
"$PROCTOR" run -q --job crowd -- sh -c 'for _ in $(seq 300); do sleep 200 & done; wait' &
runner=$!
seen() { [ "$(field "d['running_jobs'] == 1 and d['ticks'] > 2")" = True ]; }
check "a job with many processes runs" eventually seen
run timeout 100 python3 "$load" "$PROCTOR_HOME/proctor.sock" crowd
is "the crowd gets through" "$status" 0
wait "$runner"
runner=
result=$stdout
json "500 clients are there at once" "$result" 'all(r["clients"] >= 500 for r in d["rounds"])'
json "50 requests at a time are answered, each with its own answer" "$result" \
	'all(r["answered"] >= 500 and r["wrong_answers"] == 0 for r in d["rounds"])'
json "each bad line has its error, and the connection lives on" "$result" 'all(r["wrong"] == {} for r in d["rounds"])'
json "a batch is answered in one" "$result" \
	'd["batches"]["batch"] == ["result", -32600, -32601] and d["batches"]["ids"] == ["a", None, "b"]'
json "who asks without an id is not answered" "$result" 'd["batches"]["after_notifications"] == "next"'
json "half a line is told, and dropped" "$result" 'd["half_line"] == [-32005, None]'
json "who asks and never reads is dropped" "$result" 'd["flooder_is_closed"] is True'
json "a subscriber that does not read loses the oldest, and is told how many" "$result" \
	'd["events"] > 0 and d["lost"] > 0 and d["lost"] == d["events_lost"] and abs(d["events"] + d["lost"] - d["ticks"]) <= 2'
json "50 who wait are answered at the end of the job" "$result" 'd["waiters"] == ["cancelled"] and d["waiter_ids"] is True'
json "no tick is left out" "$result" \
	'd["skipped"] == 0 and d["interval"] == 1 and abs(d["ticks"] - d["elapsed"]) <= 1.5'
json "memory stays flat" "$result" \
	'(d["rss_mb"][2] - d["rss_mb"][1] < 4 and d["rss_mb"][3] - d["rss_mb"][1] < 4 and max(d["rss_mb"]) < 24)'
json "nobody is left of it" "$result" 'd["clients_left"] <= 5'
"$PROCTOR" stop

# ---- no file is left ----

(ulimit -n 160 && "$PROCTOR" start)
is "with few files it starts" $? 0
pid=$(field 'd["pid"]')
cat >"$TMP/greedy.py" <<'END'
import json, os, socket, sys, time
clients, codes = [], []
for _ in range(200):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(sys.argv[1])
    clients.append(s)
for s in clients:
    try:
        s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "daemon.status"}\n')
    except BrokenPipeError:
        pass # it has been told why
    answer = json.loads(s.makefile().readline())
    codes.append(answer["error"]["code"] if "error" in answer else 0)
json.dump(codes, open(sys.argv[2] + ".new", "w"))
os.rename(sys.argv[2] + ".new", sys.argv[2])
time.sleep(60)
END
python3 "$TMP/greedy.py" "$PROCTOR_HOME/proctor.sock" "$TMP/codes" &
greedy=$!
check "more clients come than it has files for" eventually [ -e "$TMP/codes" ]
json "the first are served, the others told to come later" "$(cat "$TMP/codes")" \
	'd.count(0) > 20 and d.count(-32004) > 20 and d.count(0) + d.count(-32004) == 200 and d == sorted(d, reverse=True)'
before=$(cpu_ticks "$pid")
sleep 2
after=$(cpu_ticks "$pid")
check "it does not spin meanwhile ($((after - before)) of $((2 * $(getconf CLK_TCK))) ticks)" \
	[ $((after - before)) -lt "$(($(getconf CLK_TCK) / 2))" ]
kill "$greedy"
wait "$greedy" 2>/dev/null
answers() { [ "$(field 'd["pid"]')" = "$pid" ]; }
check "when they are gone it answers again" eventually answers
is "no tick was left out" "$(field 'd["ticks_skipped"]')" 0
unlike "and it could do all its work" "$(grep -v 'serves no page' "$PROCTOR_HOME/daemon.log")" 'cannot'
"$PROCTOR" stop

# What it starts finds the limit that it was started with.
(ulimit -Sn 512 && "$PROCTOR" start)
# shellcheck disable=SC2016 # the job's shell is asked
printf 'sheets:\n  - run: ulimit -Sn\n' >"$TMP/limit.yaml"
"$PROCTOR" submit --job limit "$TMP/limit.yaml" >/dev/null
"$PROCTOR" wait limit >/dev/null
is "a submitted job has the limit that the daemon was started with" "$(cat "$PROCTOR_HOME/logs/limit.log")" 512

finish
