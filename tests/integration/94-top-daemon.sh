#!/bin/bash
# "proctor top" and its daemon: one that hangs, goes away and comes back; the mouse; a stopped top.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/terminal.sh"
mkdir -p "$PROCTOR_HOME"
export TERM=xterm-256color
pids=()
trap '"$PROCTOR" stop 2>/dev/null; close_terminal
	[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$TMP"' EXIT

command -v tmux >/dev/null || { skip "a terminal" "tmux is not installed"; finish; }

cat >"$PROCTOR_HOME/proctor.yaml" <<-'YAML'
	interval_seconds: 0.5
	limits:
	  max_concurrent_jobs: 1
	  max_daemon_cpu_percent: 50
YAML
run "$PROCTOR" start
"$PROCTOR" run -q --job alpha -- sh -c 'sleep 310 & sleep 311' &
pids+=($!)
"$PROCTOR" run -q --job beta -- sleep 312 &
pids+=($!)

# ---- the mouse ----

open_terminal "'$PROCTOR' top"
shows "its jobs are there" '^- beta'
shows "both of them" '^- alpha'
keys N g Space
selects "folded" '^\+ alpha'
mouse 0 5 7
selects "a click selects" '^- beta'
mouse 0 5 7
selects "a second one folds" '^\+ beta'
mouse 0 5 7
selects "and a third unfolds" '^- beta'
keys -l "$(printf '\e[M !(\e[M#!(')" # pressed and let go in one go
selects "a click is one, however fast" '^  - sheet 1'
clock=$(screen | sed -n '1s/.* //p')
hides "the clock goes on after the button was let go" " $clock\$"

# ---- jobs that wait ----

printf 'sheets:\n  - run: sleep 313\n' >"$TMP/wait.yaml"
"$PROCTOR" submit --job early "$TMP/wait.yaml" >/dev/null
"$PROCTOR" submit --job late "$TMP/wait.yaml" >/dev/null
shows "a job that waits has a row, and says why" '^  late queued: [0-9]+ jobs? runs? already'
shows "and is counted" 'jobs, [12] queued, '
"$PROCTOR" cancel late >/dev/null
hides "until it is gone" 'late queued'
"$PROCTOR" cancel early >/dev/null

# ---- two attempts of one job at once ----

job_runs() { # JOB N
	[ "$(json_eval "$("$PROCTOR" jobs --json)" \
		"sum(j['job_id'] == '$1' and j['status'] == 'running' for j in d)")" = "$2" ]
}
"$PROCTOR" run -q --job twin -- sleep 321 &
pids+=($!)
check "one runs" eventually job_runs twin 1
"$PROCTOR" run -q --job twin -- sleep 322 &
pids+=($!)
shows "each has a row" '^- twin#1 '
shows "of its own" '^- twin#2 '
keys Home / ; keys -l 'sleep 322'; keys Enter Up Up
selects "the second" '^- twin#2 '
keys x
shows "x is of that alone" 'cancel attempt 2 of the job twin and end all of it'
keys y
shows "and says so" '^attempt 2 of the job twin is being cancelled'
hides "and ends it" '^ +[0-9]+ sleep 322'
shows "the other goes on, and is alone now" '^- twin 1 '
json "as all know" "$("$PROCTOR" jobs --json)" \
	'{j["attempt"]: j["outcome"] for j in d if j["job_id"] == "twin"} == {1: None, 2: "cancelled"}'
"$PROCTOR" run -q --job twin -- sleep 323 &
pids+=($!)
shows "a third is there" '^- twin#3 '
run "$PROCTOR" cancel twin
is "without a number all that run are cancelled" "$status/$stdout" "0/2 attempts of twin are being ended"
hides "all of them" '^- twin'
keys g

# ---- what is over before anybody looks ----

printf 'sheets:\n  - run: exit 7\n' >"$TMP/short.yaml"
"$PROCTOR" submit --job short "$TMP/short.yaml" >/dev/null
shows "the end of a process of a short job is seen" 'process.exit pid [0-9]+ of short, sheet 1: exit code 7'
shows "and that of the job" 'job.failed of short'

"$PROCTOR" run -q --job long -- sh -c 'sleep 1.7; sleep 1; true' &
pids+=($!)
shows "a process that was seen has its command when it ends" \
	'process.exit pid [0-9]+ of long, sheet 1: exit code 0: sleep 1.7'

if "$PROCTOR" status | grep -q 'births, deaths.*eBPF'; then
	"$PROCTOR" run -q --job brief -- \
		sh -c 'for i in $(seq 600); do /bin/false; sleep 0.1; done' &
	pids+=($!)
	brief=$!
	shows "one that nobody has seen has its name" \
		'process.exit pid [0-9]+ of brief, sheet 1: exit code 1: (/bin/)?false$'
	kill -TERM "$brief"
	wait "$brief"
else
	skip "one that nobody has seen has its name" "without eBPF not every death has one"
fi

# ---- what is too young for anybody to have written down its sheet ----

cat >"$TMP/young.yaml" <<-'YAML'
	sheets:
	  - run: sleep 0.71
	  - run: sleep 0.72
	  - run: sleep 0.73
	  - run: sleep 0.74
	  - run: sleep 0.75
	  - run: sleep 0.76
	  - run: sleep 0.1
YAML
"$PROCTOR" submit --job young "$TMP/young.yaml" >/dev/null
shows "its end" 'job.completed of young'
run "$PROCTOR" sql --json "SELECT sheet_num, command FROM process_metrics
	WHERE job_id = 'young' AND command LIKE 'sleep 0.7%'"
json "a process is of its sheet from the first look on" "$stdout" \
	'len(d) >= 5 and all(p["command"] == "sleep 0.7%s" % p["sheet_num"] for p in d)'

# ---- keys that others have ----

keys F1
shows "F1 shows the keys" 'any key goes back'
keys Escape
keys F3
shows "F3 searches" '^search: _'
keys Escape
tty=$(pane list-panes -F '#{pane_tty}')
scribbled() { # what happens meanwhile is drawn over it
	printf '\e[20;1Hscribble' >"$tty"
	screen | grep -q scribble
}
check "somebody writes on the terminal" eventually scribbled
keys C-l
hides "Ctrl-L draws all of it anew" 'scribble'

# ---- what was before ----

recorded_for() { # JOB SECONDS
	[ "$(json_eval "$("$PROCTOR" history --job "$1" --json)" \
		"d[-1]['timestamp'] - d[0]['timestamp'] >= $2")" = True ]
}
check "it is recorded for a while" eventually recorded_for beta 30
run "$PROCTOR" run -q --job burst -- sh -c 'for i in $(seq 400); do /bin/true; done'
is "a job has many births" "$status" 0
close_terminal
open_terminal "'$PROCTOR' top"
shows "its jobs are there" '^- beta'
keys e
shows "births do not hide what was before them" 'job.started of burst'
keys e
keys p
shows "so that nothing more is seen" 'PAUSED'
pane resize-window -x 100 -y 60 # for all of the detail
keys / ; keys -l 'sleep 312'; keys Enter Enter
shows "a curve begins where the record does" '([2-9][0-9]s|[0-9]+m[0-9]+) ago'
keys Up
shows "that of a sheet too" 'job +beta, attempt 1, sheet 1'
shows "which is a sum" '([2-9][0-9]s|[0-9]+m[0-9]+) ago'
keys p Escape

# ---- a daemon that hangs ----

daemon=$(screen | sed -n '1s/.*daemon \([0-9]*\).*/\1/p')
kill -STOP "$daemon"
shows "a daemon that hangs is told" "daemon $daemon has not answered for [0-9]+ s, this is [0-9]+ s old"
keys '?'
shows "keys work all the same" 'any key goes back'
keys q
kill -CONT "$daemon"
shows "and goes on" "daemon $daemon, up"
keys q
close_terminal
kill -STOP "$daemon"
open_terminal "'$PROCTOR' top"
shows "one that hangs from the beginning is not called absent" "daemon $daemon has not answered"
keys q
ends_with "q quits" 0
kill -CONT "$daemon"
close_terminal

# ---- in the background ----

open_terminal "exec bash --norc --noprofile"
keys -l "'$PROCTOR' top --job alpha --interval 0.5"
keys Enter
shows "one job" '^- alpha'
hides "and of no other" 'beta'
keys C-z
shows "Ctrl-Z gives the terminal back" 'Stopped'
keys -l 'clear; kill %1; while kill -0 $(jobs -p) 2>/dev/null; do sleep 0.1; done; echo $((40 + 2)) gone'
keys Enter
shows "a signal ends it there too" '^42 gone'
close_terminal

# ---- a daemon that goes, and comes back ----

open_terminal "'$PROCTOR' top"
shows "its jobs are there" '^- beta'
keys p
shows "p pauses" PAUSED
run "$PROCTOR" stop
shows "one that is gone is missed" 'daemon is gone'
run "$PROCTOR" start
shows "and found again" 'proctor daemon [0-9]+'
shows "what was paused is there" '^- beta'
shows "and still paused" 'PAUSED'
keys p
run "$PROCTOR" stop
shows "a daemon that stays away is not waited for" 'looking every 2 s by itself'
shows "and its jobs are seen all the same" '^- beta'
keys F10
ends_with "F10 quits" 0
run "$PROCTOR" top --trace 1 --interval 2
is "--trace goes alone" "$status" 2
close_terminal

# ---- a daemon that may not be asked ----

if [ "$(id -u)" -eq 0 ]; then
	run "$PROCTOR" start
	cp "$PROCTOR" "$TMP/proctor"
	chmod 755 "$TMP" "$PROCTOR_HOME"
	open_terminal "setpriv --reuid=65534 --regid=65534 --clear-groups '$TMP/proctor' top"
	pane resize-window -x 80 -y 24
	shows "why it is not asked has room in 80 columns" \
		'^proctor looking every 2 s by itself: cannot connect: Permission denied  [0-9:]{8}$'
	keys q
	close_terminal
else
	skip "a daemon that may not be asked" "not root"
fi
finish
