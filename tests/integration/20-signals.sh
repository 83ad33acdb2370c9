#!/bin/bash
# Signals, terminals and process trees: the command meets them as without us,
# and nothing is left running.
. "$(dirname "$0")/lib.sh"
here=$(dirname "$0")

# Whether "sleep N" of this script runs, or does not any more: who else runs the same has another folder.
asleep() {
	local pid
	for pid in $(pgrep -fx -- "sleep $1"); do
		! tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "HOME=$TMP" || return 0
	done
	return 1
}
gone() { ! asleep "$1"; }

# ---- what is left behind ----
run "$PROCTOR" run -- sh -c 'sleep 1001 & exit 3'
is "the command's status counts" "$status" 3
check "nothing is left running" gone 1001
like "and that is said" "$stderr" '1 background process was still running'
run "$PROCTOR" run -q --kill-after 1s -- sh -c '(trap "" TERM; sleep 1002 & wait; sleep 1002) & exit 0'
check "not even what ignores SIGTERM" gone 1002
run "$PROCTOR" run -q -- sh -c '(sleep 1; echo done >"$0") & exit 0' "$TMP/slow"
is "what sleeps before it works may end by itself" "$(cat "$TMP/slow")" "done"
run "$PROCTOR" run -q --json --grace 200ms --kill-after 0.2s -- sh -c '(trap "" TERM; while :; do :; done) & exit 0'
json "parts of a second are understood" "$stdout" '0.4 <= d["wall_seconds"] < 5'
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
	run unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$@"' sh "$PROCTOR" run --grace 0s --kill-after 0s -- \
		sh -c 'sleep 1021 & echo $! >'"$TMP/left.1021"
	kill "$(cat "$TMP/left.1021")"
	like "what /proc does not show may still run" "$stderr" 'processes of the job may still run'
	unlike "and is not counted as nothing" "$stderr" ' 0 processes'
else
	skip "what /proc does not show may still run" "only root can take /proc away"
fi
run "$PROCTOR" run -q --json --grace 1s --kill-after 1s -- sh -c '(trap "" TERM; while :; do :; done) & exit 0'
json "the time of what burns on is in the wall time, and so the average is one" "$stdout" \
	'd["wall_seconds"] > 2 and d["avg_cpu_pct"] is not None and d["avg_cpu_pct"] < 150'
json "of its sheet as well, which ends then" "$stdout" \
	'(lambda s: s["wall_seconds"] > 2 and s["ended"] - s["started"] > 2)(d["sheet_metrics"]["1"])'
run "$PROCTOR" run -q -- sh -c 'setsid sh -c "sleep 1003 & sleep 1003" & sleep 0.2; exit 0'
check "nor what fled into its own session" gone 1003
run "$PROCTOR" run -q -- sh -c 'sleep 1004 & kill -STOP $!; exit 0'
check "nor what is stopped" gone 1004
run "$PROCTOR" run -q --leave-background -- sh -c 'sleep 1005 & echo $! >'"$TMP"'/left.1005'
check "--leave-background leaves it" asleep 1005
kill "$(cat "$TMP/left.1005")"

# ---- signals to the runner go to the command ----
for sig in TERM INT HUP USR1; do
	# What a script starts with & ignores SIGINT for good, and under nohup SIGHUP; a command of its own does not.
	env --default-signal="$sig" "$PROCTOR" run -q --job "sig-$sig" -- bash -c '
		trap "echo got '$sig' >>'"$TMP"'/got.'$sig'; exit 42" '$sig'
		touch '"$TMP"'/ready.'$sig'; while :; do sleep 0.05; done' &
	runner=$!
	eventually test -e "$TMP/ready.$sig"
	kill -"$sig" $runner
	wait $runner
	is "SIG$sig reaches the command" "$?" 42
	is "once" "$(grep -c got "$TMP/got.$sig")" 1
done
run "$PROCTOR" jobs --json
json "a job that was told to end is cancelled" "$stdout" \
	'[j["outcome"] for j in d if j["job_id"] == "sig-TERM"] == ["cancelled"]'
json "a signal that does not ask to end is none" "$stdout" \
	'[j["outcome"] for j in d if j["job_id"] == "sig-USR1"] == ["failure"]'
"$PROCTOR" run -q -- sleep 1006 &
runner=$!
eventually asleep 1006
kill -TERM $runner
wait $runner
is "a command that dies of it gives 143" "$?" 143

# ---- the terminal ----
cat >"$TMP/counts.sh" <<'EOF'
n=0
trap 'n=$((n + 1)); echo "got $n"' INT
echo ready
while [ $n -eq 0 ]; do sleep 0.1; done
sleep 0.5
echo "n=$n"
exit 5
EOF
out=$(python3 "$here/terminal.py" expect:ready,c "$PROCTOR" run -q -- bash "$TMP/counts.sh")
like "Ctrl-C reaches the command once" "$out" '^n=1$'
like "which may go on" "$out" '^status 5$'
cat >"$TMP/stubborn.sh" <<'EOF'
trap 'echo one' INT
trap '' TERM
(trap '' INT TERM; sleep 1007) &
echo ready
while :; do sleep 0.1; done
EOF
out=$(python3 "$here/terminal.py" expect:ready,c,expect:one,c "$PROCTOR" run -q -- bash "$TMP/stubborn.sh")
like "a second Ctrl-C kills it" "$out" '^status 137$'
check "and its whole tree" gone 1007
out=$(python3 "$here/terminal.py" expect:ready,c "$PROCTOR" run -q -- sh -c 'echo ready; sleep 1008')
like "a command that dies of Ctrl-C gives 130" "$out" '^status 130$'
# It waits to be stopped, at most half a minute: what was stopped goes on when the shell has said so.
out=$(python3 "$here/terminal.py" expect:READY,z bash --norc -ic \
	"\"$PROCTOR\" run -q -- sh -c 'echo READY; for i in \$(seq 300); do [ -e $TMP/stopped ] && break; sleep 0.1; done; echo went on'
	echo stopped \$?; touch $TMP/stopped; fg; echo after \$?")
like "Ctrl-Z stops the job as the shell sees it" "$out" 'stopped 148'
like "fg lets it go on" "$out" 'went on'
like "to its end" "$out" 'after 0'
out=$(python3 "$here/terminal.py" expect:READY bash --norc -ic \
	"\"$PROCTOR\" run -q -- sh -c 'echo READY; kill -STOP \$\$; echo went on'; echo stopped \$?; fg; echo after \$?")
like "a command that stops itself stops the job" "$out" 'stopped 147'
like "and goes on with it" "$out" 'went on'
out=$(python3 "$here/terminal.py" 0 "$PROCTOR" run -q -- sh -c 'test -t 0 && test -t 1 && test -t 2 && echo terminal')
like "the terminal is the command's" "$out" '^terminal$'

# ---- terminals that are not a shell's ----
cat >"$TMP/hup.py" <<'EOF'
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
end = time.monotonic() + 60
while os.system("pgrep -P %d -x sleep >/dev/null" % pid) != 0 and time.monotonic() < end:
    time.sleep(0.05)
if sys.argv[-1] == "2":  # stops and continues the command itself, not us
    child = int(os.popen("pgrep -P %d" % pid).read().split()[0])
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(child, signal.SIGCONT)
else:
    os.close(terminal)
while time.monotonic() < end:
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        print("ended", os.waitstatus_to_exitcode(status))
        sys.exit()
    time.sleep(0.05)
os.kill(pid, signal.SIGKILL)
print("hangs")
EOF
is "a hang-up reaches the command" "$(python3 "$TMP/hup.py" "$PROCTOR" run -q -- sleep 1014)" "ended 129"
check "which is gone" gone 1014
is "SIGSTOP and SIGCONT to the command alone do not freeze us" \
	"$(python3 "$TMP/hup.py" "$PROCTOR" run -q -- sleep 2)" "ended 0"
out=$(python3 "$here/terminal.py" expect:READY,0.3,c bash --norc -ic \
	"\"$PROCTOR\" run -q -- sh -c 'echo READY; exec timeout 60 sleep 1015'; echo after \$?")
like "Ctrl-C reaches a command that made its own process group" "$out" 'after 1[0-9][0-9]'
check "and ends it" gone 1015
out=$(python3 "$here/terminal.py" 1,type:typed bash --norc -ic \
	"\"$PROCTOR\" run -q -- timeout 50 sh -c 'read x; echo \"it read \$x\"'; echo after \$?")
like "and it may read the terminal" "$out" 'it read typed'
for sig in XCPU RTMIN VTALRM; do
	"$PROCTOR" run -q -- sleep 1016 &
	runner=$!
	eventually asleep 1016
	kill -"$sig" $runner
	wait $runner 2>/dev/null
	check "SIG$sig is the command's, and nothing is left" gone 1016
done
run perl -e 'alarm 1; exec @ARGV' "$PROCTOR" run -q -- sleep 1017
is "an alarm from before reaches the command" "$status" 142

# ---- time limits ----
cat >"$TMP/polite.yaml" <<'EOF'
job_id: polite
sheets:
  - run: trap 'exit 0' TERM; sleep 1012 & wait
    timeout: 1s
  - run: touch @TMP@/after-limit
EOF
sed -i "s|@TMP@|$TMP|" "$TMP/polite.yaml"
run "$PROCTOR" run -q --json -f "$TMP/polite.yaml"
is "a limit counts even if the command then exits 0" "$status" 124
check "and the next sheet is not run" [ ! -e "$TMP/after-limit" ]
cat >"$TMP/limit.yaml" <<'EOF'
job_id: limit
sheets:
  - run: sleep 1009
    timeout: 1s
EOF
run "$PROCTOR" run -q --json -f "$TMP/limit.yaml"
is "a time limit gives 124" "$status" 124
json "and is the outcome" "$stdout" 'd["outcome"] == "timeout"'
check "nothing is left of it" gone 1009
cat >"$TMP/left.yaml" <<'EOF'
job_id: left
sheets:
  - run: sleep 1018 & echo $! >"$LEFT"
  - run: sleep 1019
    timeout: 1s
EOF
SECONDS=0
LEFT=$TMP/left.1018 run "$PROCTOR" run -q --leave-background --kill-after 100s -f "$TMP/left.yaml"
is "a limit beside what was left running on purpose" "$status" 124
check "takes no longer for it" [ $SECONDS -lt 60 ]
check "and leaves it" asleep 1018
kill "$(cat "$TMP/left.1018")"

# ---- between two sheets ----
cat >"$TMP/two.yaml" <<EOF
job_id: two
sheets:
  - run: trap 'touch $TMP/told' TERM; touch $TMP/first; while [ ! -e $TMP/told ]; do sleep 0.1; done; exit 0
  - run: touch $TMP/second
EOF
"$PROCTOR" run -q -f "$TMP/two.yaml" &
runner=$!
eventually test -e "$TMP/first"
kill -TERM $runner
wait $runner
is "a job that was told to end does not start its next sheet" "$?" 143
check "it has not" [ ! -e "$TMP/second" ]

# ---- the job goes on whatever happens to us ----
"$PROCTOR" run -q --job orphaned -- sh -c "touch $TMP/began; $(gate orphaned); touch $TMP/survived" &
runner=$!
eventually test -e "$TMP/began"
is_listed() { "$PROCTOR" jobs --json | grep -q '"job_id":"orphaned"'; }
eventually is_listed
kill -KILL $runner
wait $runner 2>/dev/null
pass orphaned
check "kill -9 of the runner does not end the command" eventually test -e "$TMP/survived"
run "$PROCTOR" jobs --json
json "its end is unknown, not invented" "$stdout" \
	'[(j["status"], j["outcome"], j["lost"]) for j in d if j["job_id"] == "orphaned"] == [("done", None, True)]'
run "$PROCTOR" jobs
like "and people are told why it has no outcome" "$stdout" \
	'^orphaned .* lost +its runner, process [0-9]+ on .*, is gone or silent, and wrote no end$'
run "$PROCTOR" report orphaned
is "it has a report" "$status" 0

finish
