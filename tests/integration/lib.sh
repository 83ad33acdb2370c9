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
# touches the home of whoever runs the tests.
# shellcheck disable=SC2034 # the scripts that source this use what is set here

. "$(dirname "${BASH_SOURCE[0]}")/../tap.sh" || exit 1

: "${PROCTOR:?is set by the test runner: the proctor to test}"
SOURCE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
EXAMPLES=$SOURCE_ROOT/examples

export PROCTOR_HOME=$TMP/home
export HOME=$TMP
unset XDG_STATE_HOME XDG_RUNTIME_DIR XDG_CONFIG_HOME NO_COLOR
export LC_ALL=C.UTF-8 TERM=dumb

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

# hold_database NAME: nobody else can write to it until pass NAME; sets $holder, to wait for.
hold_database() {
	python3 - "$PROCTOR_HOME/proctor.db" "$TMP/held.$1" "$TMP/passed.$1" <<'END' &
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
while os.path.exists(sys.argv[2]) and not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
END
	holder=$!
	eventually test -e "$TMP/held.$1"
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
