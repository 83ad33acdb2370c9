#!/bin/bash
# "proctor top" in a real terminal (tmux): its keys, panels and modes, with a daemon, without one,
# and of what was recorded.
. "$(dirname "$0")/lib.sh"
mkdir -p "$PROCTOR_HOME"
export TERM=xterm-256color
pids=()
trap '"$PROCTOR" stop 2>/dev/null; close_terminal
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$TMP"' EXIT

command -v tmux >/dev/null || { skip "a terminal" "tmux is not installed"; finish; }

. "$(dirname "$0")/terminal.sh"

# ---- where there is no terminal, and where it cannot place text ----

run timeout 60 "$PROCTOR" top
is "without a terminal the screen is printed once" "$status/$(grep -c '^proctor ' <<<"$stdout")" 0/1
like "with the CPU, which takes two looks" "$stdout" '^CPU .* [0-9.]+ % of [0-9]+'
like "as there is no job" "$stdout" '^0 jobs, '
is "and that nothing was recorded yet is no trouble" "$stderr" ""
is "with --interval one after another" \
	"$(timeout 60 "$PROCTOR" top --interval 0.2 | grep -m 3 -c '^proctor ')" 3
open_terminal "TERM=dumb '$PROCTOR' top 2>'$TMP/said'"
ends_with "a dumb terminal is refused" 2
like "and the way out is named" "$(cat "$TMP/said")" 'cannot place text: "proctor top .* | cat"'
close_terminal

# ---- without a daemon ----

"$PROCTOR" run -q --job alone -- sh -c 'sleep 300 & exec sleep 301' &
pids+=($!)
open_terminal "'$PROCTOR' top --interval 0.5"
shows "without a daemon it looks by itself, and says so" 'no daemon runs'
shows "jobs are there" '^- alone'
shows "with their sheets" 'sheet 1'
shows "and processes" '[0-9]+ sleep 301'
shows "all others are of no job" 'no job'
shows "it tells what was recorded of its beginning" 'job.started of alone'
shows "and of its sheet's" 'sheet.started of alone, sheet 1'
keys f
keys -l 'sleep 30'
keys Enter
hides "a filter leaves others out" 'tmux'
shows "and keeps what it names" '[0-9]+ sleep 301'
keys Escape
hides "Escape forgets it" '^filter: '
keys '?'
shows "? shows the keys" 'any key goes back'
keys q
shows "any key goes back" 'JOB / PROCESS'
keys q
ends_with "q quits" 0
is "the terminal is as it was" \
	"$(pane display -p '#{alternate_on} #{mouse_any_flag} #{cursor_flag}')" "0 0 1"
close_terminal

# A job whose runner was killed is lost: nobody can say that it runs.
"$PROCTOR" run -q --job forlorn -- sh -c 'echo $$ >'"$TMP/orphan; exec sleep 302" &
runner=$!
eventually test -s "$TMP/orphan"
pids+=("$(cat "$TMP/orphan")")
kill -KILL "$runner"
wait "$runner" 2>/dev/null
open_terminal "'$PROCTOR' top --interval 0.5"
shows "the one that runs is there" '^- alone'
shows "and is counted alone" '^1 job, '
hides "a lost one is not" '^[-+ ] forlorn'
keys q
ends_with "q quits" 0
close_terminal
kill "${pids[@]}"
wait "${pids[@]}" 2>/dev/null
pids=()
open_terminal "'$PROCTOR' top --interval 0.5"
shows "and of its end" 'job\.[a-z]+ of alone: '
keys q
close_terminal
"$PROCTOR" top --json --job nosuch 2>"$TMP/waits" &
follower=$!
check "--json says what it waits for" eventually grep -q 'waiting for snapshots of job nosuch' "$TMP/waits"
kill "$follower"
wait "$follower" 2>/dev/null

# ---- with a daemon ----

cat >"$PROCTOR_HOME/proctor.yaml" <<-'YAML'
	anomaly:
	  zombie_duration_seconds: 1
	  clear_seconds: 1
	interval_seconds: 0.5
YAML
run "$PROCTOR" start
is "a daemon starts" "$status" 0
cat >"$TMP/job.yaml" <<-'YAML'
	job_id: steps
	sheets:
	  - run: "true"
	  - run: sleep 302
	    name: train
	  - run: sleep 303
YAML
run "$PROCTOR" submit "$TMP/job.yaml"
is "a job is handed in" "$status" 0
open_terminal "'$PROCTOR' top"
shows "with a daemon it follows that" 'proctor daemon [0-9]+, up'
shows "it says how many anomalies are going on" ', [0-9]+ anomalies'
shows "a job has its progress" 'steps.*1/3'
shows "a sheet its name" '^ +- sheet 2 train '
shows "and its process" '^ +[0-9]+ sleep 302'
keys -l -
shows "- folds" '^\+ steps'
keys -l +
shows "+ unfolds" '[0-9]+ sleep 302'
keys t
keys t
keys M
shows "M sorts by memory" 'MEM▾'
keys P
shows "P by CPU" 'CPU%▾'
keys T
shows "T by age" 'AGE▾'
keys I
shows "I by I/O" 'I/O▾'
keys /
keys -l 'sleep 302'
keys Enter
keys Enter
shows "Enter shows all of the process" 'command .*sleep 302'
shows "with its open files and their limit" 'open files +[0-9]+ of'
shows "and whose it is" 'job +steps, attempt 1, sheet 2 \(train\)'
keys Enter
shows "and again what happened" 'WHAT HAPPENED'
keys p
shows "p pauses" 'PAUSED'
keys p
hides "and goes on" 'PAUSED'
pane resize-window -x 60 -y 20
shows "it fits a smaller terminal" 'JOB / PROCESS'
pane resize-window -x 160 -y 50
shows "and a larger one" 'FDS'
keys g
keys x
shows "x asks first" 'cancel the job steps.*y/n'
keys n
hides "and takes a no" 'y/n'
json "so that it goes on" "$("$PROCTOR" jobs --json)" \
	'[j["status"] for j in d if j["job_id"] == "steps"] == ["running"]'
keys x
keys y
hides "a yes cancels the job" '^ +[0-9]+ sleep 302'
shows "and tells that it happened" 'job.cancelled of steps|job.failed of steps|steps.*cancelled'
run "$PROCTOR" stop
is "the daemon stops" "$status" 0
shows "a daemon that goes is missed" 'the daemon is gone'
run "$PROCTOR" start
shows "and one that comes is found" 'proctor daemon [0-9]+, up'
keys q
ends_with "q quits" 0
close_terminal

# ---- what only it would miss: a signal must not leave the terminal raw ----

open_terminal "stty -a >'$TMP/before'; '$PROCTOR' top; stty -a >'$TMP/after'"
shows "it runs" 'proctor daemon'
shell=$(pane list-panes -F '#{pane_pid}')
read -r top <"/proc/$shell/task/$shell/children"
kill -TERM "$top"
ends_with "SIGTERM ends it" 0
is "and the terminal is as it was" "$(cat "$TMP/after")" "$(cat "$TMP/before")"
close_terminal

# ---- as a stream ----

"$PROCTOR" run -q --job beside -- sleep 305 &
pids+=($!)
"$PROCTOR" run -q --job streamed -- sleep 304 &
pids+=($!)
lines=$(timeout 60 "$PROCTOR" top --json | head -n 3)
is "--json prints snapshots as they come" "$(wc -l <<<"$lines")" 3
json "each of them whole" "$(tail -n 1 <<<"$lines")" '"processes" in d and "load_avg_1" in d'
line=$(timeout 60 "$PROCTOR" top --json --job streamed | head -n 1)
json "--job leaves others out" "$line" \
	'{p["job_id"] for p in d["processes"]} == {"streamed"}'
run "$PROCTOR" top --history 10m --json --job streamed
json "of the past as well" "[$(grep '"processes"' <<<"$stdout" | paste -sd,)]" \
	'd and {x["job_id"] for s in d for x in s["job_progress"] + s["processes"]} == {"streamed"}'
json "and not a word of when it did not run" "[$(grep '"processes"' <<<"$stdout" | paste -sd,)]" \
	'all(s["processes"] or s["job_progress"] for s in d)'
json "each with its attempt" "[$(grep '"processes"' <<<"$stdout" | paste -sd,)]" \
	'all(x.get("attempt_id", 0) > 0 for s in d for x in s["job_progress"] + s["processes"])'
run "$PROCTOR" stop
timeout 60 "$PROCTOR" top --json >"$TMP/stream" 2>/dev/null &
follower=$!
for ((i = 0; i < LOOKS; i++)); do
	[ -s "$TMP/stream" ] && break
	sleep 0.1
done
kill "$follower" 2>/dev/null
json "without a daemon it looks by itself" "$(head -n 1 "$TMP/stream")" \
	'"processes" in d'
kill "${pids[@]}"
wait "${pids[@]}" 2>/dev/null
pids=()

# ---- what was recorded ----

open_terminal "TERM=dumb '$PROCTOR' top --history 10m 2>'$TMP/said'"
ends_with "a dumb terminal is refused" 2
like "and the way out is named" "$(cat "$TMP/said")" 'proctor top .* | cat'
close_terminal
open_terminal "'$PROCTOR' top --history 10m --interval 5 2>'$TMP/said'"
ends_with "frames are of replayed text" 2
like "which is said" "$(cat "$TMP/said")" 'interval is of replayed text'
close_terminal
open_terminal "'$PROCTOR' top --history 10m"
shows "what was recorded is replayed" 'recorded'
shows "with the beginnings of jobs" 'job.started of [a-z]'
shows "with the clock, and how fast" '×1'
keys '>'
keys '>'
shows "> makes it faster" '×4'
keys '<'
shows "< slower" '×2'
keys p
shows "p pauses it" '^paused'
clock=$(screen | sed -n '1s/.* //p')
for _ in 1 2 3 4 5; do keys . . . . . . . . . .; done # the first are milliseconds apart
hides ". goes a snapshot on, each time, and the clock with it" " $clock\$"
clock=$(screen | sed -n '1s/.* //p')
for _ in 1 2 3 4 5; do keys , , , , , , , , , ,; done
hides ", goes back" " $clock\$"
keys q
ends_with "q quits" 0
close_terminal
run "$PROCTOR" top --history 10m
is "without a terminal it is text" "$status" 0
like "with its jobs" "$stdout" '^[0-9:]+ job.started of steps'
open_terminal "'$PROCTOR' top --history 10m"
keys '>' '>' '>' '>'
shows "a sheet has its name in a replay too" '^ +- sheet 2 train '
keys q
close_terminal

# ---- anomalies ----

cat >"$TMP/zombie.py" <<'EOF'
import os, time
for _ in range(2):
    if os.fork() == 0:
        break
if os.fork() == 0:
    os._exit(0)
def wait_for(name):
    while not os.path.exists(os.path.join(os.environ["TMP"], name)):
        time.sleep(0.1)
wait_for("seen")
os.waitid(os.P_ALL, 0, os.WEXITED)
wait_for("cleared")
EOF
env TMP="$TMP" "$PROCTOR" run -q --job odd --interval 0.3 -- python3 "$TMP/zombie.py" &
pids+=($!)
open_terminal "'$PROCTOR' top --interval 0.5"
lines_shown() { # NAME REGEX N: passes as soon as the screen has so many lines like it
	local i
	for ((i = 0; i < LOOKS; i++)); do
		[ "$(screen | grep -Ec -- "$2")" -ge "$3" ] && { ok "$1"; return; }
		sleep 0.1
	done
	not_ok "$1" "not $3 times '$2' on the screen:" "$(screen)"
}
lines_shown "without a daemon: all that began in one look" '[0-9] python3 .*has not waited' 3
shows "and that it is going on" ', 3 anomalies'
touch "$TMP/seen"
shows "and that it is over" '[0-9] cleared: python3 .*has not waited'
shows "so that nothing is" ', 0 anomalies'
touch "$TMP/cleared"
keys q
ends_with "q quits" 0
close_terminal
wait "${pids[@]}"
pids=()
run "$PROCTOR" top --history 10m --json --job odd
like "what was recorded has it too" "$stdout" '"event":"monitor.anomaly","change":"began"'
like "and its end" "$stdout" '"event":"monitor.anomaly","change":"cleared"'
run "$PROCTOR" top --history 10m --job odd
like "and so has the text" "$stdout" '^[0-9:]+ python3 .*has not waited.* of odd\)'
like "with its end" "$stdout" '^[0-9:]+ cleared: python3 .*has not waited'
like "and when the job began" "$stdout" '^[0-9:]+ job.started of odd'
like "and ended" "$stdout" '^[0-9:]+ job.completed of odd'
open_terminal "'$PROCTOR' top --history 10m"
shows "a replay begins before it" 'recorded'
keys p
keys a
shows "a goes to the next anomaly" '[0-9] python3 .*has not waited'
keys a a a a
shows "and says when there is no other" 'no anomaly began later'
keys q
ends_with "q quits" 0
close_terminal
finish
