#!/bin/bash
# A rank that leaves its peers is an anomaly while the job runs: once, with its rank, kind and process.
# The runner finds it alone, and beside a daemon.
. "$(dirname "$0")/lib.sh"

# Three ranks load, meet and rest; from 8 s on rank 1 holds 8 MB more each second, by the clock: one that waited for a
# core takes what it missed. They end when they are asked to, or after 2 minutes.
cat >"$TMP/rank.py" <<'PYTHON'
import os, sys, time
rank, folder = int(os.environ["PROCTOR_RANK"]), sys.argv[1]
held = [b"x" * (20 << 20)]
open(f"{folder}/{rank}", "w").write(str(os.getpid()))
while len(os.listdir(folder)) < 3:
    time.sleep(0.02)
begin = time.time()
while time.time() - begin < 120 and not os.path.exists(f"{folder}/end"):
    time.sleep(0.125)
    while rank == 1 and len(held) < 8 * (time.time() - begin - 8):
        held.append(b"y" * (1 << 20))
PYTHON
cat >"$TMP/job.yaml" <<YAML
sheets:
  - run: [python3, $TMP/rank.py, $TMP/met]
    ranks: 3
YAML

# The job goes on until the anomaly is there: on a busy machine ticks are late.
check() { # JOB
	rm -rf "$TMP/met"
	mkdir "$TMP/met"
	"$PROCTOR" run --interval 0.5 --job "$1" -f "$TMP/job.yaml" >/dev/null 2>&1 &
	for ((i = 0; i < 110; i++)); do
		sleep 1
		[ "$(json_eval "$("$PROCTOR" anomalies --json)" \
			"any(a['anomaly_type'] == 'rank_diverged' and a['job_id'] == '$1' for a in d)")" != True ] || break
	done
	sleep 5 # a second one would be there, too
	touch "$TMP/met/end"
	wait $!
	is "$1: the job is fine" $? 0
	run "$PROCTOR" anomalies --json
	json "$1: one rank, reported once" "$stdout" \
		"[a['pid'] for a in d if a['anomaly_type'] == 'rank_diverged' and a['job_id'] == '$1'] == [$(cat "$TMP/met/1")]"
	json "$1: with its rank and kind" "$stdout" \
		"all('rank 1 (python3, ' in str(a) and '(alone, ' in str(a) for a in d if a['anomaly_type'] == 'rank_diverged')"
	json "$1: while the job ran" "$stdout" \
		"all(a['why_cleared'] == 'the job ended' for a in d if a['anomaly_type'] == 'rank_diverged')"
}

check alone
start_daemon
check beside
finish
