#!/bin/bash
# What the unit of systemd leaves the daemon is enough for it: with the capabilities, without new
# privileges, and with the system calls that are named there.
. "$(dirname "$0")/lib.sh"
unit=$SOURCE_ROOT/systemd/proctor.service.in
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT

is_up() {
	"$PROCTOR" status
}

# ---- capabilities ----

capabilities() { # as setpriv has them: +kill,+net_admin
	sed -n 's/^CapabilityBoundingSet=//p' "$unit" | tr 'A-Z ' 'a-z,' | sed 's/cap_/+/g'
}

sleeper() { # KEY: of the process that "sleep" is, as the daemon sees it
	python3 - "$PROCTOR_HOME/proctor.sock" "$1" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b'{"jsonrpc": "2.0", "id": 1, "method": "daemon.top"}\n')
processes = json.loads(s.makefile().readline())["result"]["processes"]
print([p[sys.argv[2]] for p in processes if p["command"] == "sleep 61"][0])
END
}

mkdir -p "$PROCTOR_HOME"
# Another daemon of this host may have the page's address.
printf 'interval_seconds: 0.2\nweb:\n  enabled: false\n' >"$PROCTOR_HOME/proctor.yaml"
if [ "$(id -u)" -ne 0 ]; then
	skip "the daemon works with its capabilities only" "not root"
else
	setpriv --bounding-set="-all,$(capabilities)" --inh-caps=-all --no-new-privs \
		"$PROCTOR" start --foreground 2>"$TMP/said" &
	daemon=$!
	check "it comes up with its capabilities only" eventually is_up
	is "it has no others" "$(sed -n 's/^CapEff:\t//p' "/proc/$daemon/status")" \
		"$(sed -n 's/^CapBnd:\t//p' "/proc/$daemon/status")"
	unlike "and not all of them" "$(sed -n 's/^CapEff:\t//p' "/proc/$daemon/status")" '1ffffffffff$'
	rung='d["rungs"]["births, deaths, exit codes"]'
	is "births and deaths are told by the kernel" "$(json_eval "$("$PROCTOR" status --json)" "$rung")" \
		"$(json_eval "$("$PROCTOR" doctor --json)" "$rung")"
	"$PROCTOR" run -q -- setpriv --reuid=65534 --regid=65534 --clear-groups sleep 61 &
	runner=$!
	check "a process of another user is seen" eventually sleeper pid
	like "its I/O too" "$(sleeper read_bytes)" '^[0-9]+$'
	like "and its files" "$(sleeper open_fds)" '^[0-9]+$'
	kill "$runner"
	"$PROCTOR" stop
	wait
	# that it costs too much is no complaint about its confinement
	is "it has no complaint" "$(grep -vE 'listens on|stops: pid|: looks every|% of a core' "$TMP/said")" ""
fi

# ---- system calls ----

# Prints one per line what a filter of systemd means. "@name" is a set of them.
expand() { # WORD...
	local word
	for word in "$@"; do
		if [[ $word == @* ]]; then
			# shellcheck disable=SC2046 # each word is one
			expand $(systemd-analyze syscall-filter "$word" | sed -n 's/^    \([^#].*\)/\1/p')
		else
			echo "$word"
		fi
	done
}

# What all lines of the filter together allow: one that begins with ~ takes away.
allowed() {
	local line
	: >"$TMP/allowed"
	while read -r line; do
		# shellcheck disable=SC2086 # each word is one
		expand ${line#\~} | sort -u >"$TMP/words"
		if [[ $line == \~* ]]; then
			comm -23 "$TMP/allowed" "$TMP/words" >"$TMP/rest"
		else
			sort -u "$TMP/allowed" "$TMP/words" >"$TMP/rest"
		fi
		mv "$TMP/rest" "$TMP/allowed"
	done < <(sed -n 's/^SystemCallFilter=//p' "$unit")
	cat "$TMP/allowed"
}

if ! type systemd-analyze strace >/dev/null 2>&1; then
	skip "the daemon makes no other system calls" "there is no systemd-analyze or no strace here"
elif ! strace -o /dev/null true 2>/dev/null; then
	skip "the daemon makes no other system calls" "nothing can be traced here"
else
	allowed >/dev/null
	strace -f -o "$TMP/trace" "$PROCTOR" start --foreground 2>"$TMP/said" &
	check "it comes up while it is traced" eventually is_up
	"$PROCTOR" run -q -- sh -c 'sleep 0.5; /bin/true'
	kill -HUP "$(json_eval "$("$PROCTOR" status --json)" 'd["pid"]')"
	sleep 0.5
	"$PROCTOR" stop
	wait
	# "1234 read(3, ..." and "1234 <... read resumed>"
	sed -nE 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/p' "$TMP/trace" | sort -u >"$TMP/used"
	like "calls were seen" "$(cat "$TMP/used")" '^openat$'
	is "the daemon makes no other system calls" "$(comm -23 "$TMP/used" "$TMP/allowed")" ""
fi

finish
