#!/bin/bash
# CPU time is a measure of ranks: one that burns it while its peers rest is named, and of ranks that do the same none is.
. "$(dirname "$0")/lib.sh"

# Three ranks use 1 part in 50 of a core each, as much as a busy machine has for them. Where rank 1 is to burn, it computes
# without a rest from its 14th second on.
cat >"$TMP/rank.py" <<'PYTHON'
import os, sys, time
rank, folder, burns = int(os.environ["PROCTOR_RANK"]), sys.argv[1], sys.argv[2] == "burns"
open(f"{folder}/{rank}", "w").close()
while len(os.listdir(folder)) < 3:
    time.sleep(0.02)
begin, used = time.time(), time.process_time()
while time.time() - begin < 40:
    if burns and rank == 1 and time.time() - begin > 14:
        sum(range(10000))
        continue
    while time.process_time() - used < 0.02 * (time.time() - begin):
        sum(range(1000))
    time.sleep(0.1)
PYTHON

for job in burns balanced; do
	mkdir "$TMP/met-$job"
	printf 'sheets:\n  - run: [python3, %s, %s, %s]\n    ranks: 3\n' "$TMP/rank.py" "$TMP/met-$job" "$job" >"$TMP/$job.yaml"
	"$PROCTOR" run -q --interval 0.5 --job "$job" -f "$TMP/$job.yaml" &
	declare "$job=$!"
done
# shellcheck disable=SC2154 # they are declared by their names
wait "$burns"
is "a job of which a rank burns CPU" $? 0
# shellcheck disable=SC2154
wait "$balanced"
is "one of which none does" $? 0

run "$PROCTOR" ranks analyze --job burns --json
json "the rank that burns is named" "$stdout" \
	'(c := d["cpu"])["verdict"] == "named" and c["rank"] == 1 and c["direction"] == "more" and c["cores"] > 2 * c["peers_cores"]'
json "it does since then" "$stdout" \
	'10 < (d["cpu"]["since_ns"] - min(r["first_ns"] for r in d["ranks"])) / 1e9 < 20'
run "$PROCTOR" report burns
like "the report has that" "$stdout" 'CPU rank 1: [0-9.]+ of a core since .*, its peers 0\.0'
run "$PROCTOR" ranks analyze --job balanced --json
json "of ranks that do the same none is named" "$stdout" 'd["cpu"]["verdict"] != "named"'
finish
