#!/bin/bash
# Where the time of a job's threads went: real causes, by eBPF as root and by samples as another user.
. "$(dirname "$0")/lib.sh"

chmod 711 "$TMP"
cp "$PROCTOR" "$TMP/proctor"
mkdir "$TMP/work" && chmod 1777 "$TMP/work"
touch "$TMP/work/lock" && chmod 666 "$TMP/work/lock"

# The category with the most of them, but for CPUs: how busy the host is belongs to no cause here.
largest='max((k for k in t["seconds"] if k not in ("user", "system", "cpu_wait", "child", "signal", "unknown")), key=t["seconds"].get)'
of_job='(lambda t: '$largest')(d["time"])'

# job CAUSE COMMAND…: runs it, and leaves its report in stdout.
job() {
	local name=$1
	shift
	run "${as[@]}" "$TMP/proctor" run -q "${how[@]}" --job "$name" -- "$@"
	run "${as[@]}" "$TMP/proctor" report "$name" --json
}

burn='while :; do :; done'
threads='import threading, time
lock = threading.Lock()
lock.acquire()
waiting = [threading.Thread(target=lambda: lock.acquire() and lock.release()) for _ in range(3)]
[t.start() for t in waiting]
time.sleep(0.7)
lock.release()'
talk='import socket
a, b = socket.socketpair()
a.settimeout(0.7)
try:
    a.recv(1)
except OSError:
    pass'
faults='import mmap, os, random, sys
f = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)
m = mmap.mmap(f, 0, prot=mmap.PROT_READ)
m.madvise(mmap.MADV_RANDOM)
for _ in range(2000):
    m[random.randrange(len(m))]'

causes() { # WHO
	job timer sleep 0.7
	is "$1: one that sleeps" "$(json_eval "$stdout" "$of_job")" timer
	json "$1: the categories add up" "$stdout" \
		'abs(sum(d["time"]["seconds"].values()) - d["time"]["thread_seconds"]) < 1e-6'
	json "$1: and are the lives of its threads" "$stdout" \
		'all(abs(p["time"]["thread_seconds"] - (p["died"] - p["born"])) < 0.05 + 0.01 * (p["died"] - p["born"])
		     for p in d["processes"] if p["time"] and p["born"] and p["died"])'

	flock "$TMP/work/lock" sh -c "echo; exec sleep 1.2" >"$TMP/held" &
	holder=$!
	check "the lock is held" eventually test -s "$TMP/held"
	job lock flock "$TMP/work/lock" true
	wait "$holder"
	is "$1: one that waits for a lock on a file" "$(json_eval "$stdout" "$of_job")" file_lock

	job futex python3 -I -S -c "$threads"
	is "$1: threads that wait for another" "$(json_eval "$stdout" "$of_job")" futex

	job pipe sh -c "(timeout 0.8 sh -c '$burn'; echo) | cat"
	is "$1: a slow producer" "$(json_eval "$stdout" "$of_job")" pipe

	job socket python3 -I -S -c "$talk"
	is "$1: a peer that does not answer" "$(json_eval "$stdout" "$of_job")" socket

	job child sh -c 'sleep 0.7; true'
	json "$1: a shell waits for its child" "$stdout" \
		'any(max(p["time"]["seconds"], key=p["time"]["seconds"].get) == "child"
		     for p in d["processes"] if p["time"] and (p["command"] or "").startswith("sh"))'

	job cpu sh -c "for i in 1 2 3; do taskset -c 0 timeout 1 sh -c '$burn' & done; wait"
	json "$1: three on one CPU" "$stdout" \
		'd["time"]["seconds"]["cpu_wait"] > d["time"]["seconds"]["user"] + d["time"]["seconds"]["system"]'

	case $(stat -f -c %T "$disk") in
	tmpfs | ramfs) skip "$1: one that waits for the disk" "$disk is in memory" ;;
	*)
		job disk dd if=/dev/zero of="$disk/written" bs=64k count=400 oflag=dsync
		is "$1: one that waits for the disk" "$(json_eval "$stdout" "$of_job")" disk
		rm -f "$disk/written"
		;;
	esac
}

disk=$(mktemp -d /var/tmp/proctor-time.XXXXXX)
chmod 777 "$disk"
trap '[ "$BASHPID" != $$ ] || { rm -rf "$disk"; clean_up; }' EXIT

# ---- as root, by eBPF ----

run "$PROCTOR" doctor --json
if [[ $(json_eval "$stdout" 'd["rungs"]["syscall counts and time"]') == eBPF* ]]; then
	as=()
	how=(--syscalls=ebpf)
	causes eBPF
	json "it is exact" "$stdout" 'd["time"]["evidence"] == "exact"'
	head -c 200M /dev/zero >"$disk/mapped"
	sync "$disk/mapped"
	job faults python3 -I -S -c "$faults" "$disk/mapped"
	json "page faults are told from calls" "$stdout" \
		'd["time"]["seconds"]["page_fault"] > d["time"]["seconds"]["disk"] or d["major_faults"] < 100'
	rm "$disk/mapped"
	job lock flock "$TMP/work/lock" true
	run "$PROCTOR" diff lock#2 lock#1 --json
	json "diff compares what was waited for" "$stdout" \
		'[r["difference"] > 0.2 for r in d["differences"] if r["key"] == "time:file_lock"] == [True]'
	run "$PROCTOR" diff lock#2 lock#1
	like "in words" "$stdout" 'longer: .* s more waiting for a file lock'
	run "$PROCTOR" why lock#2 lock#1
	like "and so does why" "$stdout" '^because .* s more waiting for a file lock'
	run "$PROCTOR" report lock --attempt 1
	like "the report has it in a line" "$stdout" 'Where the time went: ~?[0-9]+ % waiting for a file lock'
	run "$PROCTOR" sql --json \
		"SELECT j.key AS k FROM attempts a JOIN jobs ON jobs.id = a.job, json_each(a.time) j
		 WHERE job_id = 'timer' AND j.key <> 'evidence' ORDER BY j.value DESC LIMIT 1"
	like "SQL has it" "$stdout" '"timer"'

	start_daemon
	how=()
	job beside sleep 1.2
	is "beside a daemon" "$(json_eval "$stdout" "$of_job")" timer
	run "$PROCTOR" stop
else
	skip "where the time went, by eBPF" "no eBPF here: $(json_eval "$stdout" 'd["rung_reasons"]["syscall counts and time"]')"
fi

# ---- as another user, by samples ----

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	mkdir "$TMP/user" && chown 65534 "$TMP/user"
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups env PROCTOR_HOME="$TMP/user/home" HOME="$TMP/user")
else
	as=()
fi
how=()
causes samples
json "it is sampled" "$stdout" 'd["time"]["evidence"] == "sampled"'
run "${as[@]}" "$TMP/proctor" report timer
like "which the report marks" "$stdout" 'Where the time went: ~[0-9]+ % asleep'
finish
