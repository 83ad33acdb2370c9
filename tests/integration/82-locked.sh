#!/bin/bash
# Jobs that begin or end while somebody holds the database: no attempt is taken for lost.
. "$(dirname "$0")/lib.sh"

attempts() { # JOB: what became of each
	json_eval "$("$PROCTOR" jobs --all --json 2>/dev/null)" "[j['outcome'] or j['status'] for j in d if j['job_id'] == '$1']"
}
published() { # JOB: the events that the daemon published
	json_eval "$(ask daemon.events "{\"job_id\": \"$1\", \"limit\": 4096}")" \
		'" ".join("%s:%s" % (e["event"], e.get("outcome")) for e in d if e["event"].startswith("job."))'
}

check "a daemon" start_daemon 'interval_seconds: 0.2'
"$PROCTOR" run -q -- true # there is a database

# ---- submitted ----
hold_database within
printf 'sheets:\n  - run: touch %s\n' "$TMP/ran" >"$TMP/within.yaml"
"$PROCTOR" submit --job within "$TMP/within.yaml" >/dev/null
check "one begins and ends while the database is held" eventually test -e "$TMP/ran"
sleep 4 # in which nobody may give it up
release_database within
run timeout 60 "$PROCTOR" wait within
is "it has its end" "$status/$stdout" "0/within success"
is "and was one attempt" "$(becomes "['success']" attempts within)" "['success']"

printf 'sheets:\n  - run: %s; touch %s; exit 3\n' "$(gate ends)" "$TMP/ended" >"$TMP/ends.yaml"
"$PROCTOR" submit --job ends "$TMP/ends.yaml" >/dev/null
is "another runs" "$(becomes "['running']" attempts ends)" "['running']"
timeout 120 "$PROCTOR" wait ends >"$TMP/waited" 2>&1 &
waiting=$!
hold_database end
pass ends
eventually test -e "$TMP/ended"
sleep 3
run "$PROCTOR" cancel ends
is "what is over is not ended once more" "$status" 1
release_database end
wait $waiting
is "wait prints the end of one that ends meanwhile" "$?/$(cat "$TMP/waited")" "1/ends failure"
is "which is recorded" "$(becomes "['failure']" attempts ends)" "['failure']"
is "no event states that it is lost" "$(published ends)" "job.queued:None job.started:None job.failed:failure"

# ---- one that something else started ----
sleep 300 &
sleeper=$!
hold_database attach
run timeout 60 "$PROCTOR" attach --pid $sleeper --job found
is "a tree is attached meanwhile: its log needs no database" "$status/$stderr" "0/"
release_database attach
is "and followed" "$(becomes "['running']" attempts found)" "['running']"
hold_database again
run timeout 60 "$PROCTOR" attach --pid $sleeper --job again
like "what is of a job is refused all the same" "$status/$stderr" "1/.*belongs to the job found already"
sleep 300 &
other=$!
run timeout 60 "$PROCTOR" attach --pid $other --job late
is "and another is attached" "$status/$stderr" "0/"
kill $other
release_database again
kill $sleeper
run timeout 60 "$PROCTOR" wait found
like "its end is known" "$stdout" found

# ---- one that is held to the end ----
hold_database last
sleep 1 # some ticks wait by now
run timeout 60 "$PROCTOR" stop
is "a daemon that cannot write any more ends all the same" "$status/$stderr" "0/"
release_database last

finish
