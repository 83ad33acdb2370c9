#!/bin/bash
# A kernel that lacks a part of eBPF, or does not let anybody: the next rung is taken, and why is said.
. "$(dirname "$0")/lib.sh"
trap '"$PROCTOR" stop 2>/dev/null; rm -rf "$TMP"' EXIT

rung() { # MEASUREMENT: that rung, and why no better
	json_eval "$stdout" 'd["rungs"]["'"$1"'"] + " | " + d["rung_reasons"]["'"$1"'"]'
}

refuse() { # ERRNO COMMANDS PROGRAM [ARG...]: see refuse.py
	local errno=$1 commands=$2
	shift 2
	run python3 "$SOURCE_ROOT/tests/integration/refuse.py" "$errno" "$commands" -- "$@"
}

# Numbers of commands of bpf().
readonly MAP_CREATE=0 PROG_LOAD=5 PROG_TEST_RUN=10 RAW_TRACEPOINT_OPEN=17 BTF_LOAD=18 LINK_CREATE=28 ITER_CREATE=33
readonly EPERM=1 EINVAL=22 ENOSYS=38 ENOTSUPP=524

run "$PROCTOR" doctor --json
if [[ $(rung 'process samples') != eBPF* || $(rung 'syscall counts and time') != eBPF* ]]; then
	skip "what a kernel refuses is said" "there is no eBPF here to be refused"
	finish
fi
refuse $EPERM all true
if [ "$status" = 77 ]; then
	skip "what a kernel refuses is said" "no seccomp filter can be set here"
	finish
fi

fallen() { # NAME WHY [MEASUREMENT...]: these, or all three, are not by eBPF, for that reason
	local name=$1 why=$2 m
	shift 2
	[ $# -gt 0 ] || set -- 'process samples' 'births, deaths, exit codes' 'syscall counts and time'
	for m; do
		like "$name: $m" "$(rung "$m")" "^(/proc|netlink proc connector.*|subreaper.*|unknown) \\| .*$why"
	done
	is "$name: doctor works" "$status" 0
}

refuse $EPERM all "$PROCTOR" doctor --json
fallen "nobody may" 'the kernel refused the eBPF program for .*not permitted'
like "and OOM kills are counted otherwise" "$(rung 'OOM kills')" '^(cgroup|a guess|unknown)'
refuse $ENOSYS all "$PROCTOR" doctor --json
fallen "a kernel without bpf()" 'does not work on this kernel: Function not implemented'
refuse $EINVAL $MAP_CREATE "$PROCTOR" doctor --json
fallen "without such maps (no ring buffer, no task storage)" 'does not work on this kernel'
refuse $EINVAL $PROG_LOAD "$PROCTOR" doctor --json
fallen "without such programs" 'does not work on this kernel'
refuse $ENOTSUPP $PROG_LOAD "$PROCTOR" doctor --json
fallen "with words for what the kernel has none" 'does not work on this kernel: not supported'
refuse $EPERM $BTF_LOAD "$PROCTOR" doctor --json
fallen "no types of ours" '(refused|does not work)'
refuse $ENOTSUPP $LINK_CREATE,$RAW_TRACEPOINT_OPEN "$PROCTOR" doctor --json
fallen "loaded, and not to be attached" 'does not work on this kernel: not supported'
refuse $EINVAL $ITER_CREATE "$PROCTOR" doctor --json
fallen "no task iterator" 'does not work on this kernel' 'process samples' 'syscall counts and time'
like "births and deaths need none" "$(rung 'births, deaths, exit codes')" '^eBPF'
refuse $EINVAL $PROG_TEST_RUN "$PROCTOR" doctor --json
fallen "where programs cannot be run by themselves" 'does not work on this kernel' 'process samples' 'births, deaths, exit codes'

hidden() { # MOUNTED PREPARE: doctor, with an empty folder over that one
	# shellcheck disable=SC2016 # it is the shell inside that knows them
	run unshare -m sh -c 'mount -t tmpfs tmpfs "$1" || exit 77; cd "$1" && eval "$2"; shift 2; cd /; exec "$@"' \
		sh "$1" "$2" "${@:3}"
}
hidden /sys/kernel/btf : "$PROCTOR" doctor --json
if [ "$status" = 77 ]; then
	skip "a kernel that does not describe itself" "nothing can be mounted here"
else
	fallen "no BTF" 'does not describe itself \(/sys/kernel/btf/vmlinux\)'
fi
hidden /sys/kernel/security 'echo "none integrity [confidentiality]" >lockdown' \
	python3 "$SOURCE_ROOT/tests/integration/refuse.py" $EPERM $PROG_LOAD -- "$PROCTOR" doctor --json
if [ "$status" = 77 ]; then
	skip "a kernel that is locked down" "nothing can be mounted here"
else
	fallen "locked down" 'the kernel is locked down \(confidentiality\)'
fi

# ---- a daemon takes the same rungs, and jobs run ----

works() { # NAME: a daemon is there, and a run beside it is recorded
	run "$PROCTOR" run -q --json --job "$1" -- sh -c 'sleep 1; exit 3'
	is "$1: a job runs" "$status" 3
	run "$PROCTOR" report "$1" --format json
	json "$1: its calls were not counted, which is not none" "$stdout" 'd["syscalls"] is None'
	run "$PROCTOR" status --json
	unlike "$1: births and deaths" "$(json_eval "$stdout" 'd["rungs"]["births, deaths, exit codes"]')" eBPF
	is "$1: samples" "$(json_eval "$stdout" 'd["rungs"]["process samples"]')" /proc
	is "$1: system calls" "$(json_eval "$stdout" 'd["rungs"]["syscall counts and time"]')" unknown
	"$PROCTOR" stop
}

mkdir -p "$PROCTOR_HOME"
echo 'interval_seconds: 0.2' >"$PROCTOR_HOME/proctor.yaml"
refuse $EPERM all "$PROCTOR" start
works refused
refuse $ENOTSUPP $LINK_CREATE,$RAW_TRACEPOINT_OPEN "$PROCTOR" start
works unattached
refuse $ENOTSUPP $LINK_CREATE,$RAW_TRACEPOINT_OPEN "$PROCTOR" run -q --json --syscalls=auto -- sh -c 'exit 3'
is "a run that asks for its calls runs" "$status" 3
json "and has none" "$stdout" 'd["syscalls"] is None'
like "which is told" "$(json_eval "$stdout" '[u["why"] for u in d["unknown"] if "syscall" in u["what"]]')" '.'

finish
