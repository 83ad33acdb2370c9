#!/bin/bash
# An ordinary user gets the same, on whatever rungs that user may use.
. "$(dirname "$0")/lib.sh"

if [ "$(id -u)" -ne 0 ]; then
	skip "an ordinary user" "the tests run as an ordinary user already"
	finish
fi
chmod 755 "$TMP"
cp "$PROCTOR" "$TMP/proctor"
chmod 755 "$TMP/proctor"
mkdir "$TMP/user"
chown 65534:65534 "$TMP/user"
as_user() {
	run setpriv --reuid=65534 --regid=65534 --clear-groups env PROCTOR_HOME="$TMP/user/home" "$@"
}

as_user "$TMP/proctor" run -q --json -- sh -c 'for i in $(seq 200); do /bin/true; done; exit 3'
is "the status passes through" "$status" 3
json "processes are counted, or said to be a lower bound" "$stdout" \
	'd["process_spawn_count"] >= 201 or d["evidence"]["process_spawn_count"] == "at least"'
json "CPU time is exact" "$stdout" \
	'd["evidence"]["total_cpu_seconds"] == "exact" and d["total_cpu_seconds"] > 0'
json "I/O is known" "$stdout" 'd["rchar"] > 0'
as_user "$TMP/proctor" snapshot --all --json
json "a snapshot shows what this user may see" "$stdout" \
	'all(p["rss_mb"] is not None for p in d["processes"] if p["pid"] == 1) and len(d["processes"]) > 1'
json "I/O of others is unknown, not zero" "$stdout" \
	'[p["read_bytes"] for p in d["processes"] if p["pid"] == 1] in ([None], [])'
mkdir -m 700 "$TMP/locked"
as_user env XDG_RUNTIME_DIR="$TMP/locked" "$TMP/proctor" status
unlike "a folder of somebody else has no daemon of this user" "$stderr" 'Permission denied'
as_user env -u PROCTOR_HOME HOME="$TMP/user" XDG_RUNTIME_DIR="$TMP/locked" "$TMP/proctor" status
like "but where no other was named, it is told" "$stderr" 'cannot connect to .*Permission denied'
as_user "$TMP/proctor" doctor
is "doctor finds nothing broken" "$status" 0

# A pid namespace of its own: /proc is another, and the kernel tells of no births there.
if unshare --pid --fork --mount-proc true 2>/dev/null; then
	run unshare --pid --fork --mount-proc "$PROCTOR" run -q --json -- \
		sh -c 'for i in $(seq 50); do /bin/true; done; sleep 0.3; exit 3'
	is "in a container the status passes through" "$status" 3
	json "counts are not called exact there unless they are" "$stdout" \
		'd["process_spawn_count"] >= 51 or d["evidence"]["process_spawn_count"] == "at least"'
	json "CPU time is exact there too" "$stdout" 'd["evidence"]["total_cpu_seconds"] == "exact"'
	cat >"$TMP/left.yaml" <<-'EOF'
		job_id: left
		sheets:
		  - run: sleep 1020 & echo $! >"$LEFT"
		  - run: sleep 1021
		    timeout: 1s
	EOF
	run env LEFT="$TMP/left" unshare --pid --fork --mount-proc sh -c \
		'"$0" run -q --leave-background -f "$1"; kill -0 "$(cat "$LEFT")"' "$PROCTOR" "$TMP/left.yaml"
	is "what a sheet leaves running there does not end with the next" "$status $stderr" "0 "
else
	skip "in a container" "this machine makes no pid namespaces"
fi

# A kernel without PSI, and no cgroup controllers.
mkdir "$TMP/empty"
hide='for f in /proc/pressure /sys/fs/cgroup; do [ ! -d $f ] || mount --bind "$0" $f || exit 99; done'
if unshare --mount sh -c "$hide" "$TMP/empty" 2>/dev/null; then
	run unshare --mount sh -c "$hide"'; exec "$@"' "$TMP/empty" "$PROCTOR" run -q --json -- \
		sh -c 'sleep 0.3; exit 3'
	is "without PSI and cgroups the status passes through" "$status" 3
	# the last sample may be of one that has just ended
	json "and the numbers are there" "$stdout" \
		'd["evidence"]["total_cpu_seconds"] == "exact" and any(p["rss_mb"] for p in d["series"])'
	run unshare --mount sh -c "$hide"'; exec "$@"' "$TMP/empty" "$PROCTOR" snapshot --all --json
	json "pressure is unknown there" "$stdout" 'd["psi_memory"] is None and d["psi_cpu"] is None'
	run unshare --mount sh -c "$hide"'; exec "$@"' "$TMP/empty" "$PROCTOR" doctor
	like "and doctor says so" "$stdout" 'pressure +note .*no PSI'
else
	skip "without PSI and cgroups" "this machine makes no mount namespaces"
fi

# No /proc at all.
if unshare --mount mount --bind "$TMP/empty" /proc 2>/dev/null; then
	run unshare --mount sh -c 'mount --bind "$0" /proc; exec "$@"' "$TMP/empty" "$PROCTOR" run -- \
		sh -c 'exit 3'
	is "without /proc the status passes through" "$status" 3
	run unshare --mount sh -c 'mount --bind "$0" /proc; exec "$@"' "$TMP/empty" "$PROCTOR" doctor
	like "and doctor claims no samples" "$stdout" 'process samples +none'
else
	skip "without /proc" "this machine makes no mount namespaces"
fi

# A pid namespace that still has the /proc of its host: the numbers there are other processes'.
if unshare --pid --fork true 2>/dev/null; then
	run unshare --pid --fork "$PROCTOR" run --json -- sh -c 'sleep 0.3; exit 3'
	is "in another pid namespace the status passes through" "$status" 3
	json "and the host's processes are not the job's" "$stdout" 'len(d["processes"]) <= 2 and not d["series"]'
	json "which is said" "$stdout" '"another pid namespace" in str(d["unknown"])'
	run unshare --pid --fork "$PROCTOR" doctor
	like "and doctor claims no samples" "$stdout" 'process samples +none'
	run unshare --pid --fork --mount-proc "$PROCTOR" run --json -- sh -c 'sleep 0.3; exit 3'
	json "with its own /proc there are samples" "$stdout" 'd["series"] and len(d["processes"]) <= 2'
else
	skip "another pid namespace" "this machine makes no pid namespaces"
fi

# A folder that cannot be written.
mkdir -m 555 "$TMP/readonly"
run setpriv --reuid=65534 --regid=65534 --clear-groups env PROCTOR_HOME="$TMP/readonly/home" \
	"$TMP/proctor" run -- sh -c 'echo ran; exit 4'
is "a folder that cannot be written: the command runs" "$stdout/$status" "ran/4"
like "and it is said" "$stderr" 'not recorded: .*Permission denied'

finish
