#!/bin/bash
# Why a job ended: what it was doing when its time was up, which process failed first, who sent the signal,
# whether memory or the disk was short. And "proctor stack", which shows the same of a job that runs.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
FAULTS=$INTEGRATION/faults.py
lock=$TMP/lock

# reason JOB: as recorded.
reason() { json_eval "$("$PROCTOR" report "$1" --json)" 'd["reason"]'; }

# ---- a time limit ----
flock -o "$lock" sleep 60 &
holder=$!
eventually sh -c "! flock -n '$lock' true"
cat >"$TMP/late.yaml" <<EOF
job_id: late
sheets:
  - run: [flock, $lock, "true"]
    timeout: 0.5s
EOF
run "$PROCTOR" run -f "$TMP/late.yaml"
is "a time limit: status" "$status" 124
like "names the lock and its holder" "$(reason late)" \
	"^time limit of 0.5 s reached; flock \(pid [0-9]+\) was waiting for a lock on $lock, held by flock \(pid $holder\); killed by SIGTERM\$"
like "in the second line of the summary" "$(sed -n 2p <<<"$stderr")" "waiting for a lock on $lock"
like "and in the list of jobs" "$("$PROCTOR" jobs --json)" "waiting for a lock on $lock"
run "$PROCTOR" events --job late --json
like "the signal's event says what its process was doing" "$stdout" \
	'"details":"sent by proctor; it was waiting for a lock on '

# ---- stack ----
"$PROCTOR" run -q --job stuck -- sh -c "flock $lock true | cat; :" &
runner=$!
waits() { "$PROCTOR" stack stuck 2>/dev/null | grep -q 'pipe, written by flock'; }
eventually waits
run "$PROCTOR" stack stuck
is "stack works" "$status" 0
like "names the process that explains most first" "$(head -n 1 <<<"$stdout")" \
	"^flock \(pid [0-9]+\) is waiting for a lock on $lock, held by flock \(pid $holder\)\$"
like "a pipe has its writer" "$stdout" 'cat +waiting for data from a pipe, written by flock \(pid [0-9]+\)'
run "$PROCTOR" stack stuck --json
json "as JSON" "$stdout" \
	'[(p["waits_for"], p["other_pid"]) for p in d if p["explains"]] == [("file_lock", '"$holder"')]'
cp "$TMP/stdout" "$TMP/stack.json"
is "its fields are those of docs/output.md" \
	"$(python3 "$INTEGRATION/page_fields.py" json "$SOURCE_ROOT/docs/output.md" "stack --json" "$TMP/stack.json" 2>&1)" ""
run "$PROCTOR" stack "$holder"
like "by pid, with what it has started" "$stdout" 'sleep +sleeping \(clock_nanosleep\)'
if [ "$(id -u)" -eq 0 ]; then
	run "$PROCTOR" stack stuck --kernel
	like "with the kernel's functions" "$stdout" 'held by flock.*; .*lock.* '
else
	skip "with the kernel's functions" "root alone may see them"
fi
kill "$(pgrep -P "$holder")"
wait "$runner"
run "$PROCTOR" stack stuck
is "a job that is over: status" "$status" 1
like "a job that is over: what would be right" "$stderr" "'stuck' is neither a running job nor a process"
run "$PROCTOR" stack
is "no job: status" "$status" 2
like "no job: what would be right" "$stderr" 'proctor stack JOB\|PID'

# ---- the first process to fail ----
"$PROCTOR" run -q --job chain -- sh -c 'grep -q x /dev/null; sh -c "ls /proctor-none 2>/dev/null; exit \$?" || exit 9'
if [ "$(json_eval "$("$PROCTOR" doctor --json)" '[r["rung"] for r in d["rungs"] if r["measurement"].startswith("births")][0]')" != "subreaper wait4 and /proc polling" ]; then
	like "a failure that was followed by another" "$(reason chain)" \
		'^exit code 9; the last to fail before it was ls \(pid [0-9]+\), with exit code 2$'
	"$PROCTOR" run -q --job passed -- bash -c 'set -e; sh -c "ls /proctor-none; exit \$?" 2>/dev/null; echo no'
	like "a failure that was passed on" "$(reason passed)" '^exit code 2; ls \(pid [0-9]+\) failed first$'
	"$PROCTOR" run -q --job handled -- python3 -S -c 'import subprocess, time, sys
subprocess.run(["sh", "-c", "exit 4"]); time.sleep(0.5); sys.exit(3)'
	is "one that was handled is not to blame" "$(reason handled)" "exit code 3"
	"$PROCTOR" run -q --job helper -- bash -c 'sleep 60 & kill $!; wait; exit 3'
	is "nor a helper that the job ends itself" "$(reason helper)" "exit code 3"
else
	skip "a failure that was passed on" "the kernel does not report ends to this user"
fi
"$PROCTOR" run -q --job own -- sh -c 'ls /proctor-none 2>/dev/null; /bin/true; exit 4'
is "one that was ignored is not to blame" "$(reason own)" "exit code 4"

if [ "$(id -u)" -ne 0 ] || ! "$PROCTOR" status >/dev/null 2>&1; then
	json "failing calls were not observed, which the report has" "$("$PROCTOR" report own --json)" \
		'"failed_calls" in [u["what"] for u in d["unknown"]]'
fi

# ---- the sender of a signal ----
cat >"$TMP/killer" <<'EOF'
#!/bin/bash
kill -TERM "$1"; sleep 0.2
EOF
chmod +x "$TMP/killer"
"$PROCTOR" run -q --job sent -- sleep 60 &
runner=$!
is_up() { "$PROCTOR" jobs --json | grep -q '"sent"'; }
eventually is_up
eventually pgrep -P "$runner" sleep
"$TMP/killer" "$runner"
wait "$runner"
like "who ended the job is named" "$(reason sent)" 'SIGTERM from killer \(pid [0-9]+\)$'

# ---- a full disk ----
if [ "${OWN_MOUNTS:-}" = yes ] && mkdir "$TMP/full" && mount -t tmpfs -o size=1m tmpfs "$TMP/full"; then
	run env -C "$TMP/full" "$PROCTOR" run --job full -- dd if=/dev/zero of=big bs=64k count=64
	like "a full disk is named" "$(reason full)" "^exit code 1; the disk of $TMP/full is full"
	rm "$TMP/full/big"
	run env -C "$TMP/full" "$PROCTOR" run --job roomy -- sh -c 'exit 1'
	unlike "and not one with room" "$(reason roomy)" "full;|full\$"
	umount "$TMP/full"
else
	skip "a full disk is named" "no file system can be mounted here"
fi

# ---- out of memory in a cgroup, without a daemon ----
in_cgroup() { # JOB COMMAND
	# shellcheck disable=SC2016 # it is the other shell's
	sh -c 'echo $$ >"$1/cgroup.procs" && exec "$2" run -q --job "$3" -- sh -c "$4"' sh "$cgroup" "$PROCTOR" "$1" "$2"
}
if make_cgroup 2>"$TMP/refused"; then
	in_cgroup hidden "python3 $FAULTS eat 1; exit 5" 2>/dev/null
	is "the status is the command's" "$?" 5
	like "its child was OOM-killed, and that is the reason" "$(reason hidden)" '^exit code 5; .*out-of-memory kills rose by 1'
	json "and the outcome" "$("$PROCTOR" report hidden --json)" 'd["outcome"] == "oom"'
	in_cgroup survived "python3 $FAULTS eat 1; exit 0" 2>/dev/null
	json "one that goes on after it succeeds" "$("$PROCTOR" report survived --json)" 'd["outcome"] == "success"'
	json "with an event" "$("$PROCTOR" report survived --json)" '[e["event_type"] for e in d["events"]].count("oom") == 1'
	json "and an anomaly" "$("$PROCTOR" report survived --json)" '"oom_kill" in [a["anomaly_type"] for a in d["anomalies"]]'
	"$PROCTOR" run -q --job killed -- sh -c 'kill -9 $$'
	is "a plain SIGKILL is none" "$(json_eval "$("$PROCTOR" report killed --json)" 'd["outcome"]')" failure
	eventually rmdir "$cgroup"
else
	skip "out of memory in a cgroup" "no cgroup can be made here: $(cat "$TMP/refused")"
fi

# ---- beside a daemon that sees signals ----
start_daemon 'ebpf_enabled: true'
if [ "$(json_eval "$("$PROCTOR" status --json)" 'd["rungs"]["OOM kills"]')" = "eBPF oom tracepoint" ]; then
	"$PROCTOR" run -q --job shot -- sh -c 'sleep 60; exit 3' &
	runner=$!
	eventually sh -c "pgrep -P \$(pgrep -P $runner sh) sleep"
	kill -KILL "$(pgrep -P "$(pgrep -P "$runner" sh)" sleep)"
	wait "$runner"
	like "who killed a command's child is named" "$(reason shot)" \
		"^exit code 3; sleep \\(pid [0-9]+\\) was killed by SIGKILL, sent by $$ "
	if [ "${OWN_MOUNTS:-}" = yes ] && mkdir "$TMP/small" && mount -t tmpfs -o size=1m tmpfs "$TMP/small"; then
		"$PROCTOR" run -q --job wrote -- dd if=/dev/zero of="$TMP/small/big" bs=64k count=64 2>"$TMP/stderr"
		like "the call that failed, with its file" "$(reason wrote)" \
			"^exit code 1; write to $TMP/small/big failed: No space left on device \\(ENOSPC\\); it printed: dd: "
		umount "$TMP/small"
	else
		skip "the call that failed, with its file" "no file system can be mounted here"
	fi
	"$PROCTOR" run -q --job missing -- sh -c 'cat /proctor-none/x 2>&1 >/dev/null; exit 1' >"$TMP/piped"
	is "what it prints goes where it went" "$(cat "$TMP/piped")" "cat: /proctor-none/x: No such file or directory"
	like "a missing file" "$(reason missing)" 'openat of /proctor-none/x failed: No such file or directory \(ENOENT\)'
	is "is the cause" "$(json_eval "$("$PROCTOR" why missing --json)" 'd["cause"]')" missing_file
	"$PROCTOR" run -q --job refused -- python3 -S -c 'import socket
s = socket.socket(); s.connect(("127.0.0.1", 9))' 2>/dev/null
	like "a refused connection" "$(reason refused)" 'connect to 127.0.0.1:9 failed: Connection refused'
	"$PROCTOR" run -q --job own-code -- python3 -S -c 'import sys; sys.exit(3)'
	is "a search for files is no cause" "$(reason own-code)" "exit code 3"
	"$PROCTOR" run -q --job secret -- sh -c 'echo "--password=hunter2 refused" >&2; exit 1' 2>/dev/null
	is "secrets are masked" "$(reason secret)" "exit code 1; it printed: --password=*** refused"
	"$PROCTOR" run -q --capture=off --job hush -- sh -c 'echo no >&2; exit 1' 2>/dev/null
	is "--capture=off keeps nothing" "$(reason hush)" "exit code 1"
	flock -o "$lock" sleep 1 &
	eventually sh -c "! flock -n '$lock' true"
	"$PROCTOR" run -q --syscalls=auto --job locked -- flock "$lock" true
	is "the call that took longest comes first, though it waited" \
		"$("$PROCTOR" report locked | grep -A 2 '^System calls' | tail -n 1 | awk '{ print $1 }')" flock
else
	skip "who killed a command's child is named" "the kernel does not report signals to this user"
	skip "the call that failed, with its file" "the kernel does not report calls to this user"
	skip "the call that took longest comes first" "system calls are not counted for this user"
fi
finish
