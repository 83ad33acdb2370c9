#!/bin/bash
# Job files: sheets in order, retries, ranks, what happens after a failure, and
# mistakes that are refused before anything runs.
. "$(dirname "$0")/lib.sh"
file=$TMP/job.yaml

job() { # OPTION... ; the job file comes on stdin
	cat >"$file"
	run "$PROCTOR" run -q --json "$@" -f "$file"
}

job <<EOF
job_id: steps
sheets:
  - name: first
    run: echo one >>$TMP/order
  - run: [sh, -c, 'echo two "\$1" >>$TMP/order', sh, 'a  b']
  - run: pwd >>$TMP/order; echo \$GREETING >>$TMP/order
    workdir: /usr
    env: { GREETING: hello }
EOF
is "all sheets succeed" "$status" 0
is "in order, with their folder and environment" "$(cat "$TMP/order")" $'one\ntwo a  b\n/usr\nhello'
json "each has its numbers" "$stdout" \
	'sorted(d["sheet_metrics"]) == ["1", "2", "3"] and d["sheet_metrics"]["1"]["name"] == "first"'

job <<EOF
job_id: stops
sheets:
  - run: exit 3
  - run: touch $TMP/must-not-exist
EOF
is "a failing sheet ends the job with its status" "$status" 3
check "the next is not run" [ ! -e "$TMP/must-not-exist" ]
json "the report says which" "$stdout" '"sheet 1" in d["reason"] and d["outcome"] == "failure"'

job <<EOF
job_id: goes-on
sheets:
  - run: exit 3
    on_failure: continue
  - run: touch $TMP/must-exist
EOF
is "on_failure: continue still fails in the end" "$status" 3
check "the next is run" [ -e "$TMP/must-exist" ]

job <<EOF
job_id: which
sheets:
  - run: exit 5
    on_failure: continue
  - run: exit 6
EOF
is "the sheet that ended the job gives the status" "$status" 6
json "and the reason" "$stdout" '"sheet 2" in d["reason"]'

job <<EOF
job_id: retries
sheets:
  - run: echo x >>$TMP/tries; test \$(wc -l <$TMP/tries) -ge 3
    retries: 4
EOF
is "a retry may succeed" "$status" 0
json "three tries were made" "$stdout" \
	'[t["outcome"] for t in d["sheet_metrics"]["1"]["tries"]] == ["failure", "failure", "success"]'

job <<EOF
job_id: ranks
sheets:
  - run: echo \$RANK \$LOCAL_RANK \$WORLD_SIZE >>$TMP/ranks.\$RANK
    ranks: 4
EOF
is "ranks succeed together" "$status" 0
is "each knows its number" "$(cat "$TMP"/ranks.*)" $'0 0 4\n1 1 4\n2 2 4\n3 3 4'

job <<EOF
job_id: short
sheets:
  - run: sleep 1018.$$
    timeout: 300ms
EOF
is "a time limit may be a part of a second" "$status" 124
json "which it ran" "$stdout" 'd["outcome"] == "timeout" and 0.3 <= d["wall_seconds"] < 5'

job <<EOF
job_id: bad-rank
sheets:
  - run: if [ \$RANK = 2 ]; then sleep 0.3; exit 9; fi; sleep 1010.$$
    ranks: 4
EOF
is "one failing rank ends the sheet" "$status" 9
json "and is named" "$stdout" '"rank 2 was first" in d["reason"]'
check "the others are ended" bash -c "! pgrep -fx 'sleep 1010.$$'"

run "$PROCTOR" run -q -f "$file"
run "$PROCTOR" report bad-rank --format json
json "running it again is another attempt" "$stdout" 'd["attempt"] == 2'
run "$PROCTOR" report bad-rank --format json --attempt 1
json "the first is still there" "$stdout" 'd["attempt"] == 1'

# ---- mistakes ----
mistake() { # NAME REGEX ; the job file comes on stdin
	cat >"$file"
	run "$PROCTOR" run -q -f "$file"
	is "$1: refused" "$status" 2
	like "$1: says where and what" "$stderr" "$2"
	is "$1: in one line" "$(wc -l <"$TMP/stderr")" 1
}
mistake "unknown key" 'job\.yaml:3: .*tiemout.*timeout' <<EOF
sheets:
  - run: touch $TMP/ran
    tiemout: 5s
EOF
mistake "no run" 'job\.yaml:2: .*run' <<EOF
sheets:
  - name: x
EOF
mistake "no sheets" 'job\.yaml:.*sheets' <<EOF
job_id: x
EOF
mistake "bad duration" 'job\.yaml:3: .*timeout' <<EOF
sheets:
  - run: touch $TMP/ran
    timeout: soon
EOF
mistake "ranks out of range" 'job\.yaml:3: .*ranks.*1 to 1024' <<EOF
sheets:
  - run: touch $TMP/ran
    ranks: 0
EOF
mistake "workdir that is not there" 'job\.yaml:3: .*/no/such/folder' <<EOF
sheets:
  - run: touch $TMP/ran
    workdir: /no/such/folder
EOF
mistake "not YAML" 'job\.yaml:[0-9]+: ' <<EOF
sheets: [
EOF
check "nothing has run" [ ! -e "$TMP/ran" ]

finish
