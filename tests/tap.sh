# shellcheck shell=bash
# tap.sh - for test scripts: prints cases as TAP, sourced by each of them.
#
#	. "$(dirname "$0")/../tap.sh"
#	check "two and two" [ $((2 + 2)) -eq 4 ]
#	finish
#
# A script that ends before finish prints no plan, and the runner takes that
# for a failure. TMP is a fresh folder, removed at the end.

set -u
tap_count=0
tap_failed=0
TMP=$(mktemp -d "${TMPDIR:-/tmp}/proctor-test.XXXXXX") || exit 1
# A child that is ended before it has become its command may still run this.
trap '[ "$BASHPID" != $$ ] || rm -rf "$TMP"' EXIT
trap 'exit 130' INT TERM

ok() { # NAME
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1"
}

not_ok() { # NAME [WHY...]
	tap_count=$((tap_count + 1))
	tap_failed=$((tap_failed + 1))
	echo "not ok $tap_count - $1"
	shift
	[ $# -eq 0 ] || printf '%s\n' "$@" | sed 's/^/# /'
}

skip() { # NAME REASON
	tap_count=$((tap_count + 1))
	echo "ok $tap_count - $1 # SKIP $2"
}

# check NAME COMMAND [ARG...]: passes if the command succeeds; what it says is shown if not.
check() {
	local name=$1 said status
	shift
	said=$("$@" 2>&1 </dev/null)
	status=$?
	if [ $status -eq 0 ]; then
		ok "$name"
	else
		not_ok "$name" "$* gave status $status" "$said"
	fi
}

# is NAME GOT WANTED: passes if both texts are the same.
is() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "got:    $2" "wanted: $3"
	fi
}

# like NAME TEXT REGEX: passes if the extended regular expression is found in the text.
like() {
	if grep -Eq -- "$3" <<<"$2"; then
		ok "$1"
	else
		not_ok "$1" "wanted something like: $3" "got: $2"
	fi
}

# unlike NAME TEXT REGEX: passes if it is not.
unlike() {
	if grep -Eq -- "$3" <<<"$2"; then
		not_ok "$1" "did not want: $3" "got: $2"
	else
		ok "$1"
	fi
}

# Prints the plan and ends the script.
finish() {
	echo "1..$tap_count"
	[ "$tap_failed" -eq 0 ]
	exit
}
