#!/bin/bash
# The rungs that need the kernel's help, what is said where it does not give it, and full traces.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"

rung() { # MEASUREMENT: that rung, and why no better
	json_eval "$stdout" 'd["rungs"]["'"$1"'"] + " | " + d["rung_reasons"]["'"$1"'"]'
}

# ---- doctor ----
run "$PROCTOR" doctor --json
is "doctor works" "$status" 0
json "each rung has a name, and a reason or none" "$stdout" \
	'set(d["rungs"]) == set(d["rung_reasons"]) and all(d["rungs"].values())'
best_samples=$(json_eval "$stdout" 'd["rungs"]["process samples"]')
case $(rung 'process samples') in
'eBPF task iterator | ')
	is "births and deaths by eBPF as well" "$(rung 'births, deaths, exit codes')" \
		'eBPF fork, exec and exit events | '
	is "and system calls" "$(rung 'syscall counts and time')" 'eBPF counts per process and call | '
	;;
*)
	like "without eBPF there is a reason" "$(rung 'process samples')" '^/proc \| .+'
	;;
esac

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	chmod 711 "$TMP"
	PROCTOR_HOME=$TMP/nobody
	mkdir "$PROCTOR_HOME" && chown 65534 "$PROCTOR_HOME"
	run setpriv --reuid 65534 --clear-groups "$PROCTOR" doctor --json
	like "another user gets /proc, and is told why" "$(rung 'process samples')" '^/proc \| .*(root|no eBPF)'
	like "and no OOM tracepoint" "$(rung 'OOM kills')" '^(cgroup|a guess|unknown)'
	like "and is not promised what only who asks for it gets" "$(rung 'syscall counts and time')" \
		'^unknown \| .*(root|no eBPF).*strace'
	json "there is no daemon to ask" "$stdout" 'd["daemon_rungs"] is None'
	if command -v strace >/dev/null; then
		run setpriv --reuid 65534 --clear-groups "$PROCTOR" doctor
		like "but is told how to ask" "$stdout" 'a run that asks for it: strace -c \(--syscalls=strace\)'
		echo 'strace_enabled: true' >"$PROCTOR_HOME/proctor.yaml"
		run setpriv --reuid 65534 --clear-groups "$PROCTOR" doctor --json
		json "unless the configuration asks" "$stdout" \
			'd["run_rungs"]["syscall counts and time"] == "strace -c"'
		rm "$PROCTOR_HOME/proctor.yaml"
	fi
	PROCTOR_HOME=$TMP/home
fi

# ---- when only parts are refused ----

if [ "$(id -u)" -eq 0 ] && setpriv --bounding-set=-net_admin true 2>/dev/null; then
	run setpriv --bounding-set=-sys_admin,-bpf,-perfmon "$PROCTOR" doctor --json
	like "without CAP_BPF the next rung is taken" "$(rung 'births, deaths, exit codes')" \
		'^(netlink proc connector \+ taskstats|subreaper.*) \| .*(root|no eBPF|container)'
	run setpriv --bounding-set=-sys_admin,-bpf,-perfmon,-net_admin "$PROCTOR" doctor --json
	like "without CAP_NET_ADMIN it has no accounts" "$(rung 'births, deaths, exit codes')" \
		'^(netlink proc connector \| .*taskstats|subreaper.*)'
	unlike "which has nothing to do with OOM kills" "$(rung 'OOM kills')" taskstats
	if [[ $best_samples == eBPF* ]]; then
		run setpriv --bounding-set=-all,+bpf,+perfmon "$PROCTOR" doctor --json
		like "these two are enough" "$(rung 'syscall counts and time')" '^eBPF'
		run setpriv --bounding-set=-all,+bpf "$PROCTOR" doctor --json
		like "one is not, and the other is named" "$(rung 'syscall counts and time')" 'CAP_PERFMON beside CAP_BPF'
	fi
fi
mkdir -p "$PROCTOR_HOME"
echo 'ebpf_enabled: false' >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" doctor --json
like "what the configuration forbids is not promised" "$(rung 'process samples')" '^/proc \| ebpf_enabled'
like "of no measurement" "$(rung 'births, deaths, exit codes')" '\| ebpf_enabled'
echo 'syscalls_enabled: false' >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" doctor --json
like "system calls by themselves" "$(rung 'syscall counts and time')" '^unknown \| (syscalls_enabled|ebpf|no eBPF)'
rm "$PROCTOR_HOME/proctor.yaml"

# ---- the daemon ----

begin_daemon() { # CONFIGURATION
	start_daemon "$1"
	run "$PROCTOR" status --json
}

begin_daemon 'interval_seconds: 0.2'
is "the daemon takes the best there is" "$(json_eval "$stdout" 'd["rungs"]["process samples"]')" \
	"$best_samples"
run "$PROCTOR" doctor --json
json "and doctor asks the one that runs" "$stdout" \
	'd["daemon_rungs"]["process samples"] == "'"$best_samples"'"'
run "$PROCTOR" status --json
check "and no more memory than it may" [ "$(json_eval "$stdout" 'd["rss_mb"] < 24')" = True ]
has_samples() { # JOB CALL: one of them has that call
	"$PROCTOR" sql --json "SELECT syscall_counts FROM process_metrics
		WHERE job_id = '$1' AND syscall_counts LIKE '%$2%'" | grep -q "$2"
}
"$PROCTOR" run -q --job calls -- sh -c 'call() { dd if=/dev/zero of=/dev/null bs=1 count=100000 2>/dev/null; }
	until [ -e "$0" ]; do call; sleep 0.4; done; call; sleep 0.4' "$TMP/passed.calls" &
[[ $best_samples != eBPF* ]] || check "samples have them" eventually has_samples calls write
pass calls
wait $!
counted() {
	"$PROCTOR" report calls --format json | grep -q '"syscalls":\['
}
if [[ $best_samples == eBPF* ]]; then
	check "its calls are told soon after its end" eventually counted
	sh -c "$(gate joined); dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null; sleep 0.5" &
	"$PROCTOR" attach --pid $! --job joined
	eventually has_samples joined wait4
	pass joined
	wait $!
	counted() { "$PROCTOR" report joined --format json | grep -q '"syscalls":\['; }
	check "so are those of an attached job" eventually counted
	run "$PROCTOR" report joined --format json
	json "all of them" "$stdout" '{c["name"]: c["count"] for c in d["syscalls"]}["write"] >= 5000'
	json "since it was attached, which is not all" "$stdout" 'd["evidence"]["syscall_hotspots"] == "sampled"'
	json "and nothing denies it" "$stdout" \
		'd["rungs"]["syscall counts and time"].startswith("eBPF") and "syscall_hotspots" not in [u["what"] for u in d["unknown"]]'
fi
if [[ $best_samples == eBPF* ]]; then
	# shellcheck disable=SC2016 # the shell inside counts
	"$PROCTOR" run -q --job fast -i 0.1 -- sh -c 'i=0; while [ $i -lt 15 ]; do sleep 0.15; i=$((i + 1)); done'
	check "a run that looks more often than the daemon has its counts in its samples" \
		test "$("$PROCTOR" sql --json "SELECT count(syscall_counts) AS n FROM process_metrics WHERE job_id = 'fast'" | grep -o '[0-9]*')" -gt 0
	"$PROCTOR" run -q --syscalls=auto --job asked -- sh -c "$(gate asked)" &
	shows_calls() { timeout 5 "$PROCTOR" top --json --job asked | head -n 3 | grep -q '"syscall_counts":{"'; }
	check "top has the calls of a run that was asked to count them" eventually shows_calls
	pass asked
	wait $!
	run "$PROCTOR" report asked --json
	json "and its record has all" "$stdout" 'd["evidence"]["syscalls"] == "exact" and d["syscalls"]'" != []"
	n_short=0
	for i in 1 2 3 4; do
		"$PROCTOR" run -q --job "short$i" -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do /bin/true; done; :'
		run "$PROCTOR" report "short$i" --json
		n_short=$((n_short + $(json_eval "$stdout" \
			'sum(int(u["why"].split()[0]) for u in d["unknown"] if "had not done with" in u["why"])')))
	done
	run "$PROCTOR" status --json
	json "whose end a record does not have in full is counted, also of the last moment" "$stdout" \
		'd["process_accounts_missing"] >= '"$n_short"

	# Of a process with threads /proc does not know how often it waited.
	samples() { # CONDITION: how many there are
		"$PROCTOR" sql --json "SELECT count(*) AS n FROM process_metrics
			WHERE job_id = 'fed' AND threads = 2 AND $1" | grep -o '[0-9]*'
	}
	more_than() { # N CONDITION
		[ "$(samples "$2")" -gt "$1" ]
	}
	"$PROCTOR" run -q --job fed -- python3 -c 'if True:
		import os, sys, threading, time
		threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
		while os.path.isdir(sys.argv[1]) and not os.path.exists(sys.argv[2]): time.sleep(0.1)' \
		"$TMP" "$TMP/passed.fed" &
	check "a run begins by /proc" eventually more_than 0 "voluntary_switches IS NULL"
	check "and takes the samples of the daemon once it looks as seldom" \
		eventually more_than 2 "voluntary_switches IS NOT NULL"
	kill -KILL "$(daemon_pid)"
	n=$(samples "voluntary_switches IS NULL")
	check "when the daemon dies it reads /proc again" eventually more_than $((n + 3)) "voluntary_switches IS NULL"
	n=$(samples "voluntary_switches IS NOT NULL")
	"$PROCTOR" start >/dev/null
	check "and goes on with those of the next daemon" eventually more_than $((n + 2)) "voluntary_switches IS NOT NULL"
	pass fed
	wait $!
	run "$PROCTOR" report fed --json
	json "the rung is in its record" "$stdout" \
		'd["rungs"]["process samples"] == "/proc; by the daemon: eBPF task iterator"'
	json "no rate is of counters of two rungs" \
		"$("$PROCTOR" sql --json "SELECT max(cpu_percent) AS most FROM process_metrics WHERE job_id = 'fed'")" \
		'd[0]["most"] < 250'
fi
"$PROCTOR" stop
run "$PROCTOR" report calls --format json
if [[ $best_samples == eBPF* ]]; then
	json "the daemon has counted system calls" "$stdout" \
		'{c["name"]: c["count"] for c in d["syscalls"]}["write"] > 90000'
	json "and says how sure it is" "$stdout" 'd["evidence"]["syscall_hotspots"] == "sampled"'
	json "of the job's own processes, and nobody else" "$stdout" \
		'sum(c["count"] for p in d["processes"] for c in p["syscalls"] or []) == sum(c["count"] for c in d["syscalls"])'
	json "waiting is no work" "$stdout" \
		'[c for c in d["syscalls"] if c["name"] == "wait4"][0]["cpu_seconds"] < 0.2'
	json "shares are of the time on a CPU" "$stdout" \
		'99 < sum(d["syscall_hotspots"].values()) < 101 and d["syscall_hotspots"]["write"] > 10'
	json "nothing is missed then" "$stdout" \
		'"syscall_hotspots" not in [u["what"] for u in d["unknown"]]'
	run "$PROCTOR" report calls
	like "the report has them" "$stdout" 'System calls \(at least'
else
	json "nobody counted, which is not none" "$stdout" 'd["syscall_hotspots"] is None'
fi
begin_daemon 'ebpf_enabled: false'
is "it can be switched off" "$(json_eval "$stdout" 'd["rungs"]["process samples"]')" /proc
json "what it is never told cannot be missing" "$stdout" 'd["process_accounts_missing"] is None'
unlike "for births and deaths too" "$(json_eval "$stdout" 'd["rungs"]["births, deaths, exit codes"]')" eBPF
"$PROCTOR" stop
rm "$PROCTOR_HOME/proctor.yaml"

# ---- a run that counts by itself ----

tracer_of() { # PID
	awk '/^TracerPid:/ { print $2 }' "/proc/$1/status"
}

# The pid of who traces PID, waiting until that is, or is not, 0.
await_tracer() { # PID ==|!=
	local i tracer
	for ((i = 0; i < 1200; i++)); do
		tracer=$(tracer_of "$1")
		[[ $2 == == && $tracer == 0 || $2 == != && $tracer != 0 ]] && break
		sleep 0.05
	done
	echo "$tracer"
}

# Three processes that call the same each time, but for how often a shell asks for its children.
busy=(sh -c 'dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null; /bin/true; exit 3')
counts() { # JSON: name=count of those calls that are the same each time
	json_eval "$1" '" ".join(f"{c[0]}={c[1]}/{c[2]}" for c in sorted((c["name"], c["count"], c["errors"])
		for c in d["syscalls"] if c["name"] in
		("read", "write", "execve", "openat", "close", "mmap", "munmap", "mprotect", "access", "pread64", "dup2")))'
}

for how in maybe '' strace,off samples; do
	run "$PROCTOR" run --syscalls="$how" -- true
	is "--syscalls=$how is a mistake" "$status" 2
done
# What the runner's child does until it is the command, and the search for that, are not the command's.
only_its_own='(lambda c: c["execve"] == (1, 0) and not {"getrusage", "poll"} & set(c))({
	c["name"]: (c["count"], c["errors"]) for c in d["syscalls"]})'
if [[ $best_samples == eBPF* ]]; then
	run env PATH="$TMP:/nonexistent:$PATH" "$PROCTOR" run -q --json --syscalls=ebpf -- true
	json "a command begins with its exec" "$stdout" "$only_its_own"
	run "$PROCTOR" run -q --json --syscalls=auto --job own -- "${busy[@]}"
	is "it changes nothing for the command" "$status" 3
	by_ebpf=$(counts "$stdout")
	like "all calls are counted" "$by_ebpf" 'read=50[0-9][0-9]/0 write=500[0-9]/0'
	json "from the beginning, so they are exact" "$stdout" 'd["evidence"]["syscall_hotspots"] == "exact"'
	json "by eBPF" "$stdout" 'd["rungs"]["syscall counts and time"].startswith("eBPF")'
	json "one exec for each process that did" "$stdout" \
		'[(c["count"], c["errors"]) for c in d["syscalls"] if c["name"] == "execve"] == [(3, 0)]'
	json "each process has its own" "$stdout" \
		'sorted(sum(c["count"] for c in p["syscalls"] if c["name"] == "write") // 5000 for p in d["processes"]) == [0, 0, 1]'
	json "which add up to those of the job" "$stdout" \
		'sum(c["count"] for p in d["processes"] for c in p["syscalls"]) == sum(c["count"] for c in d["syscalls"])'
	json "nobody else is counted" "$stdout" \
		'not {c["name"] for c in d["syscalls"]} & {"bpf", "perf_event_open", "epoll_wait", "signalfd4", "timerfd_settime"}'
	run "$PROCTOR" report own --format json
	is "the record has the same" "$(counts "$stdout")" "$by_ebpf"
	json "of each process as well" "$stdout" \
		'sum(c["count"] for p in d["processes"] for c in p["syscalls"]) == sum(c["count"] for c in d["syscalls"])'
	run "$PROCTOR" report own
	like "and the report for people" "$stdout" 'System calls \(all of all processes'

	for ((i = 0; i < 40; i++)); do
		"$PROCTOR" run -q --json --syscalls=auto -- sleep 0.01
	done | python3 -c '
import json, sys
for line in sys.stdin:
    d = json.loads(line)
    if d["evidence"]["max_process_rss_mb"] == "exact" and d["max_process_rss_mb"] > 3:
        print(d["max_process_rss_mb"])' >"$TMP/peaks"
	is "what the child held before it became the command is no peak of it" "$(cat "$TMP/peaks")" ''

	run "$PROCTOR" run -q --json --syscalls=sampled --job some -- "${busy[@]}"
	like "with sampled times all calls are counted" "$(counts "$stdout")" 'read=50[0-9][0-9]/0 write=500[0-9]/0'
	json "shares of time are from a sample" "$stdout" 'd["evidence"]["syscall_hotspots"] == "sampled"'
	json "times are there" "$stdout" \
		'[c for c in d["syscalls"] if c["name"] == "write"][0]["cpu_seconds"] > 0'
	like "and how far they may be off" "$(json_eval "$stdout" '[u["why"] for u in d["unknown"] if u["what"] == "syscall times"]')" \
		'one call in 16.*standard error.* [0-9.]+ %'
	run "$PROCTOR" report some
	like "which the report says" "$stdout" 'one call in 16'
	mkdir -p "$PROCTOR_HOME"
	echo 'syscalls_time_every: 7' >"$PROCTOR_HOME/proctor.yaml"
	run "$PROCTOR" run -q --json --syscalls=auto -- "${busy[@]}"
	like "the configuration can say so too" "$(json_eval "$stdout" 'd["unknown"]')" 'one call in 7,'
	rm "$PROCTOR_HOME/proctor.yaml"

	"$PROCTOR" run -q --syscalls=ebpf -i 0.1 --job sampled -- sh -c 'until [ -e "$0" ]; do
		dd if=/dev/zero of=/dev/null bs=1 count=20000 2>/dev/null; sleep 0.05; done' "$TMP/passed.sampled" &
	check "samples of its own have them" eventually has_samples sampled write
	pass sampled
	wait $!

	begin_daemon 'interval_seconds: 0.1'
	run "$PROCTOR" run -q --json --syscalls=ebpf --job both -- sh -c 'sleep 0.5; dd if=/dev/zero of=/dev/null bs=1 count=3000 2>/dev/null; sleep 0.5'
	like "beside a daemon" "$(counts "$stdout")" 'write=300[0-9]/'
	"$PROCTOR" run -q --syscalls=off --job silent -- sleep 1
	"$PROCTOR" stop
	run "$PROCTOR" report both --format json
	like "they are counted once" "$(counts "$stdout")" 'write=300[0-9]/'
	json "and are exact" "$stdout" 'd["evidence"]["syscall_hotspots"] == "exact"'
	run "$PROCTOR" report silent --format json
	json "off is off for the daemon too" "$stdout" 'd["syscalls"] is None'
	like "which is told" "$(json_eval "$stdout" 'd["unknown"]')" 'syscalls=off'
	rm "$PROCTOR_HOME/proctor.yaml"
fi

if command -v strace >/dev/null; then
	run "$PROCTOR" run -q --json --syscalls=strace --job slow -- "${busy[@]}"
	is "strace changes nothing for the command" "$status" 3
	by_strace=$(counts "$stdout")
	json "whose times are coarse" "$stdout" 'd["evidence"]["syscall_hotspots"] == "sampled"'
	json "strace is no part of the job" "$stdout" \
		'd["process_spawn_count"] == 3 and not [p for p in d["processes"] if "strace" in (p["command"] or "")]'
	json "time without a CPU is unknown to it" "$stdout" 'd["syscalls"][0]["wait_seconds"] is None'
	[[ $best_samples == eBPF* ]] && is "eBPF and strace have counted the same" "$by_ebpf" "$by_strace"
	run "$PROCTOR" run -q --json --syscalls=strace -- true
	json "from its exec on" "$stdout" "$only_its_own"
	run "$PROCTOR" run -q --json --syscalls=strace -- sleep 0.5
	json "what strace has interrupted is one call" "$stdout" \
		'"restart_syscall" not in [c["name"] for c in d["syscalls"]]'
	mkdir -p "$PROCTOR_HOME"
	echo 'strace_enabled: true' >"$PROCTOR_HOME/proctor.yaml"
	if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
		home=$PROCTOR_HOME
		PROCTOR_HOME=$TMP/nobody
		as_nobody=(setpriv --reuid 65534 --clear-groups)
		run "${as_nobody[@]}" "$PROCTOR" run -q --json --syscalls=auto -- "${busy[@]}"
		is "another user's command runs" "$status" 3
		like "what its samples lack is no daemon" "$(json_eval "$stdout" 'd["rung_reasons"]["process samples"]')" 'root|no eBPF'
		json "and is not counted" "$stdout" 'd["syscalls"] is None'
		like "which is told in one line" "$(json_eval "$stdout" '[u["why"] for u in d["unknown"] if u["what"] == "syscall_hotspots"]')" \
			'(root|no eBPF).*--syscalls=strace'
		run "${as_nobody[@]}" "$PROCTOR" run --json --syscalls=strace -- true
		like "what it takes from setuid programs is warned about" "$stderr" 'setuid, sudo\) do not get those rights'
		json "and in the report" "$stdout" '"rights of setuid programs" in [u["what"] for u in d["unknown"]]'
		run env PROCTOR_HOME="$home" "$PROCTOR" run --json --syscalls=strace -- true
		unlike "root's get them" "$stderr" 'setuid'
		run "${as_nobody[@]}" "$PROCTOR" run -q --json --syscalls=strace -- "${busy[@]}"
		is "by strace it is" "$status $(counts "$stdout")" "3 $by_strace"
		cp "$home/proctor.yaml" "$PROCTOR_HOME"
		chmod 644 "$PROCTOR_HOME/proctor.yaml"
		run "${as_nobody[@]}" "$PROCTOR" run -q --json -- "${busy[@]}"
		is "also if the configuration wants it" "$(counts "$stdout")" "$by_strace"
		PROCTOR_HOME=$home
	fi
	rm "$PROCTOR_HOME/proctor.yaml"
	run env PATH=/nonexistent "$PROCTOR" run --syscalls=strace -- /bin/true
	is "without strace the command runs" "$status" 0
	like "and it is said" "$stderr" 'system calls are not counted.*strace'

	"$PROCTOR" run -q --syscalls=strace -- sleep 77 &
	counting=$!
	for ((i = 0; i < 1200; i++)); do
		target=$(pgrep -P "$counting" -x sleep) && [ "$(tracer_of "$target")" != 0 ] && break
		sleep 0.05
	done
	kill -KILL "$counting"
	wait "$counting" 2>/dev/null
	is "a killed run lets go" "$(await_tracer "$target" ==)" 0
	check "of a command that lives" kill "$target"
fi

# ---- who has sent which signal ----

# A memory cgroup of our own of 32 MB, where this machine lets us have one: its folder, or "".
make_box() {
	local parent name
	box=
	for parent in /sys/fs/cgroup/memory /sys/fs/cgroup; do
		mkdir "$parent/proctor-test-$$" 2>/dev/null || continue
		for name in memory.max memory.limit_in_bytes; do
			[ -e "$parent/proctor-test-$$/$name" ] || continue
			box=$parent/proctor-test-$$
			echo 33554432 >"$box/$name"
			return
		done
		rmdir "$parent/proctor-test-$$"
	done
}

if [[ $best_samples == eBPF* ]]; then
	export TMP
	begin_daemon 'interval_seconds: 0.2'
	"$PROCTOR" events --follow --json >"$TMP/signals" 2>/dev/null &
	following=$!
	"$PROCTOR" run -q --json --output "$TMP/killed.json" --job killed -- sh -c 'trap : USR1; echo $$ >"$TMP/victim"; while :; do sleep 0.1; done' &
	victim_run=$!
	eventually test -s "$TMP/victim"
	victim=$(cat "$TMP/victim")
	is_watched() { "$PROCTOR" snapshot --json | grep -q "\"pid\":$victim,"; }
	eventually is_watched
	is_told() { kill -USR1 "$victim" && grep -q '"signal_num":10,.*"job_id":"killed"' "$TMP/signals"; }
	eventually is_told # not all at once is followed
	"$PROCTOR" run -q --job killer -- sh -c "$(gate killer); exec kill -KILL $victim" &
	knows() { "$PROCTOR" snapshot --json | grep -q "\"job_id\":\"$1\""; } # JOB
	eventually knows killer
	pass killer
	wait "$victim_run"
	is "a job that was killed" "$?" 137
	wait $!

	# Of a job that has only just begun, and is over before anybody has looked. A busy machine may not
	# have heard of one in time.
	"$PROCTOR" run -q --job warned -- sh -c "trap : USR1; $(gate warned)" &
	eventually knows warned
	warned=$("$PROCTOR" snapshot --json | python3 -c '
import json, sys
print(min(p["pid"] for p in json.load(sys.stdin)["processes"] if p["job_id"] == "warned"))')
	is_named() {
		"$PROCTOR" run -q --job brief -- sh -c "kill -USR1 $warned"
		"$PROCTOR" events --job warned --json | grep -q '"signal_num":10,.*sent by [0-9]* (sh), of job brief"'
	}
	check "the job of a sender that was short is known" eventually is_named
	pass warned
	wait $!

	# Timers and a storm of signals do not hide who has ended it.
	"$PROCTOR" run -q --job stormy -- python3 -c '
import os, signal, sys, time
for s in signal.SIGALRM, signal.SIGUSR2:
    signal.signal(s, lambda *a: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
open(sys.argv[1], "w").write(str(os.getpid()))
while True:
    time.sleep(1)' "$TMP/stormy" &
	victim_run=$!
	eventually test -s "$TMP/stormy"
	stormy=$(cat "$TMP/stormy")
	eventually knows stormy
	sleep 1
	python3 -c '
import os, signal, sys, time
for i in range(4000):
    os.kill(int(sys.argv[1]), signal.SIGUSR2)
    if i % 10 == 0:
        time.sleep(0.001) # those that wait are one
os.kill(int(sys.argv[1]), signal.SIGUSR1)' "$stormy" &
	storming=$!
	wait "$storming"
	wait "$victim_run"

	make_box
	if [ -n "$box" ]; then
		# A child of the command: no runner would know. It is born after the daemon has seen the job.
		"$PROCTOR" run -q --job greedy -- bash -c "$(gate greedy); sleep 0.5
			(echo \$BASHPID >$box/cgroup.procs; exec tail /dev/zero); sleep 0.5" &
		eventually knows greedy
		pass greedy
		wait $!
		# The command itself: the count of the runner's own cgroup does not rise.
		"$PROCTOR" run -q --json --job moved -- bash -c "$(gate moved); sleep 0.5
			echo \$BASHPID >$box/cgroup.procs; exec tail /dev/zero" >"$TMP/moved.json" &
		eventually knows moved
		pass moved
		wait $!
		rmdir "$box"
	fi
	told_kill() { grep -q '"event":"process.kill".*"job_id":"killed"' "$TMP/signals"; }
	check "the kill is told" eventually told_kill
	"$PROCTOR" stop
	kill -INT "$following"
	wait "$following" 2>/dev/null
	"$PROCTOR" events --job killed --json >"$TMP/recorded"
	like "who sent a signal is recorded" "$(grep process.signal "$TMP/recorded")" \
		"\"pid\":$victim,.*\"signal_num\":10,.*sent by $$ \("
	like "also of which job" "$(grep process.kill "$TMP/recorded")" \
		"\"pid\":$victim,.*\"signal_num\":9,.*sent by [0-9]+ \((kill|sh)\), of job killer"
	is "once" "$(grep -c process.kill "$TMP/recorded")" 1
	run "$PROCTOR" report killed --format json
	json "and in the report" "$stdout" \
		'[e["details"].endswith("of job killer") for e in d["events"] if e["event_type"] == "kill"] == [True]'
	signals='[(e["timestamp"], e["pid"], e["details"]) for e in d["events"] if e["event_type"] in ("signal", "kill")]'
	json "which the run itself has told" "$(cat "$TMP/killed.json")" \
		'"kill" in [e["event_type"] for e in d["events"]]'
	is "as it is there" "$(json_eval "$(cat "$TMP/killed.json")" "$signals")" "$(json_eval "$stdout" "$signals")"
	"$PROCTOR" events --job stormy --json >"$TMP/recorded"
	is "timers are not told" "$(grep -c '"signal_num":14,' "$TMP/recorded")" 0
	like "who has ended it is, after a storm" "$(grep '"signal_num":10,' "$TMP/recorded")" \
		"\"pid\":$stormy,.*sent by $storming \(python3"
	is "of which there are some" "$(grep -c '"signal_num":12,' "$TMP/recorded")" 21
	like "and the number of the others" "$(grep '"signal_num":12,' "$TMP/recorded")" \
		'sent by [0-9]+ \(python3\); [0-9]+ others are not listed'
	if [ -n "$box" ]; then
		"$PROCTOR" events --job greedy --json | grep process.oom >"$TMP/ooms"
		is "an OOM kill is recorded" "$(wc -l <"$TMP/ooms")" 1
		like "with what the victim and its cgroup held" "$(cat "$TMP/ooms")" \
			"it held [0-9.]+ MB; its cgroup proctor-test-$$ held [0-9.]+ MB of at most 32(\\.0)? MB"
		json "and is what a command ended by that had put itself into another cgroup" "$(cat "$TMP/moved.json")" \
			'd["outcome"] == "oom" and "it held" in d["reason"] and [e["event_type"] for e in d["events"]].count("oom") == 1'
	fi
	rm "$PROCTOR_HOME/proctor.yaml"
fi

# ---- signals while the disk is full ----

if [[ $best_samples != eBPF* ]] || ! small_disk 12m; then
	skip "signals while the disk is full" "needs eBPF, and root who can mount a small disk"
else
	begin_daemon 'interval_seconds: 0.2'
	"$PROCTOR" run -q --job full -- sh -c 'trap : USR1 USR2; echo $$ >"$TMP/full"
		while :; do sleep 0.1; done' 2>/dev/null &
	full_run=$!
	eventually test -s "$TMP/full"
	full=$(cat "$TMP/full")
	is_written() { "$PROCTOR" events --job full --json | grep -q "\"signal_num\":$1,"; }
	is_told() { kill -USR1 "$full" && is_written 10; } # not all at once is followed
	check "a signal is recorded" eventually is_told
	fill_disk
	is_full() { [ "$(status_of 'd["recording"]')" = False ]; }
	eventually is_full
	kill -USR2 "$full"
	sleep 1
	rm "$TMP/small/filler"
	check "and one that came while the disk was full" eventually is_written 12
	kill -KILL "$full"
	wait "$full_run"
	"$PROCTOR" stop
	leave_small_disk
fi

# ---- what each process used, in a run of the daemon's own user ----

if [[ $best_samples == eBPF* ]]; then
	begin_daemon 'interval_seconds: 60' # so that no look of its own helps
	"$PROCTOR" run -q --json --job exact -- sh -c '
		while ! [ -e "$0" ]; do sleep 0.05; done; for i in $(seq 100); do /bin/true; done' "$TMP/exact" >"$TMP/exact.json" &
	exact_run=$!
	is_known() { "$PROCTOR" status --json | grep -q '"running_jobs":1'; }
	eventually is_known
	: >"$TMP/exact"
	wait "$exact_run"
	# shellcheck disable=SC2016 # it is the shell of the run that counts
	"$PROCTOR" run -q --job large -- sh -c 'i=0; while [ $i -lt 9500 ]; do (:); i=$((i + 1)); done'
	daemon=$(daemon_pid)
	is_small_again() { awk '/VmHWM/ { most = $2 } /VmRSS/ { exit !($2 < 0.7 * most) }' "/proc/$daemon/status"; }
	eventually is_small_again
	is "a large job that is over leaves the daemon as small as others do" "$?" 0
	# Where the kernel does not run programs in the context of each process some may lack, which is told.
	run "$PROCTOR" status --json
	json "how many lack their last account is counted" "$stdout" '0 <= d["process_accounts_missing"] < 9000'
	"$PROCTOR" stop
	json "most have all of their CPU time, however short they were" "$(cat "$TMP/exact.json")" \
		'len([p for p in d["processes"] if p["command"].endswith("true") and p["cpu_evidence"] == "exact" and
			p["user_cpu_seconds"] + p["system_cpu_seconds"] > 0]) > 50'
	json "and what they read to the byte" "$(cat "$TMP/exact.json")" \
		'any(p["rchar"] and p["rchar"] % 1024 for p in d["processes"] if p["command"].endswith("true"))'
	rm "$PROCTOR_HOME/proctor.yaml"
fi

# ---- before the daemon has heard of the job ----

if [[ $best_samples == eBPF* ]]; then
	begin_daemon 'interval_seconds: 60' # so that no look of its own helps
	# The kernel's last word on an end takes some time. On a busy machine there may be none: then it is said.
	is_late='any("did not wait for it" in u["why"] for u in d["unknown"])'
	run "$PROCTOR" run -q --json -- sh -c 'i=0; while [ $i -lt 100 ]; do (exit 3); i=$((i + 1)); done; sleep 0.3'
	json "what was over at once has its exact end as well" "$stdout" \
		'len([p for p in d["processes"] if p["exit_code"] == 3 and p["cpu_evidence"] == "exact"]) > 50 or '"$is_late"
	# shellcheck disable=SC2016 # the shells inside know them
	"$PROCTOR" run -q --job around -- sh -c 'sleep 0.5; "$0" run -q --json --job inside -- sh -c '"'"'
		i=0; while [ $i -lt 100 ]; do (exit 3); i=$((i + 1)); done; sleep 0.3'"'"' >"$1"' "$PROCTOR" "$TMP/inside.json"
	json "also in a run inside a job that is known" "$(cat "$TMP/inside.json")" \
		'len([p for p in d["processes"] if p["exit_code"] == 3 and p["cpu_evidence"] == "exact"]) > 50 or '"$is_late"
	# shellcheck disable=SC2016 # the shells inside know them
	sh -c '"$0" run -q --json --job beside -- sh -c '"'"'
			i=0; while [ $i -lt 40 ]; do (exit 3); sleep 0.005; i=$((i + 1)); done; sleep 0.3'"'"' >"$1" &
		sleep 0.05; exec "$0" run -q --job parent -- sleep 1' "$PROCTOR" "$TMP/beside.json"
	json "the parent of a run that begins one as well takes nothing from it" "$(cat "$TMP/beside.json")" \
		'len([p for p in d["processes"] if p["exit_code"] == 3 and p["cpu_evidence"] == "exact"]) >= 36 or '"$is_late"
	daemon=$(daemon_pid)
	kill -STOP "$daemon"
	run timeout 20 "$PROCTOR" run -q -- true
	is "a daemon that does not answer is not waited for" "$status" 0
	kill -CONT "$daemon"
	stopped_midway() { # how many ms such a run takes
		local from
		rm -f "$TMP/begun"
		from=$(date +%s%N)
		# shellcheck disable=SC2016 # the shell inside knows it
		"$PROCTOR" run -q --json -- sh -c ': >"$0"; /bin/true; sleep 0.2' "$TMP/begun" >"$TMP/midway.json" &
		eventually test -e "$TMP/begun"
		kill -STOP "$daemon"
		wait $!
		echo $((($(date +%s%N) - from) / 1000000))
		kill -CONT "$daemon"
	}
	quickest=$(for _ in 1 2 3; do stopped_midway; done | sort -n | head -n 1)
	check "one that stops later does not hold a short run up at its end" test "$quickest" -lt 900
	json "and why ends are not exact is said" "$(cat "$TMP/midway.json")" \
		'all(p["cpu_evidence"] == "exact" for p in d["processes"]) or any(u["what"] == "processes" for u in d["unknown"])'
	"$PROCTOR" run -q --job first -- sh -c 'kill -KILL $$'
	is "a job that ends at once" "$?" 137
	for after in 0 0.6; do
		rm -f "$TMP/early"
		"$PROCTOR" run -q --job "early$after" -- \
			sh -c 'sleep 60 & echo $! >"$1"; wait $!; sleep 0.1' sh "$TMP/early" 2>/dev/null &
		early_run=$!
		eventually test -s "$TMP/early"
		sleep "$after"
		kill -TERM "$(cat "$TMP/early")"
		wait "$early_run"
	done
	make_box
	if [ -n "$box" ]; then
		run "$PROCTOR" run --job hungry -- bash -c \
			'(echo $BASHPID >"$1/cgroup.procs"; exec tail /dev/zero); true' bash "$box"
		rmdir "$box"
		like "the summary tells an OOM kill" "$stderr" '1 killed by SIGKILL \(9\), 1 of them for want of memory'
		run "$PROCTOR" report hungry
		like "and the report all that is known of it" "$(tr -s '\n ' '  ' <<<"$stdout")" \
			"its cgroup proctor-test-$$ held [0-9.]+ MB of at most 32 MB"
	fi
	"$PROCTOR" stop
	like "who has killed it is known" "$("$PROCTOR" events --job first --json | grep process.kill)" \
		'sent by [0-9]+ \(sh\), of this job'
	for after in 0 0.6; do
		like "also $after s after its beginning" "$("$PROCTOR" events --job "early$after" --json | grep process.signal)" \
			"\"signal_num\":15,.*sent by $$ \("
	done
	[ -n "$box" ] && like "and of an OOM kill" "$("$PROCTOR" events --job hungry --json | grep process.oom)" \
		"its cgroup proctor-test-$$ held"
	rm "$PROCTOR_HOME/proctor.yaml"
fi

# ---- a daemon that does not look for a while ----

if [[ $best_samples == eBPF* ]]; then
	begin_daemon 'interval_seconds: 0.2'
	daemon=$(json_eval "$stdout" 'd["pid"]')
	mkfifo "$TMP/go"
	# shellcheck disable=SC2016 # more than the queue has room for, by the shell that is attached
	sh -c 'read -r _ <"$0"; i=0; while [ $i -lt 9000 ]; do (:); i=$((i + 1)); done; : >"$1"' "$TMP/go" "$TMP/forked" &
	forking=$!
	sleep 0.3
	"$PROCTOR" attach --pid $forking --job stalled
	kill -STOP "$daemon"
	echo >"$TMP/go"
	check "it forks while nobody looks" eventually test -e "$TMP/forked"
	kill -KILL $forking 2>/dev/null # where the host had no time for all of them
	wait $forking 2>/dev/null
	kill -CONT "$daemon"
	# While the daemon does not look, who reads the record may think so by itself.
	ended() { [ "$(json_eval "$("$PROCTOR" report stalled --format json)" 'd["ended"] is not None')" = True ]; }
	if eventually ended; then
		ok "the job ends"
	else
		not_ok "the job ends" "$("$PROCTOR" status --json)" "$(tail -n 9 "$PROCTOR_HOME/daemon.log")"
	fi
	run "$PROCTOR" status --json
	json "what was lost is counted" "$stdout" 'd["process_events_lost"] > 0'
	run "$PROCTOR" report stalled --format json
	json "and said in the report" "$stdout" \
		'd["evidence"]["process_spawn_count"] == "at least" and any("kernel events were lost" in u["why"] for u in d["unknown"])'
	json "which counts those that were not" "$stdout" '100 < d["process_spawn_count"] < 9001'
	"$PROCTOR" stop
	rm "$PROCTOR_HOME/proctor.yaml"
fi

# A run is too short for it, and says so.
run "$PROCTOR" run -q --job short -- true
run "$PROCTOR" report short --format json
json "a run took /proc" "$stdout" 'd["rungs"]["process samples"].startswith("/proc")'

# ---- trace ----
run "$PROCTOR" trace
is "which process is a question" "$status" 2
run "$PROCTOR" trace 12x
is "a pid is a number" "$status" 2
run "$PROCTOR" trace 4194303
is "one that is gone is an error" "$status" 1
like "and is told" "$stderr" 'no process 4194303'

if command -v strace >/dev/null; then
	python3 -c 'import os, time
pid = os.fork() or os._exit(0)
print(pid, flush=True)
time.sleep(200)' >"$TMP/zombie" &
	holder=$!
	eventually test -s "$TMP/zombie"
	run "$PROCTOR" trace "$(cat "$TMP/zombie")" --duration 1s
	like "one that has ended is not called another user's" "$status $stderr" '^1 .*has ended, and waits for its parent'
	kill "$holder"

	bash -c 'while :; do /bin/true; done' &
	target=$!
	run "$PROCTOR" trace "$target" --duration 2s --max-bytes 3000
	is "a trace works" "$status" 0
	check "it is bounded" [ "${#stdout}" -le 3000 ]
	like "and says so" "$stderr" 'max-bytes is reached|time is up'
	like "it has the calls" "$stdout" '[0-9]{2}:[0-9]{2}:[0-9]{2} [a-z0-9_]+\('
	is "the process is free again" "$(await_tracer "$target" ==)" 0

	echo 'strace_full_on_demand: false' >"$PROCTOR_HOME/proctor.yaml"
	run "$PROCTOR" top --trace "$target"
	is "it can be forbidden" "$status/$stdout" 1/
	like "which is said" "$stderr" 'strace_full_on_demand'
	rm "$PROCTOR_HOME/proctor.yaml"
	"$PROCTOR" top --trace "$target" >"$TMP/top-trace" 2>&1 &
	tracing=$!
	check "top traces too" [ "$(await_tracer "$target" !=)" != 0 ]
	eventually grep -q '(' "$TMP/top-trace"
	kill -INT "$tracing"
	wait "$tracing"
	is "until it is stopped" "$?" 0
	like "and prints the calls" "$(cat "$TMP/top-trace")" '[0-9]{2}:[0-9]{2}:[0-9]{2} [a-z0-9_]+\('

	run "$PROCTOR" trace "$target" --duration 1s --start-ticks 1
	is "another that has the number is let go" "$status $(tail -1 <<<"$stderr")" \
		"1 proctor: process $target is gone, and another has its number"
	run "$PROCTOR" trace "$target" --duration 1s --output "$TMP/trace.txt"
	is "into a file" "$status/$stdout" 0/
	check "which is private" [ "$(stat -c %a "$TMP/trace.txt")" = 600 ]
	check "and has it" grep -q '(' "$TMP/trace.txt"

	"$PROCTOR" trace "$target" --duration 60s >/dev/null 2>&1 &
	tracing=$!
	check "it is traced" [ "$(await_tracer "$target" !=)" != 0 ]
	run "$PROCTOR" trace "$target" --duration 1s
	is "twice is an error" "$status" 1
	like "and is told" "$stderr" 'already traced'
	kill -KILL "$tracing"
	wait "$tracing" 2>/dev/null
	is "a killed proctor lets go" "$(await_tracer "$target" ==)" 0
	check "of a process that lives" kill -0 "$target"

	"$PROCTOR" trace "$target" --duration 60s >/dev/null 2>"$TMP/stopped" &
	tracing=$!
	await_tracer "$target" != >/dev/null
	kill -TERM "$tracing"
	wait "$tracing"
	is "stopping it is no failure" "$?" 0
	like "and is told" "$(cat "$TMP/stopped")" 'stopped'
	kill "$target"
	wait "$target" 2>/dev/null
fi

finish
