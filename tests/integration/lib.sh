# shellcheck shell=bash
# lib.sh - what an integration test has: the TAP helpers of tests/tap.sh, the
# program, a home of its own, and a way to ask JSON questions.
#
#	. "$(dirname "$0")/lib.sh"
#	run "$PROCTOR" run --json -- true
#	is "status" "$status" 0
#	json "outcome is success" "$stdout" 'd["outcome"] == "success"'
#	finish
#
# PROCTOR is the program under test, EXAMPLES the folder of examples. Nothing
# touches the home of whoever runs the tests. A script that mounts something has
# "export OWN_MOUNTS=wanted" above: then it runs in a mount namespace of its own,
# where this machine makes one, and OWN_MOUNTS is yes.
#
# Scripts test what users and other programs rely on: verbs, statuses, documented fields, methods
# and files, signals, and what happens to processes, files and disks. No script reads
# tables that docs/sql.md does not describe, and none depends on which process has written something.
# shellcheck disable=SC2034 # the scripts that source this use what is set here

if [ -n "${IN_OWN_MOUNTS:-}" ]; then
	OWN_MOUNTS=yes
elif [ "${OWN_MOUNTS:-}" = wanted ] && [ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null; then
	IN_OWN_MOUNTS=1 exec unshare -m "$0" "$@"
fi
unset IN_OWN_MOUNTS

. "$(dirname "${BASH_SOURCE[0]}")/../tap.sh" || exit 1

: "${PROCTOR:?is set by the test runner: the proctor to test}"
SOURCE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
INTEGRATION=$SOURCE_ROOT/tests/integration
EXAMPLES=$SOURCE_ROOT/examples

export PROCTOR_HOME=$TMP/home
export HOME=$TMP
unset XDG_STATE_HOME XDG_RUNTIME_DIR XDG_CONFIG_HOME NO_COLOR
export LC_ALL=C.UTF-8 TERM=dumb

# The daemon that start_daemon has started goes with the script.
clean_up() {
	[ ! -e "$TMP/daemon" ] || "$PROCTOR" stop --jobs >/dev/null 2>&1
	rm -rf "$TMP"
}
trap '[ "$BASHPID" != $$ ] || clean_up' EXIT

# run COMMAND [ARG...]: sets status, stdout and stderr. Trailing newlines are lost.
run() {
	"$@" >"$TMP/stdout" 2>"$TMP/stderr" </dev/null
	status=$?
	stdout=$(tr -d '\0' <"$TMP/stdout")
	stderr=$(tr -d '\0' <"$TMP/stderr")
}

# json_eval TEXT EXPRESSION: prints the value of the Python expression, d being the parsed text. There are
# thousands of them: without what is installed beside Python, it begins in two thirds of the time.
json_eval() {
	python3 -I -S -c '
import json, sys
d = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$2" <<<"$1" 2>&1 | tail -n 1
}

# json NAME TEXT EXPRESSION: passes if the expression is True, and not only something like it.
json() {
	local value
	value=$(json_eval "$2" "$3")
	if [ "$value" = True ]; then
		ok "$1"
	else
		not_ok "$1" "$3 gave $value" "for ${2:0:2000}"
	fi
}

# gate NAME: shell code for a job that is to go on at pass NAME, when the test has seen enough.
gate() {
	echo "while [ -d $TMP ] && [ ! -e $TMP/passed.$1 ]; do sleep 0.1; done"
}
pass() { # NAME
	: >"$TMP/passed.$1"
}

# hold_database NAME: locks the database against other writers until release_database NAME, and against readers, too,
# with EXCLUSIVE=1. Sets $holder; the time from when to when is in the file held.NAME then.
hold_database() {
	python3 - "$PROCTOR_HOME/proctor.db" "$TMP/held.$1" "$TMP/passed.$1" "${EXCLUSIVE:-}" <<'END' &
import os, sqlite3, sys, time
path, held, passed, exclusive = sys.argv[1:]
db = sqlite3.connect(path, isolation_level=None, timeout=60)
if exclusive:
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
db.execute("BEGIN EXCLUSIVE" if exclusive else "BEGIN IMMEDIATE")
began = time.time()
open(held, "w").close()
while os.path.exists(held) and not os.path.exists(passed):
    time.sleep(0.05)
if os.path.exists(held):
    with open(held, "w") as f:
        print(began, time.time(), sep=", ", file=f)
db.execute("COMMIT")
END
	holder=$!
	eventually test -e "$TMP/held.$1"
}

release_database() { # NAME
	pass "$1"
	wait "$holder"
}

# meanwhile NAME: of a history, d, that it has samples of the time in which hold_database NAME held it.
meanwhile() {
	echo "len({s['timestamp'] for s in d if $(sed 's/, / < s["timestamp"] < /' "$TMP/held.$1")}) > 1"
}

# move_database FOLDER: away from where it belongs, and all that SQLite has beside it.
move_database() {
	local part
	mkdir -p "$1"
	for part in "" -wal -shm; do
		[ ! -e "$PROCTOR_HOME/proctor.db$part" ] || mv "$PROCTOR_HOME/proctor.db$part" "$1/"
	done
}

# small_disk SIZE: is PROCTOR_HOME from now on, until leave_small_disk. Fails where none can be mounted.
small_disk() {
	[ "${OWN_MOUNTS:-}" = yes ] || return
	mkdir -p "$TMP/small"
	mount -t tmpfs -o "size=$1,mode=700" tmpfs "$TMP/small" 2>/dev/null || return
	export PROCTOR_HOME=$TMP/small
}

leave_small_disk() {
	umount -l "$TMP/small"
	export PROCTOR_HOME=$TMP/home
}

# make_cgroup: makes one below our own, in which there are 64 MB, and sets $cgroup.
make_cgroup() {
	local path
	if path=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup) && [ -n "$path" ]; then
		cgroup=/sys/fs/cgroup/memory${path%/}/proctor-test-$$
		mkdir "$cgroup" && echo 64M >"$cgroup/memory.limit_in_bytes"
	else
		path=$(sed -n 's/^0:://p' /proc/self/cgroup)
		cgroup=/sys/fs/cgroup${path%/}/proctor-test-$$
		mkdir "$cgroup" && echo 64M >"$cgroup/memory.max"
	fi
}

fill_disk() {
	head -c 64m /dev/zero >"$TMP/small/filler" 2>/dev/null
}

# ends_of JOB: "ATTEMPT OUTCOME EXIT-CODE" of each attempt that is recorded, its status where it has no outcome.
ends_of() {
	json_eval "$("$PROCTOR" jobs --all --json 2>/dev/null)" \
		"'; '.join('%s %s %s' % (j['attempt'], j['outcome'] or j['status'], j['exit_code']) for j in d if j['job_id'] == '$1')"
}

# start_daemon [CONFIGURATION]: with as much CPU as it takes, or a busy host has fewer ticks. It is stopped at the
# end of the script.
start_daemon() {
	if [ -n "${PROCTOR_HOME:-}" ]; then
		mkdir -p "$PROCTOR_HOME"
	fi
	if [ $# -gt 0 ]; then
		printf '%s\nlimits:\n  max_daemon_cpu_percent: 100\n' "$1" >"${PROCTOR_HOME:-/etc/proctor}/proctor.yaml"
	fi
	: >"$TMP/daemon"
	"$PROCTOR" start >/dev/null
}

# status_of EXPRESSION: of "status --json", as d.
status_of() {
	json_eval "$("$PROCTOR" status --json 2>/dev/null)" "$1"
}

daemon_pid() {
	status_of 'd["pid"]'
}

# ask METHOD [PARAMS [EVENTS]]: prints the daemon's result or error, and so many lines that follow.
ask() {
	python3 "$INTEGRATION/rpc_client.py" "${PROCTOR_HOME:-/run/proctor}/proctor.sock" "$@"
}

# has_ticks JOB N: whether so many snapshots of it are in the record.
has_ticks() {
	[ "$(json_eval "$("$PROCTOR" history --job "$1" --json 2>/dev/null)" \
		"len({s['timestamp'] for s in d}) >= $2")" = True ]
}

# has_subscribers N: whether at least so many listen to the daemon.
has_subscribers() {
	[ "$(json_eval "$("$PROCTOR" status --json 2>/dev/null)" "d['subscribers'] >= $1")" = True ]
}

# eventually COMMAND [ARG...]: succeeds as soon as it does, or fails after two minutes, as others may
# take all of the machine.
eventually() {
	local end=$((EPOCHSECONDS + 120))
	until "$@" >/dev/null 2>&1; do
		[ $EPOCHSECONDS -lt $end ] || return
		sleep 0.1
	done
}

# becomes WANTED COMMAND [ARG...]: until it prints that, for at most two minutes; prints the last.
becomes() {
	local wanted=$1 got end=$((EPOCHSECONDS + 120))
	shift
	until got=$("$@" 2>&1); [ "$got" = "$wanted" ]; do
		[ $EPOCHSECONDS -lt $end ] || break
		sleep 0.2
	done
	echo "$got"
}
