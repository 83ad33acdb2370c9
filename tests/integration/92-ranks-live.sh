#!/bin/bash
# Ranks that proctor watches: they are known by what their launcher told them, their memory is
# telemetry, and the report names the one that began to allocate before the others.
. "$(dirname "$0")/lib.sh"
RANKS=8 LEADER=5

# How a rank allocates: until a moment. Then it writes into a file when it began to and its longest wait between
# two blocks. It returns the blocks: the rank keeps them until it ends, however long its last phase takes.
cat >"$TMP/grow.py" <<'PYTHON'
import time
def grow(end, note):
    held, began = [], time.time()
    last, kept = began, 0
    while last < end:
        held.append(b"x" * (3 << 20))
        time.sleep(0.1)
        last, kept = time.time(), max(kept, time.time() - last)
    with open(note, "w") as out:
        out.write(f"{began} {kept}")
    return held
PYTHON

# A rank that loads some memory, as fast as it can beside the others, and rests when all have loaded:
# for 6 s, or as long as the slowest took. Then it allocates; one of them 2 s before all others. Who is
# ready has a file in a folder, with the seconds since its start.
cat >"$TMP/rank.py" <<'PYTHON'
import os, subprocess, sys, time
from grow import grow
names = ("OMPI_COMM_WORLD_RANK", "RANK", "SLURM_PROCID")
rank = next(int(os.environ[name]) for name in names if name in os.environ)
folder, leader, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def phase(what, name):
    subprocess.run([os.environ["PROCTOR"], "phase", what, name], check=True)
def sleep_until(moment):
    time.sleep(max(0, moment - time.time()))
def age():
    ticks = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19])
    return float(open("/proc/uptime").read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
loaded = []
for _ in range(30):
    loaded.append(b"y" * (1 << 20))
    sum(range(100000))
phase("enter", "load-batch" if rank == leader else "wait")
with open(f"{folder}/.{rank}", "w") as out:
    out.write(str(age()))
os.rename(f"{folder}/.{rank}", f"{folder}/{rank}")
ready = [f"{folder}/{i}" for i in range(ranks)]
while not all(map(os.path.exists, ready)):
    time.sleep(0.02)
begin = max(os.stat(path).st_mtime for path in ready) + max(6, *(float(open(path).read()) for path in ready))
sleep_until(begin + (0 if rank == leader else 2))
held = grow(begin + 6, f"{folder}/grown-{rank}")
phase("exit", "load-batch" if rank == leader else "wait")
os._exit(0) # an interpreter that is taken apart gives memory back for seconds, on a busy machine
PYTHON
export PROCTOR SLURM_JOB_ID=a-word-that-is-nowhere

# Where ranks meet: nobody is there yet.
meet() { # NAME
	rm -rf "$TMP/meet-$1"
	mkdir "$TMP/meet-$1"
}

# Whether others of the machine kept ranks from rising when they should, by the clock of the ranks: the first began
# less than 1.5 s before another, or one stood still for half a second.
was_disturbed() { # FOLDER LEADER
	python3 - "$@" <<'PYTHON'
import glob, sys
folder, leader = sys.argv[1:]
grown = {p.rsplit("-", 1)[1]: [float(x) for x in open(p).read().split()] for p in glob.glob(folder + "/grown-*")}
lead = min(v[0] for k, v in grown.items() if k != leader) - grown[leader][0]
kept = max(v[1] for v in grown.values())
print(f"# cannot tell: the first was {lead:.2f} s ahead, and ranks were kept for {kept:.2f} s")
sys.exit(not (lead < 1.5 or kept > 0.5))
PYTHON
}

# Whether it is worth another try: the record cannot tell, and there is a cause for that. Who is named, rightly or
# not, was named; and what cannot be told of ranks that did as they should is a fault.
is_excused() { # FOLDER LEADER, of "ranks analyze --json"
	[ "$(json_eval "$3" 'd["finding"]["verdict"]')" = cannot_tell ] || return 1
	echo "# $(json_eval "$3" 'd["finding"]["reason"]')"
	was_disturbed "$1" "$2"
}
is_excused_job() { # FOLDER LEADER JOB
	is_excused "$1" "$2" "$("$PROCTOR" ranks analyze --job "$3" --json)"
}

# check_named NAME JOB: the report, the analysis and the export of the job agree.
check_named() {
	local name=$1 job=$2
	run "$PROCTOR" report --json "$job"
	is "$name: report" "$status" 0
	json "$name: all ranks were seen" "$stdout" \
		"d['telemetry']['ranks'] == $RANKS and d['telemetry']['world_size'] == $RANKS"
	json "$name: the leader is named" "$stdout" \
		"d['telemetry']['finding']['verdict'] == 'named' and d['telemetry']['finding']['rank'] == $LEADER"
	json "$name: with its phase" "$stdout" "d['telemetry']['finding']['phase'] == 'load-batch'"
	json "$name: and stays up" "$stdout" "d['telemetry']['finding']['has_passed'] is False"
	json "$name: resident memory was measured" "$stdout" "d['telemetry']['measure'] == 'rss'"
	json "$name: nothing is said to be unknown of it" "$stdout" \
		"not [n for n in d['unknown'] if n['what'] == 'telemetry']"
	run "$PROCTOR" report "$job"
	like "$name: the page names it" "$(tr -s ' \n' ' ' <<<"$stdout")" "Rank $LEADER was first"
	like "$name: and its phase" "$(tr -s ' \n' ' ' <<<"$stdout")" "in the phase load-batch"
	run "$PROCTOR" ranks analyze --job "$job" --json
	is "$name: analyze" "$status" 0
	json "$name: analyze names it" "$stdout" \
		"d['finding']['rank'] == $LEADER and d['missing_ranks'] == [] and d['job_id'] == '$job'"
	from_record=$(json_eval "$stdout" "(d['finding'], d['rank_sample_counts'])")
	run "$PROCTOR" export telemetry --job "$job" -o "$TMP/$job.jsonl"
	is "$name: export" "$status/$stderr" 0/
	run "$PROCTOR" ranks validate "$TMP/$job.jsonl" --json
	json "$name: every record of it is valid" "$stdout" "d['invalid'] == 0 and d['valid'] > 100"
	run "$PROCTOR" ranks analyze "$TMP/$job.jsonl" --json
	is "$name: and says the same" "$(json_eval "$stdout" "(d['finding'], d['rank_sample_counts'])")" "$from_record"
}

# ---- a launcher ----
if command -v mpirun >/dev/null; then
	root=()
	[ "$(id -u)" = 0 ] && root=(--allow-run-as-root)
	for _ in 1 2 3; do
		meet mpi
		run "$PROCTOR" run --job mpi --interval 0.25 -- \
			mpirun "${root[@]}" --oversubscribe -n $RANKS python3 "$TMP/rank.py" "$TMP/meet-mpi" $LEADER $RANKS
		is_excused_job "$TMP/meet-mpi" $LEADER mpi || break
	done
	is "mpirun ran" "$status" 0
	check_named "Open MPI" mpi
	run "$PROCTOR" history --job mpi --json
	json "the launcher is no rank" "$stdout" \
		"set(r['rank'] for r in d if (r['command'] or '').startswith('mpirun')) == {None}"
	mkdir "$TMP/folder"
	run "$PROCTOR" export telemetry --job mpi -o "$TMP/folder"
	is "a file for each rank" "$(find "$TMP/folder" -name 'rank-*.jsonl' | wc -l)" $RANKS
	run "$PROCTOR" export telemetry --job mpi -o "$TMP/new/"
	is "a new folder is made" "$status/$(find "$TMP/new" -name 'rank-*.jsonl' | wc -l)" 0/$RANKS
	run "$PROCTOR" export telemetry --job mpi -o "$TMP/nowhere/new/"
	is "but not one that is in no folder" "$status" 1
	like "which is said" "$stderr" "nowhere/new/"
	run "$PROCTOR" ranks validate "$TMP/folder"
	is "which are valid together" "$status" 0
	run "$PROCTOR" run -q --job dead -- mpirun "${root[@]}" --oversubscribe -n 3 sh -c \
		'[ $OMPI_COMM_WORLD_RANK = 1 ] || exec sleep 30; grep -q x /dev/null; sleep 1; exit 7'
	run "$PROCTOR" report dead
	like "which rank died first is said" "$stdout" "Rank 1 failed first: pid [0-9]+, exit 7"
	like "and which process is of which" "$stdout" " +rank +pid +sheet +peak mem"
else
	skip "an Open MPI job" "there is no mpirun (openmpi-bin)"
fi

# ---- a job file ----
cat >"$TMP/job.yaml" <<YAML
job_id: filed
sheets:
  - run: [python3, $TMP/rank.py, $TMP/meet-filed, "$LEADER", "$RANKS"]
    ranks: $RANKS
YAML
for _ in 1 2 3; do
	meet filed
	run "$PROCTOR" run --interval 0.25 --json -f "$TMP/job.yaml"
	is_excused_job "$TMP/meet-filed" $LEADER filed || break
done
is "the job file ran" "$status" 0
at_end=$(json_eval "$stdout" "d['telemetry']")
check_named "job file" filed
run "$PROCTOR" report --json filed
is "the run has said at its end what its report says" "$at_end" "$(json_eval "$stdout" "d['telemetry']")"

# ---- ranks of several processes ----
cat >"$TMP/forks.py" <<'PYTHON'
import os, time
held = bytearray(128 << 20)
for i in range(0, len(held), 4096):
    held[i] = 1
time.sleep(1)
for _ in range(8):
    if os.fork() == 0:
        time.sleep(2)
        os._exit(0)
for _ in range(8):
    os.wait()
PYTHON
cat >"$TMP/forks.yaml" <<YAML
job_id: forks
sheets:
  - run: [python3, $TMP/forks.py]
    ranks: 2
YAML
run "$PROCTOR" run -q --interval 0.25 --report -f "$TMP/forks.yaml"
like "the report at the end is of its ranks, too" "$stdout" "Ranks \(2 of 2, "
run "$PROCTOR" export telemetry --job forks -o "$TMP/forks.jsonl"
peak=$(python3 -c "import json, sys
events = [json.loads(line) for line in open(sys.argv[1])]
print(max(e['device_used_bytes'] for e in events if e['event_type'] == 'sample') >> 20)" "$TMP/forks.jsonl")
is "what eight workers share with their parent counts once ($peak MB)" "$((peak > 128 && peak < 256))" 1
like "which the records say" "$(head -n 1 "$TMP/forks.jsonl")" '"shared_pages":"once"'

# ---- "srun -n2 proctor run --job X": each rank has a runner of its own ----
for rank in 0 1; do
	SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=$rank SLURM_LOCALID=$rank \
		"$PROCTOR" run -q --job apart --interval 0.1 -- sleep 2 &
done
wait
run "$PROCTOR" ranks analyze --job apart --json
json "ranks with a runner each are of one job" "$stdout" \
	"sorted(d['rank_sample_counts']) == ['0', '1'] and d['missing_ranks'] == []"
run "$PROCTOR" report apart
like "which the report of each has" "$stdout" "Ranks \(2 of 2, "
run "$PROCTOR" run -q --job apart --interval 0.1 -- sleep 1
run "$PROCTOR" ranks analyze --job apart
like "a later attempt has none of them" "$stderr" "has no ranks"

# ---- a rank that dies early ----
cat >"$TMP/early.py" <<'PYTHON'
import os, sys, time
from grow import grow
rank, folder = int(os.environ["RANK"]), sys.argv[1]
if rank == 6:
    time.sleep(1)
    sys.exit(0)
loaded = bytearray(30 << 20)
open(f"{folder}/{rank}", "w").close()
while len(os.listdir(folder)) < 6:
    time.sleep(0.02)
begin = max(os.stat(f"{folder}/{i}").st_mtime for i in range(6)) + 9
time.sleep(max(0, begin + (0 if rank == 1 else 2) - time.time()))
held = grow(begin + 6, f"{folder}/grown-{rank}")
os._exit(0)
PYTHON
cat >"$TMP/early.yaml" <<YAML
job_id: early
sheets:
  - run: [python3, $TMP/early.py, $TMP/meet-early]
    ranks: 7
YAML
for _ in 1 2 3; do
	meet early
	run "$PROCTOR" run -q --interval 0.25 -f "$TMP/early.yaml"
	is_excused_job "$TMP/meet-early" 1 early || break
done
run "$PROCTOR" export telemetry --job early -o "$TMP/early.jsonl"
run "$PROCTOR" ranks analyze --json "$TMP/early.jsonl"
json "a rank that died before silences nobody" "$stdout" "d['finding']['verdict'] == 'named' and d['finding']['rank'] == 1"
grep -v '"rank_end"' "$TMP/early.jsonl" >"$TMP/endless.jsonl"
run "$PROCTOR" ranks analyze --json "$TMP/endless.jsonl"
json "but for one of which nobody knows whether it died" "$stdout" "d['finding']['reason_code'] == 'beginning_not_recorded'"

# ---- launchers that are not here, and several hosts ----
# launch KIND FIRST LAST RANKS LEADER FOLDER: those ranks, told who they are as that launcher does.
cat >"$TMP/launch" <<'BASH'
#!/bin/bash
for rank in $(seq "$2" "$3"); do
	case $1 in
	torchrun) env="RANK=$rank LOCAL_RANK=$((rank - $2)) WORLD_SIZE=$4 TORCHELASTIC_RUN_ID=none" ;;
	srun) env="SLURM_JOB_ID=7 SLURM_PROCID=$rank SLURM_LOCALID=$((rank - $2)) SLURM_NTASKS=$4" ;;
	esac
	env $env python3 "$(dirname "$0")/rank.py" "$6" "$5" "$4" &
done
wait
BASH
chmod +x "$TMP/launch"
for _ in 1 2 3; do
	meet srun
	run "$PROCTOR" run --job srun --interval 0.25 -- "$TMP/launch" srun 0 4 5 1 "$TMP/meet-srun"
	is_excused_job "$TMP/meet-srun" 1 srun || break
done
run "$PROCTOR" ranks analyze --job srun --json --store "sqlite:$PROCTOR_HOME/proctor.db"
json "ranks of srun" "$stdout" "d['participating_ranks'] == [0, 1, 2, 3, 4] and d['finding']['rank'] == 1"

# on_host NAME FIRST LAST: ranks of one job of torchrun's, on a host that records for itself.
on_host() {
	local own=()
	unshare -u true 2>/dev/null && own=(unshare -u sh -c "hostname $1"' && exec "$@"' host)
	rm -rf "$TMP/home-$1"
	mkdir "$TMP/home-$1"
	"${own[@]}" env PROCTOR_HOME="$TMP/home-$1" "$PROCTOR" run --job wide --interval 0.25 -- \
		"$TMP/launch" torchrun "$2" "$3" 4 2 "$TMP/meet-hosts" 2>/dev/null
}
run_on_hosts() { # what export says is in $exported
	local host
	meet hosts
	on_host first 0 1 &
	sleep 2
	on_host second 2 3
	wait
	rm -rf "$TMP/hosts"
	exported=
	for host in first second; do
		mkdir -p "$TMP/hosts/$host"
		run "$PROCTOR" export telemetry --job wide --store "$TMP/home-$host/proctor.db" -o "$TMP/hosts/$host"
		exported+="$host $status/$stderr "
	done
}
for _ in 1 2 3; do
	run_on_hosts
	run "$PROCTOR" ranks analyze --json "$TMP/hosts"
	is_excused "$TMP/meet-hosts" 2 "$stdout" || break
done
is "export from the record of each" "$exported" "first 0/ second 0/ "
json "two hosts of one boot, put together" "$stdout" \
	"d['missing_ranks'] == [] and d['finding']['clocks']['count'] == 1 and d['finding']['rank'] == 2"
# clocks SYNCHRONISED: as if the second were another machine.
clocks() {
	sed -Ei 's/"boot_id":"[^"]*"(,"clock_[a-z_]*":[a-z0-9]+)*/"boot_id":"another",'"$1/" "$TMP"/hosts/second/*.jsonl
	run "$PROCTOR" ranks analyze --json "$TMP/hosts"
}
clocks '"clock_synchronised":false'
json "clocks that follow nothing have no order" "$stdout" \
	"d['finding']['verdict'] == 'cannot_tell' and d['finding']['reason_code'] == 'clock_not_synchronised'"
sed -Ei 's/"clock_synchronised":false/"clock_synchronised":true,"clock_error_ns":5000000/' "$TMP"/hosts/first/*.jsonl
clocks '"clock_synchronised":true,"clock_error_ns":5000000'
json "clocks that agree do" "$stdout" \
	"d['finding']['rank'] == 2 and d['finding']['clocks'] == {'count': 2, 'error_ns': 5000000, 'is_assumed': False}"
clocks '"clock_synchronised":true,"clock_error_ns":5000000000'
json "but for those that agree too little" "$stdout" "d['finding']['verdict'] == 'cannot_tell'"

is "nothing of an environment is kept" "$(grep -rlF "$SLURM_JOB_ID" "$PROCTOR_HOME")" ""

# ---- what is no rank ----
run env RANK=9 WORLD_SIZE=4 TORCHELASTIC_RUN_ID=x "$PROCTOR" run --job odd -- sh -c 'sleep 1 & sleep 1; wait'
is "variables that make no sense are told once" "$(grep -c 'the RANK of process .* is no rank' <<<"$stderr")" 1
run env RANK=3 WORLD_SIZE=8 "$PROCTOR" run --job plain -- true
run "$PROCTOR" report --json plain
json "words that anybody uses make no rank" "$stdout" "d['telemetry'] is None"
json "and that is said" "$stdout" "[n['what'] for n in d['unknown']].count('telemetry') == 1"
run "$PROCTOR" report plain
unlike "but it is nothing that could not be measured" "$stdout" "telemetry of ranks"
run "$PROCTOR" ranks analyze --job plain
is "there is nothing to analyse" "$status" 1
like "which is said" "$stderr" "has no ranks"
run "$PROCTOR" export telemetry --job plain
is "nor to export" "$status/$stdout" 1/
run "$PROCTOR" export telemetry
is "export wants a job" "$status" 2
run "$PROCTOR" ranks analyze --job a "$TMP/job.yaml"
is "files or a job" "$status" 2
run "$PROCTOR" ranks analyze --job nobody
is "no such job" "$status" 1

finish
