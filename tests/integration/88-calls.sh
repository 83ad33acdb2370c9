#!/bin/bash
# The system calls of a job are counted, and its owner's record has them: as root, as another
# user beside a daemon of root's, submitted, attached.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/users.sh"

run env PROCTOR_HOME="$TMP/home" "$PROCTOR" doctor --json
if [ "$(json_eval "$stdout" 'd["rungs"]["process samples"]')" != 'eBPF task iterator' ]; then
	skip "who counts system calls" "needs eBPF"
	finish
fi

hotspot() { # COMMAND: the call that its process spends most time in, by the daemon's last look
	local pid
	pid=$(json_eval "$(ask daemon.top)" "[p['pid'] for p in d['processes'] if p['command'].startswith('$1')][0]")
	json_eval "$(ask resource.context "{\"pid\": $pid}")" 'd["syscall_hotspot"]'
}
is_counted() { # NAME: whether the daemon counts for the process that waits at this gate
	hotspot "sh -c $(gate "$1")" | grep -q '%$'
}

writes='sum(c["count"] for c in d["syscalls"] or [] if c["name"] == "write")'
busiest='max(sum(c["count"] for c in p["syscalls"] or [] if c["name"] == "write") for p in d["processes"])'
each='sum(c["count"] for p in d["processes"] for c in p["syscalls"]) == sum(c["count"] for c in d["syscalls"])'
why='[u["why"] for u in d["unknown"] if u["what"] == "syscall_hotspots"]'
busy='dd if=/dev/zero of=/dev/null bs=1 count=5000 2>/dev/null; /bin/true'

# ---- without a daemon ----

run as alice "$PROCTOR" run -q --json --syscalls=auto --job alone -- sh -c "$busy"
json "alone another user's are not counted" "$stdout" 'd["syscalls"] is None'
like "and why is said" "$(json_eval "$stdout" "$why")" 'root.*--syscalls=strace'
run as alice "$PROCTOR" run --syscalls=ebpf -- true
like "who insists hears it at once" "$status $stderr" '^0 .*system calls are not counted.*root'

# ---- beside a daemon of root's ----

start_daemon "interval_seconds: 0.3"
run "$PROCTOR" status --json
json "an idle daemon says how it will count" "$stdout" 'd["rungs"]["syscall counts and time"].startswith("eBPF")'
run as alice "$PROCTOR" doctor
like "and doctor how to ask it to" "$stdout" 'a run that asks for it: eBPF .*, by the daemon \(--syscalls=auto\)'
run as alice "$PROCTOR" run -q --json --syscalls=auto -- true
json "what the runner does until the command begins is not the command's" "$stdout" \
	'(lambda c: c["execve"] == (1, 0) and not {"getrusage", "poll", "rt_sigaction"} & set(c))({
		c["name"]: (c["count"], c["errors"]) for c in d["syscalls"]})'
run as alice "$PROCTOR" run -q --json --syscalls=auto --job asked -- sh -c "$busy"
json "beside root's daemon they are, however short it is" "$stdout" "5000 <= $writes <= 5010"
json "all of them" "$stdout" \
	'd["evidence"]["syscalls"] == d["evidence"]["syscall_hotspots"] == "exact" and "syscalls" not in [u["what"] for u in d["unknown"]]'
json "by eBPF" "$stdout" '"eBPF" in d["rungs"]["syscall counts and time"]'
json "of each process" "$stdout" "$each and 5000 <= $busiest <= 5010"
json "nobody denies it" "$stdout" "$why == []"
if command -v strace >/dev/null; then
	strace -f -e trace=bpf -o "$TMP/bpf" "$PROCTOR" run -q --syscalls=auto -- true
	is "a run whose calls the daemon counts loads no programs itself" "$(grep -c 'bpf(' "$TMP/bpf")" 0
fi
run as alice "$PROCTOR" run --syscalls=sampled -- true
like "that the daemon does not sample times is said" "$stderr" 'timed all of them'
run as alice "$PROCTOR" report asked --format json
json "and so says the record of who ran it" "$stdout" "5000 <= $writes <= 5010 and $each"
run as alice "$PROCTOR" report asked
like "in the report for people too" "$stdout" 'System calls \(all of all processes'
run as alice "$PROCTOR" export csv --job asked --what processes
like "and in the table" "$stdout" 'write'
recorded() { "$PROCTOR" report asked --format json | grep -q '"syscalls":\[{'; }
check "root's own record has them as well" eventually recorded

run as alice "$PROCTOR" run --syscalls=ebpf -q --json --job insisted -- sh -c "$busy"
json "who insists gets it" "$stdout" "5000 <= $writes <= 5010"
unlike "without a word" "$stderr" 'not counted'
run as alice "$PROCTOR" run -q --json --syscalls=off --job silent -- sh -c "sleep 0.6; $busy"
json "off is off" "$stdout" 'd["syscalls"] is None'

as alice "$PROCTOR" run -q --json --job unasked -- sh -c "$(gate unasked); $busy" >"$TMP/unasked" &
check "the daemon comes to count for who does not ask" eventually is_counted unasked
pass unasked
wait $!
stdout=$(cat "$TMP/unasked")
json "who does not ask gets what was counted" "$stdout" "5000 <= $writes <= 5010 and $busiest >= 5000"
json "which may not be all" "$stdout" \
	'd["evidence"]["syscalls"] == "at least" and d["evidence"]["syscall_hotspots"] == "sampled"'
like "and why is said" "$(json_eval "$stdout" '[u["why"] for u in d["unknown"] if u["what"] == "syscalls"]')" \
	'from when it began to'

# ---- in each sample of hers ----

echoes='i=0; while [ $i -lt 3000 ]; do echo; i=$((i + 1)); done >/dev/null'
sampled='sum((p["syscall_counts"] or {}).get("write", 0) for p in d)'
has_sampled() { # JOB WRITES
	run as alice "$PROCTOR" history --job "$1" --json
	[ "$(json_eval "$stdout" "$sampled == $2")" = True ]
}
as alice "$PROCTOR" run -q --syscalls=auto --job curve -- \
	sh -c "$echoes; $(gate once); $echoes; $(gate twice)" &
check "a sample has the first of a guest's calls" eventually has_sampled curve 3000
pass once
check "a later one those that follow" eventually has_sampled curve 6000
pass twice
wait $!
run as alice "$PROCTOR" history --job curve --json
json "each call of a guest is in one sample" "$stdout" "$sampled == 6000"
json "in more than one of them" "$stdout" \
	'sum((p["syscall_counts"] or {}).get("write", 0) > 0 for p in d) > 1'
json "with their time" "$stdout" \
	'any((p["syscall_time_pct"] or {}).get("write", 0) > 0 for p in d)'
as alice "$PROCTOR" run -q --job unasked2 -- sh -c "$(gate unasked2); $echoes; $(gate sampled)" &
eventually is_counted unasked2
pass unasked2
eventually has_sampled unasked2 3000
pass sampled
wait $!
run as alice "$PROCTOR" history --job unasked2 --json
json "who does not ask has them too" "$stdout" "$sampled == 3000"
run as alice "$PROCTOR" run -q --syscalls=off --job silent2 -- sh -c "sleep 0.6; $echoes; sleep 0.6"
run as alice "$PROCTOR" history --job silent2 --json
json "but not who has them off" "$stdout" \
	'all(p["syscall_counts"] is None for p in d)'

# ---- what short processes of hers used ----

short='[p for p in d["processes"] if p["exit_code"] == 0 and p["command"] and "true" in p["command"] and "sh" not in p["command"]]'
timed="all(p['user_cpu_seconds'] + p['system_cpu_seconds'] > 0 and p['cpu_evidence'] == 'exact' for p in $short)"
for _ in $(seq 20); do # all of its time is known when the kernel lets go of it, which may be late
	run as alice "$PROCTOR" run -q --json --syscalls=auto --job short -- \
		sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; done; sleep 0.3'
	[ "$(json_eval "$stdout" "$timed")" = True ] && break
done
json "the peak of each is known exactly" "$stdout" "len($short) == 10 and all(p['max_rss_mb'] > 0 and p['evidence'] == 'exact' for p in $short)"
json "and its CPU time" "$stdout" "$timed"
json "and its I/O" "$stdout" "all(p['rchar'] is not None for p in $short)"
run as alice "$PROCTOR" report short --format json
json "in her record, too" "$stdout" "len([p for p in $short if p['cpu_evidence'] == 'exact']) == 10"

# ---- who has killed it ----

for after in 0 0.8; do
	rm -f "$TMP/alice/pid"
	as alice "$PROCTOR" run -q --json --job "killed$after" -- \
		sh -c 'sleep 60 & echo $! >pid; wait $!; true' 2>/dev/null >"$TMP/killed" &
	killed=$!
	eventually test -s "$TMP/alice/pid"
	sleep "$after"
	kill -TERM "$(cat "$TMP/alice/pid")"
	wait "$killed"
	sender='[e["details"] for e in d["events"] if e["event_type"] == "signal"]'
	like "who has signalled her job after $after s is told to its owner" \
		"$(json_eval "$(cat "$TMP/killed")" "$sender")" "^\['sent by $$ \(.*\)'\]\$"
	run as alice "$PROCTOR" report "killed$after" --format json
	like "and is in her record" "$(json_eval "$stdout" "$sender")" "^\['sent by $$ \("
done

as alice "$PROCTOR" run -q --json --syscalls=auto --job left -- \
	sh -c ": >begun; $(gate left)" >"$TMP/left" &
left=$!
eventually test -e "$TMP/alice/begun"
"$PROCTOR" stop
pass left
wait "$left"
is "a daemon that goes harms nobody" "$?" 0
json "and nothing is made up" "$(cat "$TMP/left")" 'd["syscalls"] is None'
like "but said" "$(json_eval "$(cat "$TMP/left")" "$why")" 'daemon .* gone'

# ---- a daemon that has no room to count for a while ----

start_daemon
daemon=$(daemon_pid)
files=$(ulimit -Hn)
counts() { # RUNG WHY: patterns for how system calls are counted, and why so
	json_eval "$("$PROCTOR" status --json)" \
		'" / ".join(d[k]["syscall counts and time"] for k in ("rungs", "rung_reasons"))' |
		grep -q "^$1 / $2\$"
}
three_more_files() { # the first limit under which so many numbers are free
	python3 -c 'import os, sys
used = {int(fd) for fd in os.listdir(f"/proc/{sys.argv[1]}/fd")}
print(next(n for n in range(3, 9999) if n - sum(fd < n for fd in used) >= 3))' "$daemon"
}
"$PROCTOR" run -q --job ample -- sleep 0.5
check "a daemon that counts gives no reason" eventually counts 'eBPF.*' ''
prlimit --pid "$daemon" --nofile="$(three_more_files):$files"
"$PROCTOR" run -q --job scant -- sleep 1
prlimit --pid "$daemon" --nofile="$files:$files"
check "one that cannot says why" eventually counts unknown '.*Too many open files'
run "$PROCTOR" doctor
like "so does doctor" "$stdout" 'the daemon that runs here: unknown: .*Too many open files'
"$PROCTOR" run -q --job again -- sleep 1
check "and when it can again, that" eventually counts 'eBPF.*' ''

# ---- submitted, attached ----

printf 'job_id: sent\nsheets:\n  - run: sleep 1; %s\n' "$busy" >"$TMP/alice/job.yaml"
chmod 644 "$TMP/alice/job.yaml"
run as alice "$PROCTOR" submit "$TMP/alice/job.yaml"
is "a job is submitted" "$status $stderr" "0 "
run as alice "$PROCTOR" wait sent
is "and done" "$status" 0
run as alice "$PROCTOR" report sent --format json
json "its owner sees what it called" "$stdout" "5000 <= $writes <= 5010 and $busiest >= 5000"

# From the first instruction on: nothing of it has waited for a daemon to look.
printf 'job_id: quick\nsheets:\n  - run: %s\n' "$busy" >"$TMP/alice/quick.yaml"
chmod 644 "$TMP/alice/quick.yaml"
for who in alice root; do
	run as $who "$PROCTOR" submit "$TMP/alice/quick.yaml"
	run as $who "$PROCTOR" wait quick
	is "a short job is submitted and done ($who)" "$status" 0
	run as $who "$PROCTOR" report quick --format json
	json "all that it called is counted ($who)" "$stdout" "5000 <= $writes <= 5010 and $busiest >= 5000"
	json "from its exec on ($who)" "$stdout" \
		'sum(c["count"] for c in d["syscalls"] if c["name"] == "execve") >= 3'
	json "which is said ($who)" "$stdout" 'd["evidence"]["syscall_hotspots"] == "exact"'
done

setpriv --reuid=alice --regid=alice --init-groups sh -c "$(gate joined); $busy; exec sleep 1" &
target=$!
is_hers() { [ "$(stat -c %u "/proc/$target")" = 4001 ]; }
eventually is_hers
run as alice "$PROCTOR" attach --pid "$target" --job joined
is "a process is attached" "$status $stderr" "0 "
eventually is_counted joined
pass joined
wait "$target"
run as alice "$PROCTOR" wait joined
joined() {
	run as alice "$PROCTOR" report joined --format json
	[ "$(json_eval "$stdout" "$writes >= 5000 and $busiest >= 5000")" = True ]
}
check "what it called is told, of each process" eventually joined

# ---- what it does most, while it does ----

as alice "$PROCTOR" run -q --job hot -- dd if=/dev/zero of=/dev/null bs=1 2>/dev/null &
hot=$!
is_hot() { hotspot "dd " | grep -q -E '^(read|write) [0-9]+%$'; }
check "a context says which call takes the most time" eventually is_hot
"$PROCTOR" cancel hot
wait "$hot"
"$PROCTOR" stop
finish
