#!/bin/bash
# Events that are followed, and phases that a workload marks: with a daemon and without.
. "$(dirname "$0")/lib.sh"
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT

has_line() { grep -Eq -- "$2" "$1"; } # FILE REGEX

# It has read what there is, and sleeps until there is more: signals wait for it by then. SIGINT is signal 2.
waits_for_news() { # PID
	[ "/proc/$1/exe" -ef "$PROCTOR" ] && has_line "/proc/$1/status" '^SigBlk:.*[2367abef]$' &&
		has_line "/proc/$1/status" '^State:[[:space:]]*S'
}

# follow NAME [OPTION...]: into $TMP/NAME, while no daemon runs; its pid is in $follower.
follow() {
	local name=$1
	shift
	"$PROCTOR" events --follow "$@" >"$TMP/$name" 2>"$TMP/$name.err" &
	follower=$!
	eventually waits_for_news $follower
}

# ends NAME: by Ctrl-C, with nothing said.
ends() {
	kill -INT "$follower"
	wait "$follower"
	is "$1 ends by Ctrl-C" "$?/$(cat "$TMP/$1.err")" 0/
}

# same NAME: what was followed is what was recorded, once each.
same() {
	"$PROCTOR" events --json >"$TMP/all"
	check "$1: nothing is missing, nothing twice" python3 -c '
import sys
told, all = (open(p).read().splitlines() for p in sys.argv[1:])
assert len(told) == len(set(told)), "twice: %s" % [l for l in told if told.count(l) > 1]
assert len(all) > 5 and sorted(told) == sorted(all), (set(told) ^ set(all))' "$TMP/$1" "$TMP/all"
}

# ---- from before there was anything ----
follow early --json
follow_early=$follower
"$PROCTOR" run -q --job first -- sh -c 'sleep 0.1; true; sleep 1; exit 2'
eventually has_line "$TMP/early" '"event":"job.failed".*"job_id":"first"'
same early
ends_last() { # FILE of events of job first: at the same time too, a process ends before its sheet and that before its job
	grep '"job_id":"first"' "$1" | grep -o '"event":"[a-z.]*' | cut -d'"' -f4 | tail -n 3 | paste -sd' '
}
is "processes end before their sheet and job do" "$(ends_last "$TMP/all")" "process.exit sheet.failed job.failed"

# ---- a daemon comes and goes ----
"$PROCTOR" start
"$PROCTOR" run -q --job second -- sh -c 'for i in 1 2 3; do sleep 0.5; done'
"$PROCTOR" stop
"$PROCTOR" run -q --job third -- sh -c 'sleep 0.2 & wait'
eventually has_line "$TMP/early" '"event":"job.completed".*"job_id":"third"'
same early
follower=$follow_early
ends early

# ---- in the middle: history, then news ----
"$PROCTOR" run -q --job fourth -- sh -c 'for i in 1 2 3 4 5 6 7 8; do sleep 0.4; done' &
runner=$!
sleep 1
follow middle --since 1h --json
wait $runner
eventually has_line "$TMP/middle" '"event":"job.completed".*"job_id":"fourth"'
same middle
ends middle
follow late --json
"$PROCTOR" run -q --job fifth -- sh -c 'sleep 0.1; exit 0'
eventually has_line "$TMP/late" '"event":"job.completed".*"job_id":"fifth"'
unlike "without --since nothing of what was before" "$(cat "$TMP/late")" '"job_id":"fourth"'
ends late

# ---- one job, for people ----
follow people --job sixth
"$PROCTOR" run -q --job other -- true
"$PROCTOR" run -q --job sixth -- sh -c 'exit 3'
eventually has_line "$TMP/people" 'job.failed +exit 3 +sixth'
like "a line for each" "$(cat "$TMP/people")" '^20[0-9-]+ [0-9:.]+ +1 +1 +[0-9]+  exit +exit 3 +sixth'
unlike "of this job" "$(cat "$TMP/people")" ' other'
ends people

# ---- nobody reads on ----
: >"$TMP/quiet"
(
	"$PROCTOR" events --follow --since 1h --json 2>"$TMP/quiet"
	echo $? >"$TMP/quiet.status"
) | head -n 2 >"$TMP/two"
eventually [ -s "$TMP/quiet.status" ]
is "a reader that goes is no error to speak of" "$(wc -l <"$TMP/two")/$(cat "$TMP/quiet")" 2/
run "$PROCTOR" events --follow --until 5m
is "what has no end takes no end" "$status" 2

# ---- phases ----
cat >"$TMP/phases.sh" <<'END'
"$PROCTOR" phase enter epoch
"$PROCTOR" phase enter load
sleep 0.2
"$PROCTOR" phase exit load || exit 20
"$PROCTOR" phase exit load 2>/dev/null && exit 21
"$PROCTOR" phase enter train
"$PROCTOR" phase exit train
"$PROCTOR" phase exit epoch
"$PROCTOR" phase enter open
END
export PROCTOR
# A program that has shells of its own mark its phases: they are not those of the shells.
cat >"$TMP/system.py" <<'END'
import os
def phase(words, after=""):
    return os.system('%s phase %s%s; exit $?' % (os.environ["PROCTOR"], words, after))
assert phase("enter warm") == 0
assert phase("enter nested") == 0
assert phase("exit nested") == 0
assert phase("exit warm") == 0
assert phase("enter open") == 0
print(os.getpid())
END
# A program that marks by itself, and a child that is a rank.
cat >"$TMP/program.py" <<'END'
import os, subprocess, sys, time
import proctor
if len(sys.argv) > 1:
    with proctor.phase("work"):
        time.sleep(0.1)
    sys.exit()
with proctor.phase("fit"):
    with proctor.phase("step"):
        time.sleep(0.1)
    subprocess.run([sys.executable, __file__, "child"], env=dict(os.environ, PROCTOR_RANK="2"), check=True)
END
# Two ranks: the second may not leave what the first has entered.
cat >"$TMP/ranks.sh" <<'END'
if [ "$PROCTOR_RANK" = 0 ]; then
	"$PROCTOR" phase enter load
	: >"$1/entered"
	until [ -e "$1/tried" ]; do sleep 0.05; done
	"$PROCTOR" phase exit load
else
	until [ -e "$1/entered" ]; do sleep 0.05; done
	"$PROCTOR" phase exit load 2>"$1/refused" && echo left >"$1/refused"
	: >"$1/tried"
fi
END
# What the shell entered its child may leave, for it is below it.
cat >"$TMP/child.sh" <<'END'
"$PROCTOR" phase enter outer
sh -c '"$PROCTOR" phase exit outer; exit $?' || exit 20
"$PROCTOR" phase enter outer
bash "$1" || exit 21
END
echo '"$PROCTOR" phase exit outer' >"$TMP/leave.sh"
phases_of() { json_eval "$("$PROCTOR" report "$1" --json)" "$2"; }
for with in without with; do
	[ $with = without ] || "$PROCTOR" start
	"$PROCTOR" run -q --job "phases-$with" -- sh "$TMP/phases.sh"
	is "phases $with a daemon" "$?" 0
	is "lie in each other $with" "$(phases_of "phases-$with" '[p["path"] for p in d["phases"]]')" \
		"['epoch', 'epoch/load', 'epoch/train', 'open']"
	is "last $with" "$(phases_of "phases-$with" \
		'[p["left"] is not None and p["seconds"] >= (0.2 if p["name"] in ("epoch", "load") else 0) for p in d["phases"]]')" \
		"[True, True, True, True]"
	is "are of the shell $with" "$(phases_of "phases-$with" 'len({p["pid"] for p in d["phases"]})')" 1
	"$PROCTOR" run -q --json --output "$TMP/run.json" --job "own-$with" -- sh "$TMP/phases.sh"
	is "are in what the run itself tells $with" \
		"$(json_eval "$(cat "$TMP/run.json")" '[p["path"] for p in d["phases"]]')" \
		"['epoch', 'epoch/load', 'epoch/train', 'open']"
	run "$PROCTOR" run -q --report -- sh "$TMP/phases.sh"
	like "and in its text $with" "$stdout" 'epoch/train'
	pid=$("$PROCTOR" run -q --job "system-$with" -- python3 "$TMP/system.py")
	is "what shells mark is the program's $with" \
		"$(phases_of "system-$with" '[(p["path"], p["pid"], p["left"] is not None) for p in d["phases"]]')" \
		"[('warm', $pid, True), ('warm/nested', $pid, True), ('open', $pid, True)]"
	"$PROCTOR" run -q --job "program-$with" -- env PYTHONPATH="$SOURCE_ROOT/python" python3 "$TMP/program.py"
	is "a program marks its phases $with" "$(phases_of "program-$with" \
		'sorted((p["path"], p["rank"], p["left"] is not None and p["seconds"] >= 0.1) for p in d["phases"])')" \
		"[('fit', None, True), ('fit/step', None, True), ('work', 2, True)]"
	# Its last markers may be on their way when it ends.
	run "$PROCTOR" run -q --json -- env PYTHONPATH="$SOURCE_ROOT/python" python3 -c '
import proctor
with proctor.phase("short"):
    pass'
	json "and so are its last ones $with" "$stdout" \
		'[(p["path"], p["left"] is not None) for p in d["phases"]] == [("short", True)]'
	mkdir "$TMP/ranks-$with"
	cat >"$TMP/ranks.yaml" <<YAML
job_id: ranks-$with
sheets: [{run: [sh, $TMP/ranks.sh, "$TMP/ranks-$with"], ranks: 2}]
YAML
	check "ranks mark phases $with" "$PROCTOR" run -q -f "$TMP/ranks.yaml"
	like "one does not leave another's $with" "$(cat "$TMP/ranks-$with/refused")" \
		"process [0-9]+ has not entered the phase 'load': it was entered by pid [0-9]+"
	is "each knows its rank $with" "$(phases_of "ranks-$with" '[(p["name"], p["rank"]) for p in d["phases"]]')" "[('load', 0)]"
	is "in events, too $with" "$("$PROCTOR" events --job "ranks-$with" --json | grep '"event":"phase\.' | grep -c '"rank":0')" 2
	"$PROCTOR" run -q --job "child-$with" -- sh "$TMP/child.sh" "$TMP/leave.sh"
	is "a child leaves its parent's $with" $? 0
	is "are events $with" "$("$PROCTOR" events --job "phases-$with" --json | grep -c '"event":"phase\.')" 8
done
run "$PROCTOR" phase enter alone
is "outside of a job there are none" "$status" 1
like "which is said" "$stderr" "not called by a job"
for words in "" "enter" "leave x" "enter ''" "enter x y" "enter \$'a\nb'" "enter $(printf 'x%.0s' {1..300})"; do
	eval "run \"\$PROCTOR\" phase $words"
	is "phase ${words:0:20}: bad usage" "$status/$(wc -l <"$TMP/stderr")" 2/1
done
"$PROCTOR" run -q --job marks -- env PYTHONPATH="$SOURCE_ROOT/python" python3 -c '
import proctor, time
for i in range(200):
    with proctor.phase("step"):
        time.sleep(0.001)
c = proctor.Client()
c.enter_phase("last")
c.exit_phase("last")
try:
    c.exit_phase("last")
except proctor.Error:
    pass
else:
    raise SystemExit(9)
try:
    c.call("phase", {"enter": "x", "exit": "y"})
except proctor.Error:
    pass
else:
    raise SystemExit(10)'
is "a program marks its own" $? 0
is "all of them" "$(phases_of marks '(len(d["phases"]), sum(p["left"] is None for p in d["phases"]))')" "(201, 0)"

# More than a rank may have, faster than the daemon takes them: each is there, and left, or counted.
"$PROCTOR" run -q --job flood -- env PYTHONPATH="$SOURCE_ROOT/python" python3 -c '
import proctor
for i in range(12000):
    with proctor.phase("step"):
        pass'
is "none of a flood stays open, or lies in another" \
	"$(phases_of flood '({p["path"] for p in d["phases"]}, sum(p["left"] is None for p in d["phases"]))')" "({'step'}, 0)"
is "what is not there is counted" "$(phases_of flood \
	'len(d["phases"]) + int([u["why"] for u in d["unknown"] if u["what"] == "phases"][0].split()[1])')" 12000
json "by the daemon, too" "$("$PROCTOR" status --json)" "d['phase_markers_lost'] >= 2000"

# Nothing comes after them, and the database is somebody else's for a moment.
"$PROCTOR" run -q --job missed -- env PYTHONPATH="$SOURCE_ROOT/python" DB="$PROCTOR_HOME/proctor.db" python3 -c '
import os, socket, sqlite3, time, proctor
proctor.Client().enter_phase("known")
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["PROCTOR_HOME"] + "/proctor.sock")
db = sqlite3.connect(os.environ["DB"], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
s.sendall(b"""{"jsonrpc": "2.0", "method": "phase", "params": {"lost": 5}}\n""")
time.sleep(8) # longer than the daemon tries to write
db.execute("ROLLBACK")'
missed() { phases_of missed '[u["why"].split()[1] for u in d["unknown"] if u["what"] == "phases"]'; }
is "how many were lost is written down when it can be" "$(becomes "['5']" missed)" "['5']"

# One of no job: who does not ask for an answer is not told, but that is counted.
python3 - "$PROCTOR_HOME/proctor.sock" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"""{"jsonrpc": "2.0", "method": "phase", "params": {"enter": "stray", "lost": 2}}
{"jsonrpc": "2.0", "method": "phase", "params": {"enter": "stray"}, "id": 1}\n""")
assert json.loads(s.makefile().readline())["error"]["code"] == -32001
END
json "markers of no job are counted" "$("$PROCTOR" status --json)" "d['phase_markers_unplaced'] == 3"

# ---- the end of a job is the last that is told of it ----
cat >"$TMP/order.py" <<'END'
import json, os, socket, subprocess, sys, time

s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["PROCTOR_HOME"] + "/proctor.sock")
f = s.makefile("rw")
f.write('{"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": {"topics": ["job.*", "process.*"]}}\n')
f.flush()
assert "result" in json.loads(f.readline())
for i in range(8):
    command = ["true"] if i % 2 else ["sh", "-c", "sleep 0.1 & wait; true"]
    subprocess.run([sys.argv[1], "run", "-q", "--job", "order-%d-%d" % (i, os.getpid()), "--"] + command, check=True)
over, n_exits, late = set(), 0, []
s.settimeout(60)
try:
    while len(over) < 8 or time.time() < until:
        e = json.loads(f.readline())["params"]
        job = e["data"].get("job_id")
        if e["topic"] == "job.completed":
            over.add(job)
            until = time.time() + 1.5
            s.settimeout(60 if len(over) < 8 else 1.5)
        elif e["topic"] == "process.exit":
            n_exits += 1
            late += [e] if job in over else []
except TimeoutError:
    pass
print(len(over), n_exits >= 8, late)
END
"$PROCTOR" stop 2>/dev/null
printf 'interval_seconds: 0.5\nlimits:\n  max_daemon_cpu_percent: 50\n' >"$PROCTOR_HOME/proctor.yaml"
"$PROCTOR" start
is "no process dies after the end of its job" "$(python3 "$TMP/order.py" "$PROCTOR")" "8 True []"
"$PROCTOR" stop
printf 'ebpf_enabled: false\n' >>"$PROCTOR_HOME/proctor.yaml"
if unshare -n true 2>/dev/null; then # where no kernel tells of births
	unshare -n "$PROCTOR" start
	is "nor where runners tell of it" "$(python3 "$TMP/order.py" "$PROCTOR")" "8 True []"
	"$PROCTOR" stop
else
	skip "nor where runners tell of it" "needs the right to make a network namespace"
fi
rm "$PROCTOR_HOME/proctor.yaml"

# ---- on the bus: short jobs that the daemon hears of when they run already ----
echo 'interval_seconds: 2' >"$PROCTOR_HOME/proctor.yaml"
printf 'sheets:\n  - run: sleep 0.05; true\n  - run: sleep 0.02; true\n' >"$TMP/short.yaml"
"$PROCTOR" start
python3 - "$PROCTOR_HOME/proctor.sock" >"$TMP/bus" <<'EOF' &
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["process.*"]}}\n')
for line in s.makefile():
    data = json.loads(line).get("params", {}).get("data")
    print("%s %s %s" % (data["event"], data["job_id"], data["pid"]) if data else "begun", flush=True)
EOF
subscriber=$!
check "somebody subscribes" eventually has_line "$TMP/bus" '^begun'
for i in 1 2 3 4 5 6; do
	"$PROCTOR" submit --job "short$i" "$TMP/short.yaml" >/dev/null
done
for i in 1 2 3 4 5 6; do
	"$PROCTOR" wait "short$i" >/dev/null
done
is_all_told() {
	for i in 1 2 3 4 5 6; do
		"$PROCTOR" events --json --job "short$i"
	done | python3 -c '
import json, sys
for e in map(json.loads, sys.stdin):
    if e["event"].startswith("process."):
        print(e["event"], e["job_id"], e["pid"])' | sort >"$TMP/recorded"
	grep ' short[1-6] ' "$TMP/bus" | sort | cmp -s - "$TMP/recorded"
}
check "each birth and each death of theirs is told, once" eventually is_all_told
check "and there are many" [ "$(wc -l <"$TMP/recorded")" -ge 24 ]
"$PROCTOR" stop
wait "$subscriber"

# ---- of what sheet the young are ----
printf 'interval_seconds: 0.5\nlimits:\n  max_daemon_cpu_percent: 50\n' >"$PROCTOR_HOME/proctor.yaml"
cat >"$TMP/sheets.yaml" <<'YAML'
sheets:
  - run: sleep 0.5
  - run: for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3; done
  - run: "true"
YAML
"$PROCTOR" start
"$PROCTOR" submit --job sheets "$TMP/sheets.yaml" >/dev/null
"$PROCTOR" wait sheets >/dev/null

# ---- what a sheet used is its own ----
cat >"$TMP/contexts.py" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("rw")
f.write('{"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": {"topics": ["sheet.*", "job.*"]}}\n')
f.flush()
assert "result" in json.loads(f.readline())
print("listens", flush=True)
for line in f:
    p = json.loads(line).get("params")
    if p and p["data"]["job_id"] == sys.argv[2]:
        print(json.dumps([p["topic"], p["data"].get("sheet_num"), p["data"]["resource_context"]]), flush=True)
        if p["topic"] == "job.completed":
            break
END
is_large() { # JOB
	python3 -c '
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"job.list\"}\n")
print([(j["rss_mb"] or 0) > 200 for j in json.loads(s.makefile().readline())["result"] if j["job_id"] == sys.argv[2]])' \
		"$PROCTOR_HOME/proctor.sock" "$1"
}
run_large() { # JOB: one whose first sheet is; what is told of it is in $contexts
	cat >"$TMP/large.yaml" <<-YAML
		sheets:
		  - run: exec python3 -c 'x = b"x" * (200 << 20); import os, time; [time.sleep(0.1) for i in range(1200) if not os.path.exists("$TMP/passed.$1")]'
		  - run: "true"
	YAML
	timeout 240 python3 "$TMP/contexts.py" "$PROCTOR_HOME/proctor.sock" "$1" >"$TMP/contexts" &
	subscriber=$!
	eventually has_line "$TMP/contexts" listens
	"$PROCTOR" submit --job "$1" "$TMP/large.yaml" >/dev/null
	becomes "[True]" is_large "$1" >/dev/null
	pass "$1"
	wait "$subscriber"
	contexts=$(sed 1d "$TMP/contexts" | python3 -c 'import json, sys; print(json.dumps([json.loads(l) for l in sys.stdin]))')
}
# At a tick in the moment of its end it has a part of its memory, or nothing any more: then it tries again.
was_large='[(c["rss_mb"] or 0) > 200 for t, n, c in d if t == "sheet.completed" and n == 1] == [True]'
for try in 1 2 3 4; do
	run_large "large-$try"
	[ "$(json_eval "$contexts" "$was_large")" = True ] && break
done
json "at its end a large sheet was large" "$contexts" "$was_large"
json "which the next one is not told to be" "$contexts" \
	'[c["rss_mb"] is None or c["rss_mb"] < 100 for t, n, c in d if n == 2 or t == "job.completed"] == [True] * 3'
"$PROCTOR" stop
samples() { "$PROCTOR" sql "SELECT count(*) AS n FROM process_metrics WHERE $1" | tail -n 1 | tr -d ' '; }
young=$(samples "command = 'sleep 0.3' AND sheet_num IS NULL")
shells=$(samples "command LIKE '%for i in%' AND sheet_num IS NULL")
check "a child is of the sheet of its parent" [ "$young" -le "$shells" ]
check "and was seen" [ "$(samples "command = 'sleep 0.3' AND sheet_num = 2")" -gt 0 ]

finish
