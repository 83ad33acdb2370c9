#!/bin/bash
# GPUs from the driver to the report: a host that has none, and one whose NVIDIA library is a
# stand-in (tests/unit/nvml_stand_in.h) that fails when it is told to.
. "$(dirname "$0")/lib.sh"
mkdir -p "$PROCTOR_HOME"
library=$(dirname "$PROCTOR")/tests/unit
export STAND_IN_PID_FILE=$TMP/pid STAND_IN_FAIL_FILE=$TMP/fail
export TMP

if ! [ -e /dev/nvidiactl ] && ! [ -e /dev/dri ]; then
	run "$PROCTOR" run -q --json --interval 300 -- true
	json "where there is none a job of a moment used none" "$stdout" \
		'(lambda s: s["gpu_seconds"] == d["gpu_seconds"] == d["gpu_idle_seconds"] == d["peak_gpu_memory_mb"] == 0)(
			d["sheet_metrics"]["1"])'
	run "$PROCTOR" doctor
	like "doctor says what it has looked for" "$stdout" 'GPUs +ok +none; looked for /proc/driver/nvidia'
	unlike "and nothing of what is on" "$stdout" 'gpu_enabled'
	echo 'gpu_enabled: false' >"$PROCTOR_HOME/proctor.yaml"
	run "$PROCTOR" doctor
	like "nor asked if one came, where it is off" "$stdout" \
		'GPUs +ok +none; .* it would not be asked: the configuration has gpu_enabled: false'
	rm "$PROCTOR_HOME/proctor.yaml"
fi
if ! command -v nvidia-smi >/dev/null; then
	run "$SOURCE_ROOT/tests/gpu/run" "$PROCTOR"
	is "without one the tests of real GPUs test nothing" "$status" 77
	is "and say so" "$stdout" "no NVIDIA GPU here: nothing tested"
fi
[ -e "$library/libnvidia-ml.so.1" ] || { skip "a GPU" "the stand-in is not built"; finish; }

# with_gpu COMMAND...: where NVIDIA's device files are, and all processes are ours. What is mounted
# stays in there: without a namespace of its own nothing is.
cat >"$TMP/with_gpu" <<END
#!/bin/bash
[ "\$(readlink /proc/self/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ] || exit 125
mount --make-rprivate / || exit 125
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
unshare=(unshare --mount --propagation private --pid --fork --mount-proc --kill-child)
with_gpu() {
	"${unshare[@]}" "$TMP/with_gpu" "$@"
}
if ! with_gpu true 2>/dev/null; then
	unshare+=(--map-root-user)
	with_gpu true 2>/dev/null || { skip "a GPU" "there is no mount namespace for it"; finish; }
fi
with_gpu true
is "nothing of it is mounted outside" "$(grep -c " $TMP" /proc/self/mountinfo)" 0

# ---- a driver that comes after the daemon, looked at below: it takes a minute ----

cat >"$TMP/late.sh" <<'END'
#!/bin/bash
export PROCTOR_HOME=$TMP/late
mkdir "$PROCTOR_HOME" && printf 'interval_seconds: 1\n' >"$PROCTOR_HOME/proctor.yaml"
rm /dev/nvidiactl /dev/nvidia0
"$PROCTOR" start
: >/dev/nvidiactl
for ((i = 0; i < 1500; i++)); do
	grep -q 'a driver has come' "$PROCTOR_HOME/daemon.log" && break
	sleep 0.1
done
"$PROCTOR" stop
END
chmod +x "$TMP/late.sh"
export PROCTOR
with_gpu "$TMP/late.sh" >/dev/null 2>&1 &
late=$!

# ---- a daemon that looks rarely, looked at below, too ----

# Ticks are at whole half minutes; the GPUs begin to work some 9 s before one.
cat >"$TMP/rare.sh" <<'END'
#!/bin/bash
export PROCTOR_HOME=$TMP/rare STAND_IN_IDLE_FILE=$TMP/rare-idle
mkdir "$PROCTOR_HOME" && printf 'interval_seconds: 30\n' >"$PROCTOR_HOME/proctor.yaml"
: >"$STAND_IN_IDLE_FILE"
while ((10#$(date +%S) % 30 != 1)); do
	sleep 0.2
done
"$PROCTOR" start
sleep 20
rm "$STAND_IN_IDLE_FILE"
sleep 3
# Asked by itself, the library would refuse: what is told is the daemon's.
for ((i = 0; i < 90; i++)); do
	STAND_IN_INIT_RESULT=4 "$PROCTOR" snapshot --json >"$TMP/rare.json"
	grep -q '"utilization_pct":[0-9]' "$TMP/rare.json" && break
	sleep 0.5
done
"$PROCTOR" stop
END
chmod +x "$TMP/rare.sh"
with_gpu "$TMP/rare.sh" >/dev/null 2>&1 &
rare=$!

# ---- one that is busy and then holds its memory in vain, looked at below, too ----

# Half of the time each, on three GPUs; the change is in the middle of two samples.
cat >"$TMP/rests" <<'END'
#!/bin/sh
exec 9</dev/nvidia0
echo $$ >"$TMP/rests.pid"
sleep 7
: >"$TMP/idle"
exec sleep 7
END
chmod +x "$TMP/rests"
STAND_IN_PID_FILE=$TMP/rests.pid STAND_IN_IDLE_FILE=$TMP/idle \
	with_gpu "$PROCTOR" run -q --job rests -- "$TMP/rests" &
rests=$!

# ---- more runs, looked at below, too ----

# job SECONDS: holds 1 MiB of each of three GPUs, each 40 % busy, after a second without one.
cat >"$TMP/job" <<'END'
#!/bin/sh
sleep 1
sh -c 'exec 9</dev/nvidia0; echo $$ >"$STAND_IN_PID_FILE"; exec sleep "$0"' "$1"
rm "$STAND_IN_PID_FILE"
END
chmod +x "$TMP/job"

# The program in the place of the library.
mkdir "$TMP/bin"
cat >"$TMP/bin/nvidia-smi" <<'END'
#!/bin/sh
case $1 in
--query-gpu=*) echo "GPU-a, 50, 100, 200, 30" ;;
*) read -r pid <"$STAND_IN_PID_FILE" && echo "GPU-a, $pid, 7" ;;
esac
exit 0
END
chmod +x "$TMP/bin/nvidia-smi"
with_smi() {
	PATH=$TMP/bin:$PATH with_gpu "$@"
}

# begin JOB COMMAND...: in the background, with a pid file of its own; sets $began.
begin() {
	STAND_IN_PID_FILE=$TMP/$1.pid with_gpu "$PROCTOR" run -q --interval 1 --job "$1" -- "${@:2}" &
	began=$!
}

# It is watched by another one, which would start the next 10 s after its end.
begin long sh -c 'sleep 13; grep -lx proctor-gpu /proc/[0-9]*/comm | wc -l >"$0"' "$TMP/readers"
long=$began
begin busy "$TMP/job" 6
busy=$began
STAND_IN_MISSING=3 begin none sleep 8
none=$began
STAND_IN_INIT_RESULT=4 begin denied sleep 8 # no permission
denied=$began
STAND_IN_FAIL_FILE=$TMP/fails.fail begin fails sh -c '(sleep 5; : >"$STAND_IN_FAIL_FILE") & "$0" 8; wait' "$TMP/job"
fails=$began
: >"$TMP/crash.run"
PATH=$TMP/bin:$PATH STAND_IN_CRASH_FILE=$TMP/crash.run begin crash "$TMP/job" 14 # the program is asked every 10 s
crash=$began

# Three ranks with a GPU each, 40 % busy. That of rank 1 is idle from its 14th second on.
cat >"$TMP/rank" <<'END'
#!/bin/bash
exec 9</dev/nvidia0
echo $$ >"$TMP/rank-$PROCTOR_RANK"
if [ "$PROCTOR_RANK" = 1 ]; then
	until [ -s "$TMP/rank-0" ] && [ -s "$TMP/rank-2" ]; do sleep 0.1; done
	cat "$TMP"/rank-[012] >"$TMP/ranks.new"
	mv "$TMP/ranks.new" "$TMP/ranks.pid"
	sleep 14
	echo 0 1 0 >"$TMP/ranks.idle"
fi
exec sleep $((PROCTOR_RANK == 1 ? 16 : 30))
END
chmod +x "$TMP/rank"
printf 'sheets:\n  - run: [%s]\n    ranks: 3\n' "$TMP/rank" >"$TMP/ranks.yaml"
STAND_IN_PID_FILE=$TMP/ranks.pid STAND_IN_IDLE_FILE=$TMP/ranks.idle \
	with_gpu "$PROCTOR" run -q --interval 0.5 --job ranks -f "$TMP/ranks.yaml" &
ranks=$!

# ---- a run ----

# The interval is 5 s: what is shorter is read all the same.
with_gpu "$PROCTOR" run -q --job short -- "$TMP/job" 6
wait "$busy"
run "$PROCTOR" report busy --format json
json "the rung" "$stdout" 'd["rungs"]["GPU"] == "NVML"'
json "the memory" "$stdout" 'd["peak_gpu_memory_mb"] == 3'
json "the time of three GPUs" "$stdout" '3 <= d["gpu_seconds"] <= 3 * 0.4 * d["wall_seconds"]'
json "none of it idle" "$stdout" 'd["gpu_idle_seconds"] == 0'
json "nor is any of its processes" "$stdout" \
	'0 in (idle := {p["gpu_idle_seconds"] for p in d["processes"]}) and idle <= {0, None}'
json "nothing went wrong" "$stdout" '[u for u in d["unknown"] if u["what"] == "gpus"] == []'

run "$PROCTOR" report short --format json
json "a short job is read too" "$stdout" \
	'd["peak_gpu_memory_mb"] == 3 and 3 <= d["gpu_seconds"] <= 3 * 0.4 * d["wall_seconds"]'
json "how far apart is said" "$stdout" 'd["rungs"]["GPU readings"].endswith(" s apart")'
json "a shell that holds none uses none" "$stdout" \
	'any(p["gpu_seconds"] == 0 and p["peak_gpu_memory_mb"] == 0 for p in d["processes"])'
readings=$(python3 -c 'import json, sys; print(json.load(sys.stdin)["rungs"]["GPU readings"])' <<<"$stdout")
run "$PROCTOR" report short
like "beside the figures, and not how far apart samples are" "$stdout" \
	"peak GPU memory +3 MB +sampled, $readings"
like "each process has what it used" "$stdout" 'GPU mem +GPU time +GPU idle'
run with_gpu "$PROCTOR" snapshot
like "a look has a line for each" "$stdout" 'GPU 2: 12 % busy, 3 MB of 8 MB used, - C, - W'

wait "$long"
is "one reads, for as long as the run takes" "$(cat "$TMP/readers")" 2

# Busy for 7 s, 40 % each, and idle for 7 s; one reading more or less, and the time to begin and end.
wait "$rests"
run "$PROCTOR" report rests --format json
json "what was busy once is not so for longer" "$stdout" '6 <= d["gpu_seconds"] <= 11'
json "nor idle before it was" "$stdout" '15 <= d["gpu_idle_seconds"] <= 25'
json "for the process as for the job" "$stdout" \
	'((d["gpu_seconds"], d["gpu_idle_seconds"]) in
		[(p["gpu_seconds"], p["gpu_idle_seconds"]) for p in d["processes"]])'

wait "$ranks"
run "$PROCTOR" ranks analyze --job ranks --json
json "a rank whose GPU rests is named" "$stdout" \
	'(g := d["gpu"])["verdict"] == "named" and g["rank"] == 1 and g["direction"] == "less" and g["gpus"] < 0.1 and g["peers_gpus"] > 0.3'
run "$PROCTOR" report ranks
like "the report has that, too" "$stdout" 'GPU rank 1: 0\.0[0-9] of a GPU since .*, its peers 0\.[34]'

# ---- what is not known has a reason ----

with_gpu "$PROCTOR" run -q --job moment -- true
run "$PROCTOR" report moment --format json
json "a job of a moment is not read, which is said" "$stdout" \
	'(d["gpu_seconds"] is d["peak_gpu_memory_mb"] is None and
		[u["why"] for u in d["unknown"] if u["what"] == "gpus"] == ["the run was over before they were read"])'

# ---- a driver that fails on the way ----

wait "$fails"
run "$PROCTOR" report fails --format json
json "that it failed is said, and for how long" "$stdout" \
	'any("NVML cannot read a GPU: Unknown Error (for " in u["why"] for u in d["unknown"])'
json "as is who had answered" "$stdout" 'd["rungs"]["GPU"] == "NVML"'

# ---- a library that crashes, or hangs ----

export STAND_IN_CRASH_FILE=$TMP/crash
: >"$TMP/crash"
wait "$crash"
run "$PROCTOR" report crash --format json
json "when the library crashes, the program answers" "$stdout" 'd["rungs"]["GPU"] == "nvidia-smi"'
json "what it tells is recorded" "$stdout" 'd["peak_gpu_memory_mb"] == 7'
json "why not the library is said, and what is not known by that" "$stdout" \
	'any("NVML crashed (Aborted): it is asked again after 5 minutes; nvidia-smi tells no share" in u["why"]
		and "something else" not in u["why"] for u in d["unknown"])'
run with_smi "$PROCTOR" snapshot --json
json "a single look does not end with the crash" "$stdout" 'd["gpus"][0]["utilization_pct"] == 50'
mkdir "$TMP/cwd"
run with_smi bash -c 'cd "$TMP/cwd" && ulimit -c unlimited; exec "$PROCTOR" doctor'
is "no core file is left of it" "$(ls "$TMP/cwd")" ""
like "doctor says that it crashes" "$stdout" \
	'GPUs +note +NVML: it crashes the process that asks it \(Aborted\)'
like "asks the others all the same" "$stdout" 'nvidia-smi: a whole reading takes'
unlike "shows no cost of what was not answered" "$stdout" 'NVML: .* takes'
unlike "nor a line without a word" "$stdout" 'GPUs +(ok|note) *$'
like "and names who answers" "$stdout" 'GPU +nvidia-smi'
cat >"$TMP/strays" <<'END'
#!/bin/bash
"$PROCTOR" doctor
ps -eo args | grep -c '^sleep 1234$'
END
chmod +x "$TMP/strays"
mkdir "$TMP/bin-strays"
{
	echo '#!/bin/sh'
	echo 'setsid sleep 1234 >/dev/null 2>&1 &'
	sed 1d "$TMP/bin/nvidia-smi"
} >"$TMP/bin-strays/nvidia-smi"
chmod +x "$TMP/bin-strays/nvidia-smi"
PATH=$TMP/bin-strays:$PATH run with_gpu "$TMP/strays"
like "doctor asks a program that leaves something behind" "$stdout" 'nvidia-smi: both calls .* takes'
is "and ends that too" "$(tail -n 1 <<<"$stdout")" 0
rm "$TMP/crash"
run with_smi python3 -c 'import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$PROCTOR" doctor
like "doctor answers where its children are ignored" "$stdout" 'GPUs +ok +NVML: a whole reading takes'
unlike "and says of nobody that it does not answer" "$stdout" 'it does not answer|No child processes'
: >"$TMP/fail"
run with_gpu "$PROCTOR" doctor
like "a library that only opens is not ok" "$stdout" 'GPUs +note +NVML: NVML cannot read a GPU'
unlike "and has no cost" "$stdout" 'NVML: .* takes'
rm "$TMP/fail"
export STAND_IN_LOST_FILE=$TMP/lost
: >"$TMP/lost"
run with_gpu "$PROCTOR" doctor
like "one that has lost a GPU is not ok" "$stdout" 'GPUs +note +NVML: a whole reading takes'
like "and that one is named" "$stdout" 'NVML: GPU 1 is lost \(stand-in 1\)'
rm "$TMP/lost"

# ---- a library that lacks one of its own ----

if command -v cc >/dev/null; then
	mkdir "$TMP/lib"
	cc -shared -x c -o "$TMP/lib/libmissing_dep.so" - <<<'int missing_dep(void) { return 0; }'
	cc -shared -x c -o "$TMP/lib/libnvidia-ml.so.1" - -x none -Wl,--no-as-needed -L"$TMP/lib" -lmissing_dep \
		<<<'int nvmlInit_v2(void) { return 0; }'
	rm "$TMP/lib/libmissing_dep.so"
	run with_gpu bash -c 'LD_LIBRARY_PATH=$TMP/lib exec "$PROCTOR" doctor'
	like "which one is said" "$stdout" 'NVML: NVML cannot be loaded: libmissing_dep.so'
	unlike "and not that it is missing itself" "$stdout" 'libnvidia-ml.so.1 is not installed'
else
	skip "a library that lacks one of its own" "there is no compiler"
fi

# ---- what drivers say is shown, not obeyed ----

STAND_IN_NAME=$'\e[2Jname\nline' run with_gpu "$PROCTOR" doctor
like "a name with commands to the terminal" "$stdout" 'NVML: \?\[2Jname line 2$'

# ---- a driver that has found none ----

export STAND_IN_MISSING=3
run with_gpu "$PROCTOR" snapshot --json
json "a driver without a GPU is an empty list" "$stdout" 'd["gpus"] == []'
is "and not a word" "$stderr" ""
wait "$none"
run "$PROCTOR" report none --format json
json "and no gap in a report" "$stdout" '[u for u in d["unknown"] if u["what"] == "gpus"] == []'
run with_gpu "$PROCTOR" doctor
like "doctor tells it" "$stdout" 'NVML: NVML knows no GPU'
unset STAND_IN_MISSING

# ---- no rights ----

export STAND_IN_INIT_RESULT=4 # no permission
wait "$denied"
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
	for ((i = 0; i < 600; i++)); do
		[ "$(rung)" = "$1" ] && { echo "rung $1"; return; }
		sleep 0.1
	done
}
"$PROCTOR" start
until_rung NVML
sleep 300 &
"$PROCTOR" attach --pid $! --job attached
kill $!
"$PROCTOR" wait attached
"$PROCTOR" report attached --format json >"$TMP/attached.json"
# Asked by itself, the library would refuse: what is told is the daemon's.
refused() { STAND_IN_INIT_RESULT=4 "$PROCTOR" "$@"; }
until_told() { # FILE TEXT COMMAND...: a daemon that is busy may answer too late
	for ((i = 0; i < 30; i++)); do
		refused "${@:3}" >"$1"
		grep -q "$2" "$1" && break
		sleep 1
	done
}
until_told "$TMP/look.json" '"utilization_pct":12' snapshot --json
until_told "$TMP/look.prom" 'proctor_gpu' export prometheus
refused snapshot --all --json >"$TMP/look-all.json"
: >"$TMP/lost"
until_told "$TMP/lost.json" gpu_lost anomalies --json
until_told "$TMP/lost.txt" 'GPU 1: lost' snapshot
rm "$TMP/lost"
: >"$TMP/fail"
until_rung none
"$PROCTOR" status
"$PROCTOR" status --json | python3 -c 'import json, sys; print("json:", json.load(sys.stdin)["gpu_note"])'
sleep 2
"$PROCTOR" stop
for ((i = 0; i < 600; i++)); do
	ps -eo comm | grep -q proctor-gpu || break
	sleep 0.1
done
ps -eo comm | grep -c proctor-gpu
END
chmod +x "$TMP/daemon"
printf 'interval_seconds: 1\n' >"$PROCTOR_HOME/proctor.yaml"
export PROCTOR
run with_gpu "$TMP/daemon"
like "status names who answers" "$stdout" 'rung NVML'
json "of an attached job it is said why nothing is" "$(cat "$TMP/attached.json")" \
	'(d["gpu_seconds"] is None and [u["why"] for u in d["unknown"] if u["what"] == "gpus"] ==
		["of an attached job what its processes used is not added up"])'
json "a look asks the daemon, and no driver" "$(cat "$TMP/look.json")" \
	'[g["utilization_pct"] for g in d["gpus"]] == [10, 11, 12]'
json "unless it wants all processes, which a daemon does not show" "$(cat "$TMP/look-all.json")" \
	'd["gpus"] == []'
like "what is exported too" "$(cat "$TMP/look.prom")" 'proctor_gpu_utilization_ratio\{gpu="2"\} 0.12'
json "a GPU that is lost is an anomaly" "$(cat "$TMP/lost.json")" \
	'[(a["anomaly_type"], a["gpu"]) for a in d if a["gpu"] is not None] == [("gpu_lost", 1)]'
like "and said to be that" "$(cat "$TMP/lost.txt")" 'GPU 1: lost$'
like "and that nobody does" "$stdout" 'rung none'
like "and why" "$stdout" '^GPUs +NVML cannot read a GPU: Unknown Error'
like "as its JSON does" "$stdout" '^json: NVML cannot read a GPU: Unknown Error'
is "nothing is left of it" "$(tail -n 1 <<<"$stdout")" 0
is "a change is logged once" "$(grep -c 'NVML cannot read a GPU' "$PROCTOR_HOME/daemon.log")" 1
rm -f "$TMP/fail"

# ---- top, by itself ----

# How many processes ask GPUs while it runs; the terminal is made outside. It is left as soon as
# there are some, or after so many seconds.
cat >"$TMP/top" <<'END'
#!/bin/sh
(while ps -eo comm | grep -c proctor-gpu >"$TMP/seen"; [ -d "$TMP/is_open" ]; do sleep 0.2; done) &
TERM=xterm exec "$PROCTOR" top
END
cat >"$TMP/terminal.py" <<'END'
import os, pty, sys, time

def seen():
    try:
        return int(open(os.environ["TMP"] + "/seen").read())
    except (OSError, ValueError):
        return 0

is_open = os.environ["TMP"] + "/is_open"
os.mkdir(is_open)
pid, fd = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
end = time.monotonic() + float(sys.argv[1])
while seen() == 0 and time.monotonic() < end:
    time.sleep(0.1)
print(seen())
os.rmdir(is_open)
os.write(fd, b"q")
os.waitpid(pid, 0)
END
chmod +x "$TMP/top"
top_in_terminal() { # SECONDS
	rm -f "$TMP/seen"
	timeout 120 python3 "$TMP/terminal.py" "$1" "${unshare[@]}" "$TMP/with_gpu" "$TMP/top"
}
rm -f "$PROCTOR_HOME/proctor.yaml"
like "top asks GPUs" "$(top_in_terminal 60)" '^[1-9]'
printf 'gpu_enabled: false\n' >"$PROCTOR_HOME/proctor.yaml"
is "but not where the configuration says no" "$(top_in_terminal 5)" 0

wait "$rare"
json "of readings that wait the newest counts" "$(cat "$TMP/rare.json")" \
	'[g["utilization_pct"] for g in d["gpus"]] == [10, 11, 12]'
wait "$late"
like "a driver that comes late is told of" "$(cat "$TMP/late/daemon.log")" \
	'GPUs are read by none: a driver has come after the daemon began'

finish
