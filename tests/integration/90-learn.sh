#!/bin/bash
# What is learned from runs that really ran: findings, patterns, estimates, differences, and what
# a person says came of a job. Without history nothing is made up.
. "$(dirname "$0")/lib.sh"
golden=$SOURCE_ROOT/tests/golden/correlation

# Takes MB of memory and exits with STATUS.
cat >"$TMP/eat.py" <<'END'
import sys
kept = b"x" * (int(sys.argv[1]) << 20)
sys.exit(int(sys.argv[2]))
END

eat() { # JOB MB STATUS
	"$PROCTOR" run -q --job "$1" -- python3 "$TMP/eat.py" "$2" "$3" </dev/null
}

# ---- nothing recorded ----

run "$PROCTOR" estimate -- sleep 1
is "without history: status" "$status" 0
is "without history: no data" "$stdout" "no data: nothing like it has been recorded"
run "$PROCTOR" estimate --json -- sleep 1
json "and null in JSON, never 0" "$stdout" 'd["estimated_peak_memory_mb"] is None and d["estimated_cpu_seconds"] is None and d["confidence"] is None and d["runs"] == 0'
run "$PROCTOR" correlate --json
is "nothing to compare: status" "$status" 0
json "nothing to compare" "$stdout" 'd["compat"] == [] and d["findings"] == []'
run "$PROCTOR" patterns --json
is "no patterns" "$stdout" "[]"
run "$PROCTOR" diff a b
is "nothing to diff: status" "$status" 1
like "nothing to diff: said" "$stderr" "nothing has been recorded"
check "no database is made by asking" test ! -e "$PROCTOR_HOME/proctor.db"

# ---- the old rules, on files ----

wrong=$(python3 - "$PROCTOR" "$golden" <<'END'
import json, pathlib, subprocess, sys
for path in sorted(pathlib.Path(sys.argv[2]).glob("*.json")):
    out = subprocess.run([sys.argv[1], "correlate", "--input", path, "--json"],
                         stdout=subprocess.PIPE, check=True).stdout
    if json.loads(out)["compat"] != json.loads(path.read_text())["expected"]:
        print(path.name)
END
)
is "every golden case" "$wrong" ""
json "from standard input" "$("$PROCTOR" correlate --json --input - <"$golden/001.json")" 'len(d["compat"]) == 4'
echo '{"profiles": [{"peak_rss_mb": "much"}]}' >"$TMP/bad.json"
run "$PROCTOR" correlate --input "$TMP/bad.json"
is "a bad profile: status" "$status" 2
like "a bad profile: what and where" "$stderr" "bad.json.*peak_rss_mb.*profile 1.*a number"
echo '{"profiles": [{"outcome": "success"}, {"outcome": "banana"}]}' >"$TMP/bad.json"
run "$PROCTOR" correlate --input "$TMP/bad.json"
is "an outcome that is none: status" "$status" 2
like "an outcome that is none: said" "$stderr" "'outcome' of profile 2 is .*banana.*success, failure"
echo '{"profiles": [{"peak_rss_mb": -1}]}' >"$TMP/bad.json"
run "$PROCTOR" correlate --input "$TMP/bad.json"
is "less memory than none: status" "$status" 2
like "less memory than none: said" "$stderr" "a number from 0 on"
cat >"$TMP/odd.json" <<'END'
{"profiles": [{"job_id": "a", "outcome": "success", "command": "x"},
	{"job_id": "a", "outcome": "success", "command": "x", "peak_rsss_mb": 1},
	{"job_id": "b", "outcome": "cancelled", "command": "y"}, {"command": "z", "sheet_metrics": {}}]}
END
run "$PROCTOR" correlate --input "$TMP/odd.json"
like "fields that are not used are said" "$stderr" "'peak_rsss_mb' \(did you mean 'peak_rss_mb'\?\), 'sheet_metrics'"
like "runs that are left out are listed" "$stdout" '^3 runs left out:'
like "with the reason: a retry" "$stdout" '^  a, profile 2: a retry'
like "with the reason: no outcome" "$stdout" '^  b, profile 3: it was cancelled'
like "also those without a name" "$stdout" '^  -, profile 4: its outcome is not known'
run "$PROCTOR" correlate --input "$TMP/none.json"
is "no file: status" "$status" 2
run "$PROCTOR" correlate --input "$TMP/bad.json" --since 1d
is "--since with a file: status" "$status" 2

# ---- runs ----

for i in 1 2 3 4 5; do
	eat "large-$i" $((60 + i)) 1
done
for i in 1 2 3 4 5 6 7; do
	eat "small-$i" $((10 + i)) 0
done
run "$PROCTOR" correlate
is "a finding: status" "$status" 0
like "a finding in words" "$stdout" 'runs of `eat.py` whose peak memory was more than [0-9.]+ MB failed 5 of 5 times \(95 % interval 57 to 100 %\); others 0 of 7; adjusted p [0-9.]+, supported'
run "$PROCTOR" correlate --json
json "the same in JSON" "$stdout" '[f for f in d["findings"] if f["feature"] == "peak_rss_mb"][0]["inside"] == {"runs": 5, "failures": 5, "failure_rate": 1, "interval_95": [0.5655175352168254, 1]}'
json "all of it was tested" "$stdout" '(d["runs"], d["classes"], d["classes_tested"]) == (12, 1, 1)'
sleep 1.2 # some of them at least are older then
run "$PROCTOR" correlate --since 1s --json
json "only what ended in that time" "$stdout" 'd["runs"] < 12'
run "$PROCTOR" patterns
like "it is believed" "$stdout" "^supported since .* on 12 runs"
run "$PROCTOR" patterns --json
json "and kept with its rule" "$stdout" 'any(p["feature"] == "peak_rss_mb" and p["direction"] == "above" and p["later_runs"] == 0 and p["retired"] is None for p in d if p["type"] == "FINDING")'
json "by two analyses: what another look-back finds is not kept" "$stdout" '{p["occurrences"] for p in d if p["type"] == "FINDING" and p["feature"] == "peak_rss_mb"} == {2}'

# ---- runs that the rule had not seen ----

for i in 1 2 3 4; do
	eat "later-large-$i" $((70 + i)) 1 # the same as before would be a retry
	eat "later-small-$i" $((20 + i)) 0
done
run "$PROCTOR" correlate
run "$PROCTOR" patterns --json
json "later runs confirm it" "$stdout" 'any(p["feature"] == "peak_rss_mb" and p["state"] == "confirmed" and p["later_runs"] == 8 and p["brier"] < p["brier_base_rate"] for p in d if p["type"] == "FINDING")'

run "$PROCTOR" patterns
like "since when it was what" "$stdout" "^confirmed since [^,]*, supported since [^;]*; found on 12 runs"

# ---- what a person says ----

run "$PROCTOR" outcome small-1 failure --note "wrong numbers"
is "a verdict: status" "$status" 0
is "a verdict: it is said" "$stdout" "small-1 attempt 1: failure, as you say"
run "$PROCTOR" jobs --json
json "it is the outcome from now on" "$stdout" '[j for j in d if j["job_id"] == "small-1"][0]["outcome"] == "failure" and [j for j in d if j["job_id"] == "small-1"][0]["exit_code"] == 0'
run "$PROCTOR" correlate --json
json "and counts as a failure" "$stdout" 'd["findings"][0]["failures"] == 10'
is "what was measured is kept" "$("$PROCTOR" sql --no-header 'SELECT measured_outcome, note FROM verdicts' --csv)" "success,wrong numbers"
run "$PROCTOR" outcome small-1 measured
is "taken back" "$stdout" "small-1 attempt 1: success, as measured"
run "$PROCTOR" report small-1 --json
json "it is what was measured" "$stdout" 'd["outcome"] == "success" and "says so" not in (d["reason"] or "")'
is "and no verdict is left" "$("$PROCTOR" sql --no-header 'SELECT count(*) FROM verdicts' --csv)" 0
run "$PROCTOR" outcome small-1 measured
is "twice is no failure" "$status" 0
run "$PROCTOR" outcome small-1 failure
run "$PROCTOR" outcome nobody success
is "no such job: status" "$status" 1
run "$PROCTOR" outcome small-1 perhaps
is "no such outcome: status" "$status" 2
"$PROCTOR" run -q --job long -- sleep 300 </dev/null &
runner=$!
is_listed() { "$PROCTOR" jobs --json | grep -q '"job_id":"long"'; }
eventually is_listed
run "$PROCTOR" outcome long success
is "it still runs: status" "$status" 1
like "it still runs: said" "$stderr" "still runs"
kill -TERM "$runner"
wait "$runner"

# ---- retries ----

for _ in 1 2 3; do
	eat again 30 1
done
eat by-hand 30 1
run "$PROCTOR" correlate --json
json "three retries of one input are left out, whatever their id" "$stdout" 'd["retries_left_out"] == 3'

# ---- estimates ----

for i in 1 2 3 4; do
	"$PROCTOR" run -q -- python3 "$TMP/eat.py" 40 0 </dev/null
done
run "$PROCTOR" estimate --json -- python3 "$TMP/eat.py" 40 0
json "4 runs of this very command" "$stdout" 'd["basis"] == "exact command" and d["runs"] == 4 and d["confidence"] == 0.8'
json "which had 40 MB and more" "$stdout" '40 < d["estimated_peak_memory_mb"] < 100 and 0 < d["estimated_cpu_seconds"] <= d["cpu_seconds_90"]'
json "and past answers are judged" "$stdout" 'd["calibration"]["estimates"] >= 3 and 0 <= d["calibration"]["covered"] <= d["calibration"]["estimates"]'
run "$PROCTOR" estimate -- python3 "$TMP/eat.py" 40 0
like "in words" "$stdout" "peak memory .*with a probability of 80 %"
like "and those of the CPU time" "$stdout" '[0-9]+ of [0-9]+ within the CPU time \([0-9]+ %\)'
run "$PROCTOR" estimate --json -- python3 "$TMP/eat.py" 41 0
json "another number: the masked command" "$stdout" 'd["basis"] == "masked command" and d["runs"] >= 4'
run "$PROCTOR" estimate --json -- "$TMP/eat.py" --other-options
json "other options: the program" "$stdout" 'd["basis"] == "program and user"'
run "$PROCTOR" estimate -- "$TMP/eat.py" --other-options
like "which is said to be coarse" "$stdout" 'with other arguments it may need something else'
run "$PROCTOR" estimate --json -- no-such-program
json "nothing like it: no data" "$stdout" 'd["basis"] == "no data" and d["estimated_peak_memory_mb"] is None'

cat >"$TMP/job.yaml" <<END
sheets:
  - run: [python3, $TMP/eat.py, "40", "0"]
  - run: [python3, $TMP/eat.py, "20", "0"]
END
run "$PROCTOR" estimate -f "$TMP/job.yaml" --json
json "a job that never ran: by its sheets" "$stdout" 'd["by_sheet"] and d["runs"] > 0 and d["estimated_peak_memory_mb"] > 40'
"$PROCTOR" run -q -f "$TMP/job.yaml" </dev/null
run "$PROCTOR" estimate -f "$TMP/job.yaml" --json
json "one that ran: as a whole" "$stdout" 'not d["by_sheet"] and d["runs"] == 1 and d["confidence"] == 0.5'
run "$PROCTOR" correlate --json
json "sheets are no runs that nobody decided about: one was cancelled" "$stdout" 'd["undecided_left_out"] == 1'
run "$PROCTOR" estimate -f "$TMP/none.yaml"
is "no job file: status" "$status" 2
run "$PROCTOR" estimate
is "of nothing: status" "$status" 2

# ---- system calls ----

if strace -f -o /dev/null true 2>/dev/null; then
	calls=$TMP/calls
	for i in 1 2 3 4 5; do
		PROCTOR_HOME=$calls "$PROCTOR" run -q --syscalls strace --job "reads-$i" -- \
			dd if=/dev/zero of=/dev/null bs=1 count=2000 status=none </dev/null
		PROCTOR_HOME=$calls "$PROCTOR" outcome "reads-$i" failure >/dev/null
		PROCTOR_HOME=$calls "$PROCTOR" run -q --syscalls strace --job "sleeps-$i" -- sleep 0.01 </dev/null
	done
	run env PROCTOR_HOME="$calls" "$PROCTOR" correlate --json
	json "calls are learned from, by the old rules" "$stdout" \
		'any(c["type"] == "syscall_vs_failure" and "syscall_dominant:read" in c["context_tags"] for c in d["compat"])'
	is "their runs have them" "$(PROCTOR_HOME=$calls "$PROCTOR" sql --no-header --csv \
		"SELECT count(*) FROM runs WHERE syscalls LIKE '%write %'")" 5
	run env PROCTOR_HOME="$calls" "$PROCTOR" diff reads-1 sleeps-1 --json
	json "and they are compared" "$stdout" \
		'any(r["key"] == "syscall:write" and r["before"] > 20 for r in d["differences"])'
else
	skip "system calls are learned from" "strace cannot trace here"
fi

# ---- one among others ----

eat odd 160 0
run "$PROCTOR" report odd
like "a report tells of runs like it" "$stdout" 'Runs like this \([0-9]+ others by masked command, [0-9]+ failed'
like "that none had more memory" "$stdout" 'peak memory, tree +[0-9]+ MB .* more than any of [0-9]+'
like "and what was expected" "$stdout" 'Expected when it began, from [0-9]+ runs by masked'
run "$PROCTOR" report odd --json
json "the same in JSON" "$stdout" 'd["runs_like_this"]["peak_rss_mb"]["runs_above"] == 0 and d["runs_like_this"]["expected"]["peak_covered"] is False and not d["runs_like_this"]["peak_rss_mb"]["unusual"]'
"$PROCTOR" run -q --job only -- "$TMP/nothing-like-it" </dev/null 2>/dev/null
run "$PROCTOR" report only --json
json "of the first of its kind: null" "$stdout" 'd["runs_like_this"] is None'

# ---- differences ----

odd_before=$("$PROCTOR" report odd)
eat huge 200 0
is "a later run changes no report" "$("$PROCTOR" report odd)" "$odd_before"
run "$PROCTOR" diff small-2 huge --json
json "memory is more than usual" "$stdout" '[r for r in d["differences"] if r["key"] == "peak_rss_mb"][0]["judgement"] == "beyond" and d["other_runs"] >= 7'
run "$PROCTOR" diff small-2 huge
like "in words" "$stdout" "peak memory .* more than usual"
like "both commands" "$stdout" "before: small-2 attempt 1, success: .*eat.py 12 0"
run "$PROCTOR" diff huge small-2
like "a decrease is not more" "$stdout" "peak memory .*-[0-9.]+ "
unlike "and is not called so" "$stdout" "peak memory .* more than usual"
run "$PROCTOR" diff small-2 huge
unlike "no GPU, no rows of it" "$stdout" "GPU"
"$PROCTOR" run -q --job nap -- sleep 0.1 </dev/null
run "$PROCTOR" diff nap huge
like "two kinds have no usual spread" "$stdout" "usual: not known; they are runs of different kinds"
run "$PROCTOR" diff nap huge --json
json "nor in JSON" "$stdout" 'd["basis"] is None and d["other_runs"] == 0 and all(r["judgement"] == "unknown" for r in d["differences"])'
run "$PROCTOR" diff again --json
json "one job: its last two attempts" "$stdout" '(d["before"]["attempt"], d["after"]["attempt"]) == (2, 3)'
run "$PROCTOR" diff 'again#1' 'again#3' --json
json "or those that are named" "$stdout" '(d["before"]["attempt"], d["after"]["attempt"]) == (1, 3)'
run "$PROCTOR" diff small-2
is "only one attempt: status" "$status" 1
check "the record is sound" "$PROCTOR" doctor

finish
