#!/bin/bash
# The rungs that need the kernel's help, what is said where it does not give it, and full traces.
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
	PROCTOR_HOME=$TMP/home
fi

# ---- the daemon ----

start_daemon() { # what the configuration says
	mkdir -p "$PROCTOR_HOME"
	echo "$1" >"$PROCTOR_HOME/proctor.yaml"
	"$PROCTOR" start >/dev/null
	run "$PROCTOR" status --json
}

start_daemon 'interval_seconds: 0.2'
is "the daemon takes the best there is" "$(json_eval "$stdout" 'd["rungs"]["process samples"]')" \
	"$best_samples"
check "and no more memory than it may" [ "$(json_eval "$stdout" 'd["rss_mb"] < 24')" = True ]
"$PROCTOR" stop
start_daemon 'ebpf_enabled: false'
is "it can be switched off" "$(json_eval "$stdout" 'd["rungs"]["process samples"]')" /proc
unlike "for births and deaths too" "$(json_eval "$stdout" 'd["rungs"]["births, deaths, exit codes"]')" eBPF
"$PROCTOR" stop
rm "$PROCTOR_HOME/proctor.yaml"

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

tracer_of() { # PID
	awk '/^TracerPid:/ { print $2 }' "/proc/$1/status"
}

# The pid of who traces PID, waiting until that is, or is not, 0.
await_tracer() { # PID ==|!=
	local i tracer
	for ((i = 0; i < 200; i++)); do
		tracer=$(tracer_of "$1")
		[[ $2 == == && $tracer == 0 || $2 == != && $tracer != 0 ]] && break
		sleep 0.05
	done
	echo "$tracer"
}

if command -v strace >/dev/null; then
	bash -c 'while :; do /bin/true; done' &
	target=$!
	run "$PROCTOR" trace "$target" --duration 2s --max-bytes 3000
	is "a trace works" "$status" 0
	check "it is bounded" [ "${#stdout}" -le 3000 ]
	like "and says so" "$stderr" 'max-bytes is reached|time is up'
	like "it has the calls" "$stdout" '[0-9]{2}:[0-9]{2}:[0-9]{2} [a-z0-9_]+\('
	is "the process is free again" "$(await_tracer "$target" ==)" 0

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
