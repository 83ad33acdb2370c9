#!/bin/bash
# Births and deaths as they happen, trees that something else started, orphans, and the end of all jobs.
. "$(dirname "$0")/lib.sh"
mkdir -p "$PROCTOR_HOME"
printf 'interval_seconds: 0.5\nlimits:\n  max_daemon_cpu_percent: 50\n' >"$PROCTOR_HOME/proctor.yaml"
started=()
clean_up() {
	"$PROCTOR" stop 2>/dev/null
	[ ${#started[@]} -eq 0 ] || kill -9 "${started[@]}" 2>/dev/null
	rm -rf "$TMP"
}
trap clean_up EXIT

status_of() { json_eval "$("$PROCTOR" status --json 2>/dev/null)" "$1"; }
kill_daemon() { kill -9 "$(status_of 'd["pid"]')"; }
job() { # JOB EXPRESSION: of its report, as d
	json_eval "$("$PROCTOR" report "$1" --json 2>/dev/null)" "$2"
}

holds() { [ "$(eval "$1")" = "$2" ]; }
is_gone() { # PID...
	local pid
	for pid in "$@"; do
		! [ -e "/proc/$pid" ] || grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" || return 1
	done
}

# in_background COMMAND...: as nobody's child of this script's; its pid is in $pid. Killed at the end.
in_background() {
	"$@" </dev/null >/dev/null 2>&1 &
	pid=$!
	disown
	started+=("$pid")
}

# Where a process waits, without starting another, until "echo" into it. Both ends wait for one another.
mkfifo "$TMP/go"
at_go="read -r _ <$TMP/go"

run "$PROCTOR" attach --pid $$ --job shell
is "without a daemon nothing is attached" "$status" 1
like "and it is said" "$stderr" "no daemon is running"
"$PROCTOR" start
has_news=$(status_of '"polling" not in d["rungs"]["births, deaths, exit codes"]')

# ---- what cannot be attached ----
in_background sleep 300
sleeper=$pid
for words in "--pid 1 --job x:pid 1 is" "--pid 4194304 --job x:there is no process" \
	"--pid $(status_of 'd["pid"]') --job x:the daemon itself" \
	"--pid $sleeper --job -x:cannot be the id" "--pid $sleeper --job ..:cannot be the id" \
	"--pid 0 --job x:--pid" "--pid $sleeper:as which job" "--job x:which process" \
	"--pid $sleeper --job x y:one word too many"; do
	eval "run \"\$PROCTOR\" attach ${words%%:*}"
	check "attach ${words%%:*}: refused" [ "$status" -ne 0 ]
	like "attach ${words%%:*}: in one line" "$stderr" "${words#*:}"
done
"$PROCTOR" run -q --job runs -- sleep 300 &
runner=$!
eventually holds "status_of 'd[\"running_jobs\"]'" 1
run "$PROCTOR" attach --pid $runner --job x
like "a runner is of a job" "$stderr" "belongs to the job runs already"
run "$PROCTOR" attach --pid "$(pgrep -P $runner)" --job x
like "so is what it runs" "$stderr" "belongs to the job runs already"
run "$PROCTOR" attach --pid $sleeper --job runs
like "a job that is there is not attached again" "$stderr" "a job runs is there already"
"$PROCTOR" cancel runs
wait $runner

# ---- one whose first thread has ended, and that goes on ----
in_background python3 -c 'import ctypes, platform, sys, threading, time
threading.Thread(target=time.sleep, args=(300,)).start()
open(sys.argv[1], "w")
ctypes.CDLL(None).syscall(60 if platform.machine() == "x86_64" else 93, 0)' "$TMP/headless"
eventually [ -e "$TMP/headless" ]
eventually grep -q '^State:[[:space:]]*Z' "/proc/$pid/status"
run "$PROCTOR" attach --pid "$pid" --job headless
is "one that goes on without its first thread is attached" "$status/$stderr" 0/
is "and runs" "$(job headless 'd["status"]')" running
kill -9 "$pid"
timeout 120 "$PROCTOR" wait headless >/dev/null

# ---- one's own shell ----
# shellcheck disable=SC2016  # the inner shell's pid, and that of its parent
run bash -c '"$0" attach --pid $$ --job own; sleep 0.1' "$PROCTOR"
like "who attaches the shell that he types in is warned" "$stderr" "has started this very command"
is "and may" "$status" 0

# ---- attached, and its end ----
run "$PROCTOR" attach --pid "$sleeper" --job sleeper --json
json "a process is attached" "$stdout" 'd == {"job_id": "sleeper", "attempt": 1}'
run "$PROCTOR" attach --pid "$sleeper" --job again
like "once" "$stderr" "belongs to the job sleeper already"
run "$PROCTOR" jobs --json
json "it runs" "$stdout" '[(j["status"], j["outcome"]) for j in d if j["job_id"] == "sleeper"] == [("running", None)]'
is "as what it is" "$(job sleeper 'd["command"]')" "sleep 300"
run "$PROCTOR" snapshot --json
json "a snapshot has its process" "$stdout" \
	'[(p["pid"], p["job_id"]) for p in d["processes"]] == [('"$sleeper"', "sleeper")]'
json "and the daemon" "$stdout" \
	"d['daemon_pid'] == $(status_of 'd["pid"]') and d['daemon_rss_mb'] > 1 and d['conductor_uptime_seconds'] > 0"
json "which judges the host" "$stdout" 'd["pressure_level"] in ("none", "low", "medium", "high", "critical")'
kill -9 "$sleeper"
if [ "$has_news" = True ]; then
	is "how it ended is told" "$(timeout 120 "$PROCTOR" wait sleeper)" "sleeper failure"
	is "by the kernel" "$(job sleeper '(d["signal"], d["reason"])')" "(9, 'signal 9')"
	in_background sh -c "$at_go; (sleep 0.05; exit 3); exit 4"
	"$PROCTOR" attach --pid "$pid" --job codes
	check "it is sampled" eventually holds "job codes 'len(d[\"series\"]) > 1'" True
	echo >"$TMP/go"
	is "with its code" "$(timeout 120 "$PROCTOR" wait --json codes |
		python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["outcome"], d["exit_code"])')" "failure 4"
	is "what it used when it was last seen is told with its end" "$(python3 - "$PROCTOR_HOME/proctor.sock" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "daemon.events", "params": {"job_id": "codes"}}\n')
end = [e for e in json.loads(s.makefile().readline())["result"] if e["event"] == "job.failed"][-1]["resource_context"]
print((end["processes"] or 0) > 0, (end["rss_mb"] or 0) > 0)
END
)" "True True"
	is "every process was seen, however short" "$(job codes 'd["process_spawn_count"]')" 3
	is "and how each ended" "$(job codes 'sorted(e["exit_code"] for e in d["events"] if e["event_type"] == "exit")')" "[0, 3, 4]"
	is "and what it used" "$(job codes 'd["peak_rss_mb"] > 0')" True
	is "which is not called all of it: it may have had more before" "$(job codes '{d["evidence"][k] for k in (
		"process_spawn_count", "max_processes", "total_cpu_seconds", "avg_cpu_pct", "max_process_rss_mb")}')" "{'at least'}"
	in_background sh -c 'while ! [ -e "$0" ]; do :; done; for i in $(seq 300); do /bin/true; done' "$TMP/storm-go"
	"$PROCTOR" attach --pid "$pid" --job storm
	touch "$TMP/storm-go"
	timeout 120 "$PROCTOR" wait storm >/dev/null
	# The loop waits without starting anything: itself, seq, and 300.
	is "and each once, whether a look or the kernel came first" "$(job storm \
		'(d["process_spawn_count"], len(d["processes"]), d["evidence"]["process_spawn_count"])')" "(302, 302, 'at least')"
	case $(status_of 'd["rungs"]["births, deaths, exit codes"]') in
	eBPF*)
		is "page faults are added up" "$(job storm 'd["minor_faults"] > 1000')" True
		is "and what is not told has its reason" "$(job storm \
			'[u["what"] for u in d["unknown"] if "told only to who waits" in u["why"]][0]')" syscr
		;;
	esac
	in_background sh -c "$at_go"
	"$PROCTOR" attach --pid "$pid" --job fine
	echo >"$TMP/go"
	is "a good end is a success" "$(timeout 120 "$PROCTOR" wait fine)" "fine success"
else
	# Its parent may have been quicker than us to wait for it, or not.
	like "it has ended" "$(timeout 120 "$PROCTOR" wait sleeper)" "sleeper (failure|unknown)"
	like "as far as is known" "$(job sleeper 'd["reason"]')" "signal 9|nobody waited for it who told us"
fi

# ---- the daemon is killed meanwhile ----
in_background sh -c "sleep 300 & $at_go; exit 5"
parent=$pid
eventually pgrep -P "$parent"
child=$(pgrep -P "$parent" | head -n 1)
started+=("$child")
"$PROCTOR" attach --pid "$parent" --job survives
in_background sleep 301
"$PROCTOR" attach --pid "$pid" --job unseen
kill_daemon
kill "$pid"
eventually is_gone "$pid"
"$PROCTOR" start
is "what ended meanwhile has no outcome" "$(timeout 120 "$PROCTOR" wait unseen)" "unseen unknown"
is "and says why" "$(job unseen '(d["outcome"], d["exit_code"], d["reason"])')" \
	"(None, None, 'exit status unknown: it ended while no daemon looked')"
is "when it ended is not called exact" "$(job unseen 'd["evidence"]["wall_seconds"]')" "at most"
is "what lives goes on" "$(job survives 'd["status"]')" running
echo >"$TMP/go"
eventually is_gone "$parent"
[ "$has_news" != True ] ||
	eventually holds "job survives 'any(e[\"exit_code\"] == 5 for e in d[\"events\"])'" True
is "for as long as anything of it lives" "$(job survives 'd["status"]')" running
kill_daemon
"$PROCTOR" start
sleep 1
is "also when only a child is left to find it by" "$(job survives 'd["status"]')" running
kill -9 "$child"
if [ "$has_news" = True ]; then
	is "its end is that of what was attached" "$(timeout 120 "$PROCTOR" wait --json survives |
		python3 -c 'import json, sys; d = json.load(sys.stdin); print(d["outcome"], d["exit_code"])')" "failure 5"
else
	timeout 120 "$PROCTOR" wait survives >/dev/null
	is "it is over" "$(job survives 'd["status"]')" "done"
fi
is "and no process was told twice" "$(job survives \
	'len([e for e in d["events"] if e["event_type"] == "spawn"]) - len({e["pid"] for e in d["events"] if e["event_type"] == "spawn"})')" 0

# ---- cancelled: nothing survives ----
in_background sh -c "trap '' TERM; sleep 300 & a=\$!; setsid sleep 300 & echo \$\$ \$a \$! >'$TMP/pids.now'; mv '$TMP/pids.now' '$TMP/pids'; sleep 300"
eventually [ -s "$TMP/pids" ]
read -ra pids <"$TMP/pids"
started+=("${pids[@]}")
in_background sleep 300
bystander=$pid
"$PROCTOR" attach --pid "${pids[0]}" --job stubborn
run "$PROCTOR" cancel stubborn
is "an attached job is cancelled" "$status" 0
lacking=$(timeout 60 python3 - "$PROCTOR_HOME/proctor.sock" <<'END'
import json, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
lines = s.makefile()
for _ in range(20):
    s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "daemon.top"}\n')
    top = json.loads(lines.readline())["result"]
    lacks = [k for k in ("daemon_pid", "daemon_rss_mb", "pressure_level", "conductor_uptime_seconds") if top[k] is None]
    if lacks:
        break
    time.sleep(0.05)
print(lacks)
END
)
is "looks between two ticks are whole snapshots" "$lacking" "[]"
is "and is over" "$(timeout 120 "$PROCTOR" wait stubborn)" "stubborn cancelled"
check "nothing of it is left" is_gone "${pids[@]}"
check "others live" kill -0 "$bystander"
is "the signals are on record" "$(job stubborn 'sorted({e["event_type"] for e in d["events"]} & {"signal", "kill"})')" "['kill', 'signal']"

# ---- births and deaths on the bus ----
if [ "$has_news" = True ]; then
	"$PROCTOR" run -q --job bus -- \
		sh -c "$(gate bus); sleep 0.1; (exit 7); sh -c 'kill -11 \$\$'" 2>/dev/null &
	eventually holds "status_of 'd[\"running_jobs\"]'" 1
	timeout 60 python3 - "$PROCTOR_HOME/proctor.sock" "$TMP/passed.bus" >"$TMP/bus" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile("rw")
f.write('{"jsonrpc": "2.0", "id": 1, "method": "events.subscribe", "params": {"topics": ["process.*", "job.*"]}}\n')
f.flush()
spawned, ended = set(), {}
for line in f:
    message = json.loads(line)
    p = message.get("params")
    if "result" in message:
        open(sys.argv[2], "w").close() # from now on all is told
    if not p or p["data"]["job_id"] != "bus":
        continue
    d = p["data"]
    if p["topic"] == "process.spawn":
        spawned.add(d["pid"])
    if p["topic"] == "process.exit" and d["pid"] in spawned:
        ended[d["pid"]] = d["exit_code"] if d["signal_num"] is None else -d["signal_num"]
    if p["topic"] in ("job.completed", "job.failed"):
        break
# the job's own shell, where its beginning was told late enough, ends with 128 + 11
print(sorted(v for v in ended.values() if v not in (0, 139)), 0 in ended.values())
END
	pass bus # if not even that was answered
	wait
	# how many of the sleeps it saw the beginning of depends on when it came
	is "short lives are told, with their ends" "$(cat "$TMP/bus")" "[-11, 7] True"
	check "and none were lost" holds "status_of 'd[\"process_events_lost\"]'" 0
	is "nor stored twice" "$(job bus 'len([e for e in d["events"] if e["event_type"] == "exit"]) == d["process_spawn_count"]')" True
else
	skip "short lives are told" "the kernel does not tell this user of births"
fi

# ---- orphans ----
"$PROCTOR" run -q --job leaves -- sh -c 'trap "" TERM; sleep 300 & echo $$ $! >"$0.now"; mv "$0.now" "$0"; sleep 300' "$TMP/left" &
runner=$!
eventually [ -s "$TMP/left" ]
read -r shell _ <"$TMP/left"
eventually holds "pgrep -c -P $shell -x sleep" 2
read -ra pids <<<"$shell $(pgrep -P "$shell" -x sleep | paste -sd' ')"
started+=("${pids[@]}")
eventually holds "status_of 'd[\"running_jobs\"]'" 1
eventually holds "job leaves 'len(d[\"processes\"])'" 3
kill -9 $runner
wait $runner 2>/dev/null
check "what lives on is found" eventually holds "status_of 'd[\"orphans\"]'" 3
is "and recorded" "$(job leaves 'sorted(e["pid"] for e in d["events"] if e["event_type"] == "orphan")')" \
	"[$(printf '%s\n' "${pids[@]}" | sort -n | paste -sd, | sed 's/,/, /g')]"
like "and reported" "$("$PROCTOR" report leaves)" 'orphan +[0-9]+ .*lives on after the end of its job'
run "$PROCTOR" cancel leaves
is "it can be cancelled" "$status/$stderr" "0/"
check "until it is gone" eventually holds "status_of 'd[\"orphans\"]'" 0
is "although it would not hear" "$(ps -o stat= -p "$(IFS=,; echo "${pids[*]}")" | grep -v Z)" ""
of_leaves() { # TYPE: pids of its events of that type, after its end
	job leaves "sorted(e['pid'] for e in d['events'] if e['event_type'] == '$1' and e['pid'] in [$(IFS=,; echo "${pids[*]}")])"
}
all_pids="[$(printf '%s\n' "${pids[@]}" | sort -n | paste -sd, | sed 's/,/, /g')]"
is "that it was killed is recorded" "$(of_leaves kill)" "$all_pids"
is "and the end of each" "$(of_leaves exit)" "$all_pids"
run "$PROCTOR" cancel leaves
is "then there is nothing left to cancel" "$status" 1
like "which is said" "$stderr" "job leaves is over, and nothing of it is left"
run "$PROCTOR" cancel never-was
like "as is that it never was" "$stderr" "there is no job never-was"
before=$(json_eval "$("$PROCTOR" status --json)" 'd["orphans_found"]')
"$PROCTOR" run -q --leave-background --job brief -- sh -c 'setsid sleep 300 & echo $! >"$0"' "$TMP/brief"
started+=("$(cat "$TMP/brief")")
check "what a very short job leaves is found, too" eventually holds "status_of 'd[\"orphans_found\"]'" $((before + 1))
"$PROCTOR" cancel brief
check "and can be cancelled" eventually holds "status_of 'd[\"orphans\"]'" 0

# ---- orphans of a job that was lost while no daemon looked ----
in_background env PROCTOR_HOME="$TMP/lost" "$PROCTOR" run -q --job lost -- sh -c 'sleep 300 & sleep 300'
lost_runner=$pid
processes_of_lost() { PROCTOR_HOME=$TMP/lost "$PROCTOR" report lost --format json 2>/dev/null | python3 -c '
import json, sys
print(len(json.load(sys.stdin)["processes"]))' 2>/dev/null; }
eventually holds processes_of_lost 3
kill -9 "$lost_runner"
PROCTOR_HOME=$TMP/lost "$PROCTOR" start
orphans_of_lost() { json_eval "$(PROCTOR_HOME=$TMP/lost "$PROCTOR" status --json)" 'd["orphans"]'; }
check "the next daemon finds them" eventually holds orphans_of_lost 3
PROCTOR_HOME=$TMP/lost "$PROCTOR" cancel lost
check "and ends them" eventually holds orphans_of_lost 0
PROCTOR_HOME=$TMP/lost "$PROCTOR" stop

# ---- what happens between the last tick of a daemon and its end ----
slow() { PROCTOR_HOME=$TMP/slow "$PROCTOR" "$@"; }
if [ "$has_news" = True ]; then
	mkdir "$TMP/slow"
	echo 'interval_seconds: 120' >"$TMP/slow/proctor.yaml"
	slow start
	in_background sh -c "sleep 300 & echo \$! >$TMP/child; wait; exec sleep 300"
	eventually test -s "$TMP/child"
	slow attach --pid "$pid" --job slow
	started+=("$(cat "$TMP/child")")
	kill -9 "$(cat "$TMP/child")"
	eventually is_gone "$(cat "$TMP/child")"
	slow stop
	is "is in the record" "$(slow events --job slow --json | python3 -c '
import json, sys
for e in map(json.loads, sys.stdin):
    if e["event"] == "process.exit": print(e["pid"], e["signal_num"])')" "$(cat "$TMP/child") 9"
else
	skip "is in the record" "the kernel does not tell this user of deaths"
fi

# ---- other users ----
if [ "$(id -u)" -eq 0 ]; then
	chmod 711 "$TMP" "$PROCTOR_HOME"
	chmod 666 "$PROCTOR_HOME/proctor.sock"
	cp "$PROCTOR" "$TMP/proctor"
	other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
	run other "$TMP/proctor" attach --pid "$bystander" --job theirs
	is "another user's process" "$status" 1
	like "is not attached" "$stderr" "pid $bystander is another user's"
	in_background setpriv --reuid=65534 --regid=65534 --clear-groups sleep 300
	eventually grep -q '^Uid:[[:space:]]*65534' "/proc/$pid/status"
	run other "$TMP/proctor" attach --pid "$pid" --job theirs
	is "one's own is" "$status/$stderr" 0/
	run other "$TMP/proctor" cancel theirs
	is "and can be cancelled" "$status" 0
	check "which ends it" eventually is_gone "$pid"
	# A program that runs as two users is not the caller's alone.
	in_background setpriv --ruid=65534 --regid=65534 --clear-groups sleep 300
	eventually grep -q '^Uid:[[:space:]]*65534' "/proc/$pid/status"
	run other "$TMP/proctor" attach --pid "$pid" --job mixed
	like "what runs as root too is not" "$stderr" "pid $pid is another user's"
fi

# ---- the end of the daemon, and of all jobs ----
"$PROCTOR" run -q --job one -- sleep 300 &
one=$!
printf 'sheets:\n  - run: sleep 300\n' >"$TMP/nap.yaml"
n=$(($(nproc) + 2))
for i in $(seq "$n"); do
	"$PROCTOR" submit --job "nap-$i" "$TMP/nap.yaml" >/dev/null
done
in_background sleep 300
"$PROCTOR" attach --pid "$pid" --job att
all_known="status_of 'd[\"running_jobs\"] + d[\"queued_jobs\"] == $((n + 2)) and d[\"running_jobs\"] > 2'"
eventually holds "$all_known" True
"$PROCTOR" stop
check "a daemon that stops leaves jobs alone" kill -0 $one "$pid"
"$PROCTOR" start
eventually holds "$all_known" True
run timeout 120 "$PROCTOR" stop --jobs
is "stop --jobs" "$status" 0
like "says what it did" "$stderr" "cancelled $((n + 2)) jobs: .*one"
wait $one
check "and nothing is left" is_gone $one "$pid"
is "of any of them" "$("$PROCTOR" jobs --json | python3 -c '
import json, sys
print({j["outcome"] for j in json.load(sys.stdin) if j["job_id"] in ("one", "att") or j["job_id"].startswith("nap")})')" "{'cancelled'}"
run "$PROCTOR" status
is "nor of the daemon" "$status" 1
run "$PROCTOR" stop --jobs
is "twice is once too often" "$status" 1

# ---- secrets ----
"$PROCTOR" start
in_background sh -c 'sleep 60; :' sh --password=hunter2
"$PROCTOR" attach --pid "$pid" --job secret >/dev/null
seen() { ask daemon.top | grep -qF -- '--password=***'; }
check "secrets of what is attached are masked where they are seen" eventually seen
is "and shown nowhere" "$({ ask daemon.top; "$PROCTOR" jobs --json; "$PROCTOR" events --job secret --json; } | grep -c hunter2)" 0
"$PROCTOR" cancel secret >/dev/null
"$PROCTOR" wait secret >/dev/null
"$PROCTOR" stop

finish
