#!/bin/bash
# "proctor why": the verdict in at most ten lines, for each cause that can be planted here.
. "$(dirname "$0")/lib.sh"
lock=$TMP/lock

# why JOB [ARG...]: sets stdout, status and first (the first line).
why() {
	run "$PROCTOR" why "$@"
	first=$(head -n 1 <<<"$stdout")
	[ "$(wc -l <<<"$stdout")" -le 10 ] || not_ok "at most ten lines" "$stdout"
}
last() { tail -n 1 <<<"$stdout"; }

# field JOB EXPRESSION: of the JSON, d.
field() { json_eval "$("$PROCTOR" why "$1" --json)" "$2"; }

hold() { # SECONDS: sets holder
	flock -o "$lock" sleep "$1" &
	holder=$!
	eventually sh -c "! flock -n '$lock' true"
}

# ---- a lock, when the time was up, and while it runs ----
hold 60
cat >"$TMP/late.yaml" <<END
job_id: late
sheets:
  - run: "true"
  - name: deaf
    run: "trap '' TERM; flock $lock true; sleep 60"
    timeout: 0.5s
END
"$PROCTOR" run -q --grace 1 -f "$TMP/late.yaml"
why late
is "a time limit: status" "$status" 0
like "the verdict is first" "$first" '^timeout: sheet 2 \(deaf\) ran into its timeout'
like "the evidence names the lock and its holder" "$stdout" \
	"evidence  .*waiting for a lock on $lock, held by flock \(pid $holder\)"
is "what to try is last" "$(last)" "try       see what the holder does: proctor stack $holder"
is "the cause is a word" "$(field late 'd["cause"], d["sheet_num"]')" "('lock', 2)"
start=$(json_eval "$("$PROCTOR" report late --json)" 'd["sheet_metrics"]["2"]["started"]')
json "the time is that of the limit, without the grace period" "$("$PROCTOR" why late --json)" \
	"0.4 < d['since'] - $start < 1.2"

"$PROCTOR" run -q --job stuck -- flock "$lock" true &
runner=$!
stuck() { "$PROCTOR" why stuck 2>/dev/null | grep -q 'hardly any CPU'; }
eventually stuck
why stuck
like "a running job: verdict" "$first" '^running: the command has been running for at least'
like "as stack has it" "$stdout" "evidence  flock \(pid [0-9]+\) is waiting for a lock on $lock, held by flock \(pid $holder\)"
like "since when nothing moved" "$stdout" '^when      hardly any CPU was used since '
like "the holder is what to look at" "$(last)" "proctor stack $holder\$"
run "$PROCTOR" why stuck --json
cp "$TMP/stdout" "$TMP/why.json"
is "the fields are those of docs/output.md" \
	"$(python3 "$INTEGRATION/page_fields.py" json "$SOURCE_ROOT/docs/output.md" "why --json" "$TMP/why.json" 2>&1)" ""
kill "$(pgrep -P "$holder")"
wait "$runner"

"$PROCTOR" run -q --job halted -- sleep 60 &
runner=$!
eventually pgrep -P "$runner" sleep
child=$(pgrep -P "$runner" sleep)
kill -STOP "$child"
is "a stopped one" "$(field halted 'd["cause"], "stopped by a signal" in d["evidence"]')" "('stopped', True)"
kill -KILL "$child"
wait "$runner"

# ---- failures ----
"$PROCTOR" run -q --job chain -- sh -c 'sh -c "ls /proctor-none 2>/dev/null; exit \$?" || exit 9'
if [ "$(json_eval "$("$PROCTOR" doctor --json)" '[r["rung"] for r in d["rungs"] if r["measurement"].startswith("births")][0]')" != "subreaper wait4 and /proc polling" ]; then
	why chain
	like "a failing child is named" "$stdout" 'evidence  exit code 9; the last to fail before it was ls \(pid [0-9]+\), with exit code 2'
	is "and is the cause" "$(field chain 'd["cause"]')" child
else
	skip "a failing child is named" "the kernel does not report ends to this user"
fi
"$PROCTOR" run -q --job own -- sh -c 'exit 4'
why own
is "its own exit code: no cause is made up" "$(field own 'd["cause"], d["evidence"]')" "('unknown', None)"
like "and what would show more" "$stdout" '^unknown   cannot tell why: '
"$PROCTOR" run -q --job absent -- /proctor-none
is "a command that is not there" "$(field absent 'd["cause"], d["cannot_tell"]')" "('not_found', None)"
"$PROCTOR" run -q --job sent -- sleep 60 &
runner=$!
eventually pgrep -P "$runner" sleep
kill -TERM "$runner"
wait "$runner"
is "a signal" "$(field sent 'd["cause"], d["outcome"]')" "('signal', 'cancelled')"

# ---- a runner that was lost ----
"$PROCTOR" run -q --job lost -- sleep 60 &
runner=$!
eventually pgrep -P "$runner" sleep
child=$(pgrep -P "$runner" sleep)
kill -KILL "$runner"
wait "$runner" 2>/dev/null
why lost
like "a lost runner" "$first" '^lost: '
like "nothing is made up" "$stdout" '^unknown   cannot tell what ended its runner'
kill "$child" 2>/dev/null

# ---- as usual, and slower ----
for _ in {1..20}; do
	"$PROCTOR" run -q --job quick -- flock "$lock" sleep 0.1
done
why quick
like "nothing unusual" "$stdout" \
	'^nothing unusual: the command ended with exit code 0 after [0-9]+ ms, as 19 of 19 runs like it$'
is "has no cause" "$(field quick 'd["cause"], d["advice"], d["more_than_usual"]')" "(None, None, None)"
hold 2
"$PROCTOR" run -q --syscalls=auto --job quick -- flock "$lock" sleep 0.1
why quick
like "a slower one: by how much" "$stdout" '^unusual   wall time [0-9.]+ s, of runs like it [0-9]+ ms \('
if [ "$(json_eval "$("$PROCTOR" report quick --json)" '(d["syscalls"] or [{}])[0].get("wait_seconds") is not None')" = True ]; then
	is "the cause is the lock" "$(field quick 'd["cause"]')" lock
	like "the call is named" "$stdout" '^because   .*waited [0-9.]+ s in flock \(1 call\)'
else
	skip "the cause is the lock" "system calls are not timed for this user"
fi

# ---- attempts ----
is "an attempt by its number" "$(json_eval "$("$PROCTOR" why quick#1 --json)" 'd["attempt"]')" 1
is "or by the option" "$(json_eval "$("$PROCTOR" why quick --attempt 2 --json)" 'd["attempt"]')" 2
why quick#1 --attempt 2
is "not by both" "$status" 2
why none
is "an unknown job: status" "$status" 1
like "an unknown job: what would be right" "$stderr" 'no job none was recorded'
why
is "no job: status" "$status" 2
like "no job: what would be right" "$stderr" 'proctor jobs'
finish
