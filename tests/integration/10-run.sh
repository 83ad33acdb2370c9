#!/bin/bash
# proctor run is transparent: status, streams and environment are the command's
# own, and the numbers at the end are true.
. "$(dirname "$0")/lib.sh"

# report FIELD-EXPRESSION COMMAND...: runs the command, report in $stdout.
profile() {
	run "$PROCTOR" run --quiet --json -- "$@"
}

# ---- status ----
run "$PROCTOR" run --quiet -- true
is "true gives 0" "$status" 0
run "$PROCTOR" run --quiet -- sh -c 'exit 7'
is "an exit code passes through" "$status" 7
run "$PROCTOR" run --quiet -- sh -c 'kill -SEGV $$'
is "a signal is 128 and its number" "$status" 139
run "$PROCTOR" run --quiet -- no-such-command-anywhere
is "not found is 127" "$status" 127
like "and says so" "$stderr" 'cannot run no-such-command-anywhere: No such file'
mkdir "$TMP/closed"
chmod 0 "$TMP/closed"
PATH=$TMP/closed:$PATH run "$PROCTOR" run --quiet -- no-such-command-anywhere
is "also when a folder of PATH is closed to us" "$status" 127
touch "$TMP/not-executable"
run "$PROCTOR" run --quiet -- "$TMP/not-executable"
is "not executable is 126" "$status" 126
printf 'exit 9\n' >"$TMP/script"
chmod +x "$TMP/script"
run "$PROCTOR" run --quiet -- "$TMP/script"
is "a script without #! is run by the shell" "$status" 9

# ---- streams, arguments, environment ----
is "stdin and stdout are the command's" "$(echo in | "$PROCTOR" run -q -- cat)" in
run "$PROCTOR" run -q -- sh -c 'echo out; echo err >&2'
is "stdout is its own" "$stdout" out
is "stderr is its own" "$stderr" err
run "$PROCTOR" run -q -- printf '%s|' --json -q '' 'a b'
is "arguments after -- are untouched" "$stdout" '--json|-q||a b|'
run "$PROCTOR" run -q printf '%s' --quiet
is "so are those after the command's name" "$stdout" --quiet
run "$PROCTOR" run -q --job some/job:1 --sheet 4 -- sh -c 'echo $PROCTOR_JOB_ID $PROCTOR_SHEET'
is "the command knows its job and sheet" "$stdout" "some/job:1 4"
run sh -c 'ls /proc/self/fd | tr "\n" " "'
bare=$stdout
run "$PROCTOR" run -q -- sh -c 'ls /proc/self/fd | tr "\n" " "'
is "no file of ours is open in it" "$stdout" "$bare"
bare=$(bash -c 'ulimit -Sn 300; ulimit -Sn; grep -E "^Sig(Blk|Ign)" /proc/self/status')
mine=$(bash -c 'ulimit -Sn 300; exec "$0" run -q -- bash -c "ulimit -Sn; grep -E ^Sig\(Blk\|Ign\) /proc/self/status"' "$PROCTOR")
is "limits and signals are as without us" "$mine" "$bare"
mine=$(bash -c 'trap "" HUP CHLD; exec "$0" run -q -- grep ^SigIgn /proc/self/status' "$PROCTOR")
bare=$(bash -c 'trap "" HUP CHLD; exec grep ^SigIgn /proc/self/status')
is "ignored signals stay ignored" "$mine" "$bare"
pgid=$(ps -o pgid= -p $$ | tr -d ' ')
run "$PROCTOR" run -q -- sh -c 'ps -o pgid= -p $$ | tr -d " "'
is "the process group is ours" "$stdout" "$pgid"

# A closed stream is closed for the command too, and nothing of ours takes its place.
for fd in 0 1 2; do
	run bash -c 'exec '$fd'>&-; "$0" run -q -- sh -c "exit 7"' "$PROCTOR"
	is "a closed stream $fd does no harm" "$status" 7
done
run bash -c '"$0" run -q -- sh -c "exit 7" <&- >&- 2>&-' "$PROCTOR"
is "nor do three" "$status" 7
run bash -c '{ "$0" run -- sh -c "sleep 0.2; exit 7"; echo $? >"$1"; } 2>&1 | true' "$PROCTOR" "$TMP/piped"
is "nor does a reader that has gone" "$(cat "$TMP/piped")" 7
run bash -c 'ulimit -f 1; "$0" run -- sh -c "exit 7"' "$PROCTOR"
is "nor a limit on file size" "$status" 7
like "and says that it is one" "$stderr" "not recorded: .*limit on files.*ulimit -f"
few=
for n in {4..20}; do
	run bash -c 'ulimit -n '"$n"'; "$0" run -q -- sh -c "echo ran; exit 7"' "$PROCTOR"
	few+="${stdout}$status "
done
is "where too few files may be open for us the command runs all the same" "$few" "$(printf 'ran7 %.0s' {4..20})"
run bash -c "($(gate helper); touch $TMP/helper) >/dev/null 2>&1 & "'exec "$0" run -q --json -- sh -c "sleep .2; exit 7"' "$PROCTOR"
is "a helper from before the job does not hold it up" "$status" 7
json "and is not counted in" "$stdout" 'd["process_spawn_count"] == 2 or d["evidence"]["process_spawn_count"] == "at least"'
pass helper
check "nor is it ended" eventually [ -e "$TMP/helper" ]
run "$PROCTOR" run -q --grace 60s -- bash -c 'exec > >(while read -r l; do sleep 0.05; echo "$l"; done >'"$TMP"'/log); seq 5'
is "what is just finishing may finish" "$(cat "$TMP/log" | tr '\n' ' ')" "1 2 3 4 5 "

# ---- what is recorded is stored later, but by one run in 64 ----
long_ago() { # on a host that has been up for longer than a run waits before it stores
	if unshare --time --boottime 7200 --fork true 2>/dev/null; then
		unshare --time --boottime 7200 --fork "$@"
	else
		"$@"
	fi
}
export PROCTOR_HOME=$TMP/up
run long_ago "$PROCTOR" run -q -- sleep 0.3
is "on a host that is up for long a run passes its status on" "$status" 0
for log in "$PROCTOR_HOME"/proctor.db-logs/*.0; do
	log=${log##*/}
done
[ $((16#${log:0:2} % 64)) = 0 ] || check "and stores nothing itself" [ ! -e "$PROCTOR_HOME/proctor.db" ]
export PROCTOR_HOME=$TMP/home

# ---- numbers ----
profile sh -c 'for i in $(seq 200); do /bin/true; done'
if [ "$(json_eval "$stdout" 'd["evidence"]["process_spawn_count"]')" = exact ]; then
	json "200 short children are counted" "$stdout" 'd["process_spawn_count"] >= 201'
else
	skip "200 short children are counted" "the kernel tells of no births here (see proctor doctor)"
fi
json "all ends were seen" "$stdout" \
	'd["evidence"]["process_spawn_count"] != "exact" or all(p["exit_code"] == 0 for p in d["processes"])'
json "one sheet, and it succeeded" "$stdout" 'd["sheet_metrics"]["1"]["outcome"] == "success"'

# The command tells what getrusage() says about it and its children, all waited for by then.
cat >"$TMP/burn.py" <<'EOF'
import os, resource, subprocess, sys
for _ in range(4):
    subprocess.run([sys.executable, "-S", "-c", "sum(i * i for i in range(1500000))"])
sum(i * i for i in range(1500000))
own, kids = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
with open(sys.argv[1], "w") as out:
    print(own.ru_utime + own.ru_stime + kids.ru_utime + kids.ru_stime, file=out)
EOF
profile python3 -S "$TMP/burn.py" "$TMP/told"
told=$(cat "$TMP/told")
json "CPU time is within 5 % of getrusage()" "$stdout" \
	"abs(d['total_cpu_seconds'] - $told) <= 0.05 * $told"
json "and is called exact" "$stdout" 'd["evidence"]["total_cpu_seconds"] == "exact"'

cat >"$TMP/spike.py" <<'EOF'
import mmap, time
time.sleep(0.7)
m = mmap.mmap(-1, 300 << 20)
for i in range(0, 300 << 20, 4096):
    m[i] = 1
time.sleep(0.05)
m.close()
time.sleep(0.1)
EOF
profile python3 -S "$TMP/spike.py"
json "a spike between two samples is in the peak" "$stdout" \
	'd["peak_rss_mb"] >= 300 and d["max_process_rss_mb"] >= 300'
profile sh -c "python3 -S $TMP/spike.py; true"
json "also when a child has it" "$stdout" 'd["peak_rss_mb"] >= 300'

profile sh -c '(setsid sh -c "sleep 0.3; i=0; while [ \$i -lt 300000 ]; do i=\$((i+1)); done; : >\"$0\"; exit 5" &)
	while ! [ -e "$0" ]; do sleep 0.1; done; sleep 0.3' "$TMP/looped"
json "a grandchild that outlived its parent is counted" "$stdout" \
	'd["total_cpu_seconds"] > 0.02 and any(p["exit_code"] == 5 for p in d["processes"])'

# With SIGCHLD ignored the kernel waits for children itself and adds their CPU time to nobody's.
cat >"$TMP/ignore.py" <<'EOF'
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
time.sleep(0.1)
if os.fork() == 0:
    while time.process_time() < 0.6:
        pass
    os._exit(0)
try:
    os.wait()
except ChildProcessError:
    pass # when there is none any more
EOF
run "$PROCTOR" run -q --json --cgroup=off -- python3 -S "$TMP/ignore.py"
json "CPU time that nobody waited for is not passed over in silence" "$stdout" \
	'd["evidence"]["total_cpu_seconds"] == "at least" and d["total_cpu_seconds"] > 0.2'

head -c 5000000 /dev/zero >"$TMP/zeros"
profile sh -c "cat $TMP/zeros | cat >/dev/null"
json "bytes read by children are counted" "$stdout" 'd["rchar"] >= 10000000'

profile sh -c 'kill -9 $$'
json "a kill from outside is a failure with its signal" "$stdout" \
	'd["outcome"] == "failure" and d["signal"] == 9 and d["exit_code"] is None'

profile true
json "a command of a millisecond has its name, and no I/O of ours" "$stdout" \
	'd["processes"][0]["command"] == "true" and d["wchar"] == 0 and d["syscw"] == 0'
profile no-such-command-anywhere
json "what never ran is no process" "$stdout" \
	'd["exit_code"] == 127 and d["process_spawn_count"] == 0 and d["events"] == []'

before=$EPOCHREALTIME
profile sleep 0.6
json "times are right" "$stdout" \
	"0.6 <= d['wall_seconds'] < $EPOCHREALTIME - $before and d['total_cpu_seconds'] < 0.2"
profile sh -c 'sleep 1.5; sleep 1.5; exit 0'
json "no child is born before its parent, and none before the job" "$stdout" \
	'(lambda t: t == sorted(t) and t[0] >= d["started"])([e["timestamp"] for e in d["events"]])'
json "unknown is null, and explained" "$stdout" \
	'd["syscall_hotspots"] is None and any(u["what"] == "syscall_hotspots" for u in d["unknown"])'
json "there is a curve" "$stdout" 'len(d["series"]) >= 3 and any((p["rss_mb"] or 0) > 0 for p in d["series"])'

# ---- output ----
run "$PROCTOR" run -- true
is "nothing of ours on stdout" "$stdout" ""
like "a summary of a few lines on stderr" "$stderr" '^proctor: true-.* success: '
check "it is short" [ "$(wc -l <"$TMP/stderr")" -le 6 ]
run "$PROCTOR" run --quiet -- true
is "--quiet says nothing" "$stdout$stderr" ""
run "$PROCTOR" run -q --output "$TMP/out.json" -- echo hello
is "--output leaves stdout alone" "$stdout" hello
json "and has the whole" "$(cat "$TMP/out.json")" 'd["outcome"] == "success" and "rungs" in d'
run "$PROCTOR" run -q --report -- sh -c 'exit 3'
like "--report prints the report" "$stdout" '^FAILURE: '

# ---- secrets ----
run "$PROCTOR" run -q --json --job secret -- sh -c 'sleep 0.3; : --password=hunter2hunter2'
unlike "a password is not in the report" "$stdout" hunter2
unlike "nor in the database" "$(cat "$PROCTOR_HOME"/proctor.db* | tr -d '\0')" hunter2

# ---- a setting of anomalies that is none ----
mkdir "$TMP/slipped"
printf 'anomaly:\n  memory_spike_threshold: 0.2\n' >"$TMP/slipped/proctor.yaml"
PROCTOR_HOME=$TMP/slipped run "$PROCTOR" run --job slipped -- sh -c 'echo ran; exit 4'
is "the command runs by the default" "$stdout/$status" "ran/4"
is "which is said once" "$(grep -c "^proctor: .*:2: 'memory_spike_threshold' is '0.2'.*; used instead: 1.5$" "$TMP/stderr")" 1
PROCTOR_HOME=$TMP/slipped run "$PROCTOR" run -q --json --job slipped-quiet -- true
json "and in the report, of a quiet one, too" "$stdout" \
	'[u["why"].split("; ")[-1] for u in d["unknown"] if u["what"] == "configuration"] == ["used instead: 1.5"]'
PROCTOR_HOME=$TMP/slipped run "$PROCTOR" start
is "a daemon does not start with it" "$status" 2
PROCTOR_HOME=$TMP/slipped run "$PROCTOR" jobs
like "and it is recorded" "$stdout" '^slipped .* failure'

# ---- where nothing can be written ----
touch "$TMP/file"
PROCTOR_HOME=$TMP/file/home run "$PROCTOR" run -- sh -c 'echo ran; exit 4'
is "the command runs all the same" "$stdout/$status" "ran/4"
like "and why it is not recorded is said" "$stderr" '^proctor: this run is not recorded: .*file'
is "once" "$(grep -c '^proctor: this run' "$TMP/stderr")" 1
PROCTOR_HOME=$TMP/file/home run "$PROCTOR" run -q -- sh -c 'exit 4'
is "a quiet run does not say it" "$stderr/$status" "/4"

PROCTOR_HOME=$TMP/file/home run "$PROCTOR" run -q --json -- sh -c 'sleep 0.3; exit 4'
json "the report is whole without a store" "$stdout" \
	'd["exit_code"] == 4 and len(d["events"]) >= 2 and len(d["series"]) >= 1 and any(u["what"] == "recording" for u in d["unknown"])'
run "$PROCTOR" run -q --job locked -- true
hold_database lock
"$PROCTOR" run -q --json --job locked -- sh -c ": >$TMP/ran; exit 4" >"$TMP/locked" &
runner=$!
check "a locked database delays nothing of the command" eventually [ -e "$TMP/ran" ]
pass lock
wait "$holder"
wait $runner
json "nor changes its end" "$(cat "$TMP/locked")" 'd["exit_code"] == 4 and d["outcome"] == "failure"'
run "$PROCTOR" jobs --json
json "and the run is recorded when it is free" "$stdout" \
	'[(j["attempt"], j["exit_code"]) for j in d if j["job_id"] == "locked"] == [(2, 4)]'

# ---- bad usage ----
for args in "" "--interval 0 -- true" "--interval x -- true" "--job -x -- true" \
	"--sheet 0 -- true" "--syscalls maybe -- true" "--nonsense -- true" "-f x.yaml -- true" \
	"--kill-after never -- true" "-f /no/such/file.yaml"; do
	# shellcheck disable=SC2086
	run "$PROCTOR" run $args
	is "bad usage: run $args" "$status" 2
	is "in one line" "$(wc -l <"$TMP/stderr")" 1
done
run "$PROCTOR" run -q -- $'no-such\e[31m'
unlike "no escape sequence reaches the terminal" "$stderr" $'\e'
run "$PROCTOR" run --output /no/such/folder/x -- touch "$TMP/touched"
is "a report that cannot be written is refused first" "$status" 2
check "before anything ran" [ ! -e "$TMP/touched" ]

# ---- commands that let others work ----
mkdir "$TMP/clients"
for name in srun docker mpirun; do
	printf '#!/bin/sh\nexit 0\n' >"$TMP/clients/$name"
	chmod +x "$TMP/clients/$name"
done
as_client() { # COMMAND...: whether the summary names where the work is
	run env PATH="$TMP/clients:$PATH" "$PROCTOR" run -- "$@"
	[[ $stderr == *"is measured: "* ]] && echo elsewhere || echo here
}
is "of srun" "$(as_client srun -n2 ./train)" elsewhere
is "of docker run in a script" "$(as_client sh -c 'docker run image; exit 0')" elsewhere
is "not of docker ps" "$(as_client docker ps)" here
is "of mpirun to other hosts" "$(as_client mpirun --host a,b ./train)" elsewhere
is "not of mpirun here" "$(as_client mpirun -n 2 ./train)" here
is "nor of words" "$(as_client echo srun ssh)" here
is "nor of one that is not installed" "$(as_client "$TMP/nowhere/srun" -n2 ./train)" here
run env PATH="$TMP/clients:$PATH" "$PROCTOR" run -q --json -- srun -n2 ./train
json "and it is in the report" "$stdout" '"srun" in str(d["unknown"])'

finish
