#!/bin/bash
# Every key of "proctor top", in a real terminal (tmux), against a real daemon with real jobs:
# moving, folding, sorting, searching, tracing, ending; the mouse; sizes; what is left behind.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/terminal.sh"
mkdir -p "$PROCTOR_HOME"
export TERM=xterm-256color
pids=()
trap '"$PROCTOR" stop 2>/dev/null; close_terminal
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$TMP"' EXIT

command -v tmux >/dev/null || { skip "a terminal" "tmux is not installed"; finish; }

# ---- jobs ----

cat >"$PROCTOR_HOME/proctor.yaml" <<-'YAML'
	interval_seconds: 0.5
	limits:
	  max_concurrent_jobs: 1
YAML
run "$PROCTOR" start
is "a daemon starts" "$status" 0
cat >"$TMP/hostile.py" <<'EOF2'
import os
name = b"\x1b[2J\x1b]0;owned\x07\xff\xe5\x90\x8d\xe5\x89\x8d-" + b"x" * 300
os.execv("/bin/sleep", [name, "320"])
EOF2
"$PROCTOR" run -q --job alpha -- sh -c 'for i in $(seq 40); do sleep 310 & done; wait' &
pids+=($!)
"$PROCTOR" run -q --job beta -- sh -c 'while :; do sleep 0.05; done' &
pids+=($!)
"$PROCTOR" run -q --job gamma -- python3 "$TMP/hostile.py" &
pids+=($!)
cat >"$TMP/steps.yaml" <<-'YAML'
	job_id: steps
	sheets:
	  - run: "true"
	  - run: sleep 303
YAML
run "$PROCTOR" submit "$TMP/steps.yaml"
is "a job is handed in" "$status" 0

# ---- moving ----

open_terminal "'$PROCTOR' top"
shows "all jobs are there" '4 jobs'
keys N
shows "N sorts by name" 'JOB / PROCESS▾'
reaches_the_end() { # when the last job has begun
	keys End
	sleep 0.3
	selected_row | grep -q 'sleep 303'
}
eventually reaches_the_end
keys Home
selects "the first row is where it begins" '^- alpha 41'
keys Down
selects "the arrow goes down" '^  - sheet 1'
keys j
selects "so does j" 'sh -c for'
keys Up k
selects "the other arrow and k go up" '^- alpha'
keys NPage
selects "a page down" 'sleep 310'
keys PPage
selects "a page up" '^- alpha'
keys End
selects "End goes to the last row" 'sleep 303'
keys Home
selects "Home to the first" '^- alpha'
keys G
selects "so does G" 'sleep 303'
keys g
selects "and g" '^- alpha'

# ---- folding ----

keys Space
selects "Space folds" '^\+ alpha'
hides "what is below is gone" 'sleep 310'
keys Space
shows "and unfolds" 'sleep 310'
keys -l -
selects "- folds" '^\+ alpha'
keys -l +
selects "+ unfolds" '^- alpha'
keys Left
selects "the left arrow folds" '^\+ alpha'
keys Right
selects "the right one unfolds" '^- alpha'
keys Space

# ---- the mouse ----

mouse 65 5 10
selects "the wheel goes down" '^- beta'
mouse 64 5 10
selects "and up" '^\+ alpha'
mouse 0 5 7
selects "a click selects" '^- beta'
mouse 0 5 7
selects "a second one folds" '^\+ beta'
mouse 0 5 7
selects "and a third unfolds" '^- beta'

# ---- what no terminal has told curses of ----

keys -l "$(printf '\eOx')" # of a keypad
keys e
shows "the bytes of an unknown sequence are no keys" '^WHAT HAPPENED.* but births'
keys -l "$(printf '\e[I\e[1;9S')" # the window is looked at; some key
keys e
shows "nor those of a longer one" '^WHAT HAPPENED *$'
shows "and nothing was sorted" 'JOB / PROCESS▾'
keys e
shows "another key in between" '^WHAT HAPPENED.* but births'
keys -l "$(printf '\eM\ex')" # with Alt
keys e
shows "what is pressed with Alt is no key either" '^WHAT HAPPENED *$'
shows "and sorts nothing" 'JOB / PROCESS▾'
hides "nor asks anything" '\(y/n\)'

# ---- sorting, and trees ----

keys P
shows "P sorts by CPU" 'CPU%▾'
keys M
shows "M by memory" 'MEM▾'
keys T
shows "T by age" 'AGE▾'
keys I
shows "I by I/O" 'I/O▾'
keys N
shows "N by name" 'JOB / PROCESS▾'
keys F6
shows "F6 asks by what" '^sort by: .*\[name\]'
keys Right Enter
shows "and sorts by it" 'CPU%▾'
mouse 0 5 5
shows "so does a click on a title" 'JOB / PROCESS▾'
keys g Space
shows "in a tree a child is below its parent" '^ {8}[0-9]+ sleep 310'
keys t
shows "t makes a list of it" '^  [0-9]+ alpha sleep 310'
hides "without jobs" '^[-+] '
keys t
shows "and a tree again" '^ {8}[0-9]+ sleep 310'
keys g Space

# ---- searching and filtering ----

keys /
shows "/ asks for what" '^search: _'
keys -l beta
keys Enter
selects "and goes there" '^- beta'
keys / ; keys -l 'sheet 1'; keys Enter
selects "or to a sheet" '^  - sheet 1'
keys / ; keys -l a; keys Enter
selects "or to whatever shows it next" '^- gamma'
keys n
selects "n goes on, around the end" '^\+ alpha'
keys / ; keys -l 'no such thing'; keys Enter
shows "what is not there is said" "nothing matches 'no such thing'"
keys f
keys -l steps
keys BSpace s Enter
hides "f filters" '^- gamma'
shows "and says by what" '^filter: steps'
keys Escape
hides "Escape forgets it" '^filter: '
keys F4
keys -l gamma
keys Enter
hides "F4 filters too" '^- beta'
shows "a name that commands the terminal is shown, and not obeyed" \
	'[0-9]+ \?\[2J\?\]0;owned\?.名'
unlike "nor taken for the terminal's title" "$(pane display -p '#{pane_title}')" 'owned'
keys Escape
hides "all are there again" '^filter: '

# ---- all of one thing ----

keys / ; keys -l 'while :'; keys Enter Enter
shows "Enter shows all of a process" 'command +sh -c while'
shows "its memory" 'memory +[0-9.]+[KM] now'
shows "its open files against the limit" 'open files +[0-9]+ of [0-9]+ \('
shows "its system calls, or that nobody counts them" 'system calls +(-|[a-z0-9_]+ [0-9]+|none)'
shows "and its memory over time" '⣿|⣀|⣤|⣶'
keys Enter
shows "Enter goes back to what happened" 'WHAT HAPPENED'
keys Tab
selects "Tab walks among the events" '^[0-9:]{8} '
keys x
shows "which cannot be ended" 'nothing here to end'
keys g Enter
shows "Enter shows all of one" 'DETAIL OF WHAT HAPPENED'
shows "with its members" '^event +[a-z]+\.'
keys Escape
shows "Escape closes it" '^WHAT HAPPENED'
selects "and stays among them" '^[0-9:]{8} '
keys Escape
hides "another goes back to the jobs" '^WHAT HAPPENED \(earlier\)'

keys [
shows "[ goes back among them" '^WHAT HAPPENED \(earlier\)'
keys ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] ] Escape
shows "] on again" '^WHAT HAPPENED *$'
keys e
shows "e leaves births and deaths out" '^WHAT HAPPENED.* but births and quiet deaths'
hides "all of them" '^[0-9:]{8} process\.spawn'
keys e
shows "and takes them in again" '^[0-9:]{8} process\.spawn'

# ---- pausing and helping ----

keys p
shows "p pauses" 'PAUSED'
clock=$(screen | sed -n '1s/.* //p')
taken() { # the time of the daemon's last snapshot
	json_eval "$("$PROCTOR" snapshot --json)" 'int(d["timestamp"])'
}
from=$(taken)
for ((i = 0; i < LOOKS && $(taken) < from + 2; i++)); do
	sleep 0.1
done
is "the clock stands still" "$(screen | sed -n '1s/.* //p')" "$clock"
counts=$(screen | sed -n 4p)
"$PROCTOR" run -q --job delta -- sleep 302 &
pids+=($!)
delta=$!
lists_delta() { # and has looked since
	"$PROCTOR" jobs --json | grep -q '"delta"' && [ "$(taken)" -gt $((from + 3)) ]
}
from=$(taken)
eventually lists_delta
is "and the header is of that time" "$(screen | sed -n 4p)" "$counts"
kill -TERM "$delta"
wait "$delta"
keys p
hides "and goes on" " $clock\$"
for key in h '?'; do
	keys "$key"
	shows "$key shows the keys" 'any key goes back'
	keys Escape
	shows "and goes back" 'JOB / PROCESS'
done

# ---- tracing ----

keys g / ; keys -l 'while :'; keys Enter
shows "nothing is said before" '^\? help  q quit'
keys s
if command -v strace >/dev/null; then
	shows "s traces the process, call by call" '[0-9:]{8} [a-z0-9_]+\('
	keys C-c
	shows "Ctrl-C ends that, and not top" 'press Enter, Esc or q to go back'
	keys x Enter
	shows "Enter goes back" 'JOB / PROCESS'
	selects "to where it was" 'sh -c while'
	for key in q Escape; do
		keys s
		sleep 1 # the screen still has what the last trace wrote
		shows "again" '[0-9:]{8} [a-z0-9_]+\('
		keys C-c
		shows "and it is over" 'press Enter, Esc or q to go back'
		keys "$key"
		shows "$key goes back, and no further" 'JOB / PROCESS'
		selects "there" 'sh -c while'
	done
	shows "with the hints below" '^\? help  q quit'
	keys C-l
	shows "and Ctrl-L leaves them there" '^\? help  q quit'
else
	shows "without strace it says so" 'strace'
fi
keys g s
shows "a job cannot be traced" 'select a living process'

# ---- sizes ----

keys g # which takes back what was said
for size in "80 24" "200 50" "40 10" "79 23"; do
	pane resize-window -x "${size% *}" -y "${size#* }"
	shows "it fits ${size/ /x}" 'JOB / PROCESS'
	shows "to its last line" '^\? help  q quit'
	is "and all of its width" "$(screen | sed -n '1s/.* \([0-9:]*\)$/\1/p' | wc -c)" 9
done
pane resize-window -x 8 -y 3
shows "it survives one that is far too small" '^CPU  .{3}$'
pane resize-window -x 120 -y 40
shows "and grows again" 'TOP SYSCALLS'

# ---- ending ----

sleeper=$(json_eval "$("$PROCTOR" snapshot --json)" \
	'[p["pid"] for p in d["processes"] if p["command"] == "sleep 303"][0]')
keys f; keys -l "$sleeper"; keys Enter G
selects "a process" "$sleeper sleep 303"
keys F9
shows "F9 asks first" "send SIGTERM to pid $sleeper sleep [0-9]+\\? \\(y/n\\)"
keys n
hides "and takes a no" 'send SIGTERM'
run kill -0 "$sleeper"
is "so that it lives" "$status" 0
keys x s
shows "another signal is asked for" "send SIGSTOP to pid $sleeper"
keys y
shows "a process can be stopped" "the signal was sent to pid $sleeper"
hides "which is not said for ever" 'signal was sent'
shows "and it stops" "$sleeper sleep 303 +T "
keys x c y
hides "and goes on again" "$sleeper sleep 303 +T "
keys x k
shows "one key kills nothing" "send SIGKILL to pid $sleeper"
keys k j
hides "nor do two" 'send SIGKILL'
run kill -0 "$sleeper"
is "it lives" "$status" 0
keys x k y
hides "or killed" "$sleeper sleep 303"
run kill -0 "$sleeper"
is "really" "$status" 1
hides "which is not said for ever either" 'signal was sent' # where the filter stands
keys Escape
hides "all jobs are there again" '^filter: '
keys / ; keys -l beta; keys Enter
selects "a job" '^- beta'
keys x
shows "x asks first" 'cancel the job beta and end all of it\? \(y/n\)'
keys Enter
hides "only a yes will do" 'cancel the job'
json "so that it goes on" "$("$PROCTOR" jobs --json)" \
	'[j["status"] for j in d if j["job_id"] == "beta"] == ["running"]'
keys F9 y
hides "which cancels it" '^- beta'
selects "the row where it was is selected" '^- gamma'
wait "${pids[1]}"
isnt_running=$("$PROCTOR" jobs --json)
json "and it is over" "$isnt_running" \
	'[j["outcome"] for j in d if j["job_id"] == "beta"] == ["cancelled"]'

# ---- one that waits beside one that runs ----

for job in busy twin; do # the first keeps the second waiting
	printf 'job_id: %s\nsheets:\n  - run: sleep 304\n' $job >"$TMP/$job.yaml"
	run "$PROCTOR" submit "$TMP/$job.yaml"
	is "the job $job is handed in" "$status" 0
done
"$PROCTOR" run -q --job twin -- sleep 305 &
pids+=($!)
twin=$!
shows "it has a row" '^  twin queued: '
shows "beside the one that runs" '^- twin#1 1'
keys Home / ; keys -l 'twin'; keys Enter
for ((i = 0; i < LOOKS; i++)); do
	selected_row | grep -q 'queued' && break
	keys n
	sleep 0.2
done
keys x
shows "what is ended is said" 'cancel the job twin, but only what waits of it\? \(y/n\)'
keys y
hides "and is ended" 'twin queued'
json "and nothing else" "$("$PROCTOR" jobs --json)" \
	'[j["attempt"] for j in d if j["job_id"] == "twin" and j["status"] == "running"] == [1]'
run "$PROCTOR" cancel --queued twin
is "nothing waits any more" "$status" 1
like "which is said" "$stderr" 'no job twin waits'
run "$PROCTOR" cancel --queued --attempt 1 twin
is "what waits has no number" "$status" 2
run "$PROCTOR" cancel twin
is "without a word all of it is ended" "$status" 0
wait "$twin"
run "$PROCTOR" submit --job pair "$TMP/twin.yaml"
"$PROCTOR" run -q --job pair -- sleep 305 &
pids+=($!)
pair=$!
lists_pair() { # both of them
	json_eval "$("$PROCTOR" jobs --json)" \
		'sorted(j["status"] for j in d if j["job_id"] == "pair")' |
		grep -q "queued.*running"
}
eventually lists_pair
run "$PROCTOR" cancel --queued pair
is "what waits is cancelled by a command, too" "$status" 0
json "and the one that runs is not" "$("$PROCTOR" jobs --json)" \
	'[j["attempt"] for j in d if j["job_id"] == "pair" and j["status"] in ("running", "queued")] == [1]'
run "$PROCTOR" cancel pair
wait "$pair"
run "$PROCTOR" cancel busy

# ---- in the background ----

keys q
ends_with "q quits" 0
close_terminal
open_terminal "exec bash --norc --noprofile"
keys -l "'$PROCTOR' top --job gamma --interval 0.5"
keys Enter
shows "--job is of one job" '^- gamma'
hides "and of no other" 'alpha'
keys C-z
shows "Ctrl-Z gives the terminal back" 'Stopped'
keys -l fg
keys Enter
shows "and fg takes it again" '^- gamma'
if command -v strace >/dev/null; then
	keys End s
	shows "one is traced" 'for 10 s; Ctrl-C ends it'
	traced=$(json_eval "$("$PROCTOR" snapshot --json)" \
		'[p["pid"] for p in d["processes"] if p.get("job_id") == "gamma"][-1]')
	eventually grep -q '^TracerPid:.*[1-9]' "/proc/$traced/status"
	keys C-c
	shows "until Ctrl-C" 'press Enter, Esc or q to go back'
	keys Enter
	shows "and then top is back" '^- gamma'
fi
keys C-c
hides "Ctrl-C ends it" 'JOB / PROCESS'
keys -l 'echo $((100 + $?)) status'
keys Enter
shows "like a signal" '230 status'
close_terminal

# ---- without colours, and in a plain locale ----

colours() {
	pane capture-pane -e -p | grep -c $'\e\\[[0-9;]*3[0-7]m'
}
open_terminal "'$PROCTOR' top"
shows "it runs" '^- gamma|^- alpha'
is "there are colours" "$([ "$(colours)" -gt 0 ] && echo yes)" yes
close_terminal
open_terminal "TERM=xterm-256color '$PROCTOR' top"
shows "another kind of terminal" '^- gamma|^- alpha'
selects "which begins at the first row" '^- [a-z]'
mouse_sgr 65 5 10
selects "has a wheel too" '^  - sheet'
mouse_sgr 0 5 6
selects "and a button" '^- [a-z]'
close_terminal
open_terminal "NO_COLOR=1 '$PROCTOR' top"
shows "it runs without" '^- gamma|^- alpha'
is "and NO_COLOR leaves them out" "$(colours)" 0
close_terminal
open_terminal "LC_ALL=C '$PROCTOR' top"
shows "a plain locale has plain bars" '^CPU  [#.]{24} '
shows "and plain titles" 'CPU%v'
close_terminal
open_terminal "TERM=vt100 '$PROCTOR' top"
shows "an old terminal will do" 'JOB / PROCESS'
close_terminal
for how in "keys q" 'kill -SEGV $(running_pid)'; do
	open_terminal "ulimit -c 0; TERM=vt100 '$PROCTOR' top 2>/dev/null; printf 'what is next'"
	shows "an old terminal has no second screen" '^\? help'
	eval "$how"
	shows "so what is next comes where the keys were, alone ($how)" '^what is next$'
	close_terminal
done

# ---- what is left behind ----

for signal in TERM HUP INT QUIT SEGV ABRT USR1 USR2 XCPU SYS; do
	open_terminal "ulimit -c 0; stty -a >'$TMP/before'; '$PROCTOR' top; stty -a >'$TMP/after'"
	shows "it runs" 'JOB / PROCESS'
	kill "-$signal" "$(running_pid)"
	ends_with "SIG$signal ends it" 0
	is "with the terminal's modes as they were" "$(cat "$TMP/after")" "$(cat "$TMP/before")"
	is "its screen, its mouse and its cursor" \
		"$(pane display -p '#{alternate_on} #{mouse_any_flag} #{cursor_flag}')" "0 0 1"
	close_terminal
done

# ---- a daemon that comes later ----

run "$PROCTOR" stop
open_terminal "'$PROCTOR' top --interval 0.5"
shows "without a daemon it looks by itself" 'no daemon runs'
keys G
shows "at all processes" '^    - 1 |^ +[0-9]+ '
OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=2 "$PROCTOR" run -q --job odd -- sleep 306 &
pids+=($!)
odd=$!
keys f; keys -l odd; keys Enter
shows "a job of which there is something to be said" '[0-9]+ sleep 306'
hides "is told of below, and not within the picture" 'proctor: warning'
shows "which is whole" '^WHAT HAPPENED'
like "from its first line on" "$(screen | head -n 1)" '^proctor no daemon runs'
keys Escape
kill -TERM "$odd"
wait "$odd"
run "$PROCTOR" start
shows "a daemon that is started is found" '^proctor daemon [0-9]+, up'
keys g
shows "with the jobs that run" '^- alpha'
keys q
ends_with "q quits" 0
close_terminal

# ---- for scripts ----

if command -v strace >/dev/null; then
	run timeout 90 "$PROCTOR" top --trace $$
	is "--trace is of one process" "$status" 0
	like "and says when it ends" "$stderr" 'time is up'
fi
finish
