#!/bin/bash
# GPUs from the driver to the report: a host that has none, and one whose NVIDIA library is a
# stand-in (tests/unit/nvml_stand_in.h) that fails when it is told to.
. "$(dirname "$0")/lib.sh"
mkdir -p "$PROCTOR_HOME"
library=$(dirname "$PROCTOR")/tests/unit
export STAND_IN_PID_FILE=$TMP/pid STAND_IN_FAIL_FILE=$TMP/fail
export TMP

if ! [ -e /dev/nvidiactl ] && ! [ -e /dev/dri ]; then
	run "$PROCTOR" doctor
	like "doctor says what it has looked for" "$stdout" 'GPUs +ok +none; looked for /proc/driver/nvidia'
fi
if ! command -v nvidia-smi >/dev/null; then
	run "$SOURCE_ROOT/tests/gpu/run" "$PROCTOR"
	is "without one the tests of real GPUs test nothing" "$status" 77
	is "and say so" "$stdout" "no NVIDIA GPU here: nothing tested"
fi
[ -e "$library/libnvidia-ml.so.1" ] || { skip "a GPU" "the stand-in is not built"; finish; }

# with_gpu COMMAND...: where NVIDIA's device files are, and all processes are ours.
cat >"$TMP/with_gpu" <<END
#!/bin/bash
mkdir -p "$TMP/dev" && mount -t tmpfs dev "$TMP/dev" || exit 125
for name in null zero random urandom tty; do
	: >"$TMP/dev/\$name"
	mount --bind "/dev/\$name" "$TMP/dev/\$name" || exit 125
done
mkdir "$TMP/dev/shm"
ln -s /proc/self/fd "$TMP/dev/fd"
: >"$TMP/dev/nvidiactl"
: >"$TMP/dev/nvidia0"
mount --bind "$TMP/dev" /dev || exit 125
export LD_LIBRARY_PATH=$library
exec "\$@"
END
chmod +x "$TMP/with_gpu"
with_gpu() {
	unshare --mount --pid --fork --mount-proc --kill-child "$TMP/with_gpu" "$@"
}
with_gpu true 2>/dev/null || { skip "a GPU" "there is no mount namespace for it"; finish; }

# job SECONDS: holds 1 MiB of each of three GPUs, each 40 % busy, after a second without one.
cat >"$TMP/job" <<'END'
#!/bin/sh
sleep 1
sh -c 'exec 9</dev/nvidia0; echo $$ >"$TMP/pid"; exec sleep "$0"' "$1"
rm "$TMP/pid"
END
chmod +x "$TMP/job"

# ---- a run ----

# It is watched by another one, which would start the next 10 s after its end.
with_gpu "$PROCTOR" run -q --interval 1 --job long -- \
	sh -c 'sleep 13; grep -lx proctor-gpu /proc/[0-9]*/comm | wc -l >"$0"' "$TMP/readers"
is "one reads, for as long as the run takes" "$(cat "$TMP/readers")" 2
with_gpu "$PROCTOR" run -q --interval 1 --job busy -- "$TMP/job" 6
run "$PROCTOR" report busy --format json
json "the rung" "$stdout" 'd["rungs"]["GPU"] == "NVML"'
json "the memory" "$stdout" 'd["peak_gpu_memory_mb"] == 3'
json "the time of three GPUs" "$stdout" '3 <= d["gpu_seconds"] <= 9'
json "none of it idle" "$stdout" 'd["gpu_idle_seconds"] == 0'
json "nothing went wrong" "$stdout" '[u for u in d["unknown"] if u["what"] == "gpus"] == []'

# ---- a driver that fails on the way ----

cat >"$TMP/fails" <<'END'
#!/bin/sh
(sleep 5; : >"$TMP/fail") &
"$TMP/job" 8
wait
END
chmod +x "$TMP/fails"
with_gpu "$PROCTOR" run -q --interval 1 --job fails -- "$TMP/fails"
rm -f "$TMP/fail"
run "$PROCTOR" report fails --format json
json "that it failed is said, and for how long" "$stdout" \
	'any("NVML cannot read a GPU: Unknown Error (for " in u["why"] for u in d["unknown"])'
json "as is who had answered" "$stdout" 'd["rungs"]["GPU"] == "NVML"'

# ---- no rights ----

export STAND_IN_INIT_RESULT=4 # no permission
with_gpu "$PROCTOR" run -q --interval 1 --job denied -- sleep 3
run "$PROCTOR" report denied --format json
json "who has no rights to a GPU has none" "$stdout" 'd["rungs"]["GPU"] == "none"'
json "which is no gap" "$stdout" '[u for u in d["unknown"] if u["what"] == "gpus"] == []'
run "$PROCTOR" report denied
unlike "and not a word is lost on it" "$stdout" 'NVML'
run with_gpu "$PROCTOR" doctor
like "but by doctor" "$stdout" 'NVML: NVML cannot begin'
printf 'interval_seconds: 1\n' >"$PROCTOR_HOME/proctor.yaml"
export PROCTOR
with_gpu bash -c '"$PROCTOR" start; sleep 4; "$PROCTOR" stop'
unlike "nor by the daemon" "$(cat "$PROCTOR_HOME/daemon.log")" 'GPUs are'
rm -f "$PROCTOR_HOME/proctor.yaml"
unset STAND_IN_INIT_RESULT

# ---- the daemon ----

cat >"$TMP/daemon" <<'END'
#!/bin/bash
rung() {
	"$PROCTOR" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["rungs"]["GPU"])'
}
until_rung() { # WANTED
	for ((i = 0; i < 200; i++)); do
		[ "$(rung)" = "$1" ] && { echo "rung $1"; return; }
		sleep 0.1
	done
}
"$PROCTOR" start
until_rung NVML
: >"$TMP/fail"
until_rung none
sleep 2
"$PROCTOR" stop
sleep 3
ps -eo comm | grep -c proctor-gpu
END
chmod +x "$TMP/daemon"
printf 'interval_seconds: 1\n' >"$PROCTOR_HOME/proctor.yaml"
export PROCTOR
run with_gpu "$TMP/daemon"
like "status names who answers" "$stdout" 'rung NVML'
like "and that nobody does" "$stdout" 'rung none'
is "nothing is left of it" "$(tail -n 1 <<<"$stdout")" 0
is "a change is logged once" "$(grep -c 'NVML cannot read a GPU' "$PROCTOR_HOME/daemon.log")" 1
rm -f "$TMP/fail"

# ---- top, by itself ----

# How many processes ask GPUs while it runs; the terminal is made outside.
cat >"$TMP/top" <<'END'
#!/bin/sh
(sleep 3; ps -eo comm | grep -c proctor-gpu >"$TMP/seen") &
TERM=xterm exec "$PROCTOR" top
END
cat >"$TMP/terminal.py" <<'END'
import os, pty, sys, time
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
time.sleep(5)
os.write(fd, b"q")
os.waitpid(pid, 0)
END
chmod +x "$TMP/top"
top_in_terminal() {
	timeout 30 python3 "$TMP/terminal.py" unshare --mount --pid --fork --mount-proc --kill-child \
		"$TMP/with_gpu" "$TMP/top"
}
rm -f "$PROCTOR_HOME/proctor.yaml"
top_in_terminal
like "top asks GPUs" "$(cat "$TMP/seen")" '^[1-9]'
printf 'gpu_enabled: false\n' >"$PROCTOR_HOME/proctor.yaml"
top_in_terminal
is "but not where the configuration says no" "$(cat "$TMP/seen")" 0

finish
