#!/bin/bash
# The cgroup of a job: limits that the kernel enforces, what it has counted, and that no process survives.
. "$(dirname "$0")/lib.sh"

python=/usr/bin/python3
# In v2 a cgroup with processes passes no controllers on. One without limits just below the root is as good as the
# root, which does.
if [ "$(id -u)" -eq 0 ] && [ -e /sys/fs/cgroup/cgroup.controllers ] &&
	mkdir "/sys/fs/cgroup/test-limits-$$" 2>/dev/null; then
	echo $$ >"/sys/fs/cgroup/test-limits-$$/cgroup.procs"
	leave() {
		echo $$ >/sys/fs/cgroup/cgroup.procs
		rmdir "/sys/fs/cgroup/test-limits-$$"
		clean_up
	}
	trap '[ "$BASHPID" != $$ ] || leave' EXIT
fi
note="cat /proc/self/cgroup >>$TMP/cgroup;"
# folders: of the cgroups that jobs with $note were in since the last call.
folders() {
	grep -o 'proctor-[0-9a-f]*' "$TMP/cgroup" | sort -u | while read -r name; do
		find /sys/fs/cgroup -maxdepth 6 -type d -name "$name" 2>/dev/null
	done
	rm -f "$TMP/cgroup"
}
ok_if() { # NAME STATUS
	is "$1" "$2" 0
}

# Bad input is refused before anything runs.
refused() { # NAME PATTERN ARG...
	local name=$1 pattern=$2
	shift 2
	run "$PROCTOR" run "$@" -- touch "$TMP/ran"
	is "$name: a usage error" "$status" 2
	like "$name: what would be right" "$stderr" "$pattern"
}
refused "a memory limit without a unit" "wants a unit: '8M' or '8G'" --memory 8
refused "a negative one" "at least 4M" --memory -1G
refused "a word" "at least 4M" --memory much
refused "one that starts no program" "at least 4M" --memory 64K
refused "no process" "--pids" --pids 0
refused "no core" "number of cores" --cpus 0
refused "no time" "length of time" --timeout 0s
refused "a time without a unit" "wants a unit: '5s' or '5m'" --timeout 5
[ ! -e "$TMP/ran" ]
ok_if "nothing ran" $?
printf 'limits: {memory: 12}\nsheets:\n  - run: touch %s/ran\n' "$TMP" >"$TMP/bad.yaml"
run "$PROCTOR" run -f "$TMP/bad.yaml"
is "a job file with a limit that is none is refused" "$status" 2
like "with its line" "$stderr" "bad.yaml:1: .*512M"

# Without a cgroup samples watch the limits.
cat >"$TMP/grow.py" <<'EOF2'
import time
held = []
for _ in range(60):
    held.append(bytearray(b"x" * (10 << 20)))
    time.sleep(0.1)
EOF2
run "$PROCTOR" run --cgroup=off --memory 100M --json -- "$python" "$TMP/grow.py"
json "beyond the limit the job is ended" "$stdout" 'd["outcome"] == "oom"'
json "the reason names the limit and the sample" "$stdout" \
	'd["reason"].startswith("memory limit of 100 MB exceeded: a sample shows 1")'
json "the report states that samples watched it" "$stdout" \
	'any(u["what"] == "limits" and "not enforced by the kernel: memory" in u["why"] for u in d["unknown"])'
json "and has the limit, but no numbers of a cgroup" "$stdout" \
	'd["memory_limit_mb"] == 100 and d["cgroup_peak_memory_mb"] is None'

run "$PROCTOR" run --json -- true
if [ "$(json_eval "$stdout" 'd["cgroup_cpu_seconds"] is None')" = True ]; then
	skip "a cgroup for each job" "this user can make none here"
	finish
fi
run "$PROCTOR" run -q -- sh -c "$note grep -c proctor- /proc/self/cgroup"
is "nothing is left of the cgroup" "$(folders)" ""
ok_if "the command is in it" "$([ "$stdout" -gt 0 ]; echo $?)"
run "$PROCTOR" run -q --cgroup=off -- grep -c proctor- /proc/self/cgroup
is "but not with --cgroup=off" "$stdout" 0
run "$PROCTOR" run -q -- sed -n 's/^wchar: //p' /proc/self/io
is "on its way there it has written nothing" "$stdout" 0

# Whatever a process does to get away, it ends with the job.
cat >"$TMP/escape.sh" <<'EOF2'
trap '' TERM HUP INT
setsid sh -c 'trap "" TERM; sleep 1031' &
nohup sleep 1032 >/dev/null 2>&1 &
(setsid sh -c '(trap "" TERM; sleep 1033 &) &' &)
(unshare -pf --mount-proc sh -c 'trap "" TERM; sleep 1034 & sleep 1035' 2>/dev/null || sleep 1034) &
sh -c 'kill -STOP $$; sleep 1036' &
sh -c 'exec -a "[kworker]" sleep 1037' &
sleep 1038
EOF2
run "$PROCTOR" run --timeout 1s --kill-after 300ms --json -- bash -c "$note . $TMP/escape.sh"
json "time-out" "$stdout" 'd["outcome"] == "timeout"'
left=$(pgrep -f 'sleep 103[1-8]')
is "0 survivors" "$left" ""
is "and no cgroup" "$(folders)" ""

# The runner is killed: the job goes on, and the next run removes what is left of its cgroup.
"$PROCTOR" run -q -- sh -c "$note echo \$\$ >$TMP/pid; while [ ! -e $TMP/go ]; do sleep 0.05; done" &
runner=$!
eventually test -s "$TMP/pid"
kill -9 "$runner"
wait "$runner" 2>/dev/null
"$PROCTOR" run -q -- true
ok_if "the job of a killed runner is left alone" "$(kill -0 "$(cat "$TMP/pid")"; echo $?)"
: >"$TMP/go"
eventually sh -c "! kill -0 $(cat "$TMP/pid") 2>/dev/null"
"$PROCTOR" run -q -- true
is "the next run removes its cgroup" "$(folders)" ""

run "$PROCTOR" run --memory 1000G --pids 9999 --cpus 64 --json -- true
if [ "$(json_eval "$stdout" 'any(u["what"] == "limits" for u in d["unknown"])')" = True ]; then
	skip "limits that the kernel enforces" "no cgroup here passes the controllers on"
	finish
fi

# Memory.
run "$PROCTOR" run --memory 100M --json -- "$python" -c 'x = bytearray(3 << 30)'
json "3 GB are too many for 100 MB" "$stdout" 'd["outcome"] == "oom" and d["signal"] == 9'
json "the reason names the limit" "$stdout" '"the job'"'"'s memory limit of 100 MB was reached" in d["reason"]'
json "the kernel has counted it" "$stdout" \
	'd["memory_limit_hits"] > 0 and d["cgroup_oom_kills"] == 1 and 80 < d["cgroup_peak_memory_mb"] <= 100.1'
cat >"$TMP/pages.py" <<'EOF2'
import mmap, os, sys
n, mb = int(sys.argv[1]), int(sys.argv[2])
ready, hold = os.pipe(), os.pipe()
for _ in range(n):
    if os.fork() == 0:
        os.close(hold[1])
        m = mmap.mmap(-1, mb << 20)
        for at in range(0, mb << 20, 4096):
            m[at] = 1
        os.write(ready[1], b"x")
        os.read(hold[0], 1)
        os._exit(0)
for _ in range(n):
    os.read(ready[0], 1)
os.close(hold[1])
EOF2
run "$PROCTOR" run --memory 2G --json -- "$python" "$TMP/pages.py" 50 2
few=$(json_eval "$stdout" 'd["cgroup_peak_memory_mb"]')
run "$PROCTOR" run --memory 2G --json -- "$python" "$TMP/pages.py" 50 12
json "the peak of 50 processes at one moment is within 1 %" "$stdout" \
	"abs(d['cgroup_peak_memory_mb'] - $few - 500) <= 6"
json "as is their number" "$stdout" 'd["cgroup_peak_tasks"] is None or d["cgroup_peak_tasks"] == 51'

# The parent ignores SIGCHLD, so wait4() has no account of its child.
run "$PROCTOR" run --json -- "$python" -c '
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    while time.process_time() < 0.5: pass
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass'
json "CPU time that was not waited for is counted" "$stdout" \
	'd["evidence"]["total_cpu_seconds"] == "exact" and d["total_cpu_seconds"] >= 0.5'

# Processes: a bomb does not go off, and all of it ends with the time.
run "$PROCTOR" run --pids 60 --timeout 1s --kill-after 200ms --json -- \
	sh -c "$note"'trap "" TERM; b() { b | b & }; b; sleep 50'
json "a fork bomb ends with its time" "$stdout" 'd["outcome"] == "timeout"'
json "starts were refused" "$stdout" 'd["pids_limit_hits"] > 0 and (d["cgroup_peak_tasks"] or 0) <= 60'
is "none of its processes is left" "$(folders)" ""

# CPU time.
run "$PROCTOR" run --cpus 0.2 --json -- timeout 1 sh -c 'while :; do :; done'
json "a fifth of a core" "$stdout" 'd["throttled_seconds"] > 0 and d["total_cpu_seconds"] < 0.6'

# Job files.
printf 'limits: {memory: 100M, pids: 50, cpus: 1.5}\nsheets:\n  - run: [%s, -c, "x = bytearray(1 << 30)"]\n' \
	"$python" >"$TMP/limits.yaml"
run "$PROCTOR" run -f "$TMP/limits.yaml" --json
json "limits of a job file" "$stdout" \
	'd["outcome"] == "oom" and [d[k] for k in ("memory_limit_mb", "pids_limit", "cpus_limit")] == [100, 50, 1.5]'
run "$PROCTOR" run -f "$TMP/limits.yaml" --memory 200M --json
json "those of the command line come first" "$stdout" 'd["memory_limit_mb"] == 200'
run "$PROCTOR" report limits
like "the report has the limit" "$stdout" 'memory limit +200 MB, times reached'

# A folder of another program is left alone, though its name begins alike.
parent=$(sed -n 's/^[0-9]*:pids://p' /proc/self/cgroup)
parent=/sys/fs/cgroup/${parent:+pids}${parent:-$(sed -n 's/^0:://p' /proc/self/cgroup)}
mkdir "$parent/proctor-of-others"
"$PROCTOR" run -q -- true
ok_if "a cgroup of another program stays" "$(test -d "$parent/proctor-of-others"; echo $?)"
rmdir "$parent/proctor-of-others"

# Many at once.
for i in $(seq 40); do
	"$PROCTOR" run -q --memory 64M --pids 20 --job many -- sh -c "$note exit 7" &
	pids[i]=$!
done
failed=0
for i in $(seq 40); do
	wait "${pids[i]}"
	[ $? -eq 7 ] || failed=$((failed + 1))
done
is "40 at once with limits" "$failed" 0
is "leave no cgroup" "$(folders)" ""
finish
