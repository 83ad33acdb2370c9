#!/bin/bash
# Runners and daemons are killed at random moments, and many runs begin and end at once: no job is harmed, and no
# end is lost that a runner has passed on. "tests/bench/kill.sh" does the same a thousand times.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
export TMP
echo 'jsonl_path: proctor.jsonl' >"$PROCTOR_HOME/proctor.yaml" # which stress.py compares with the record

# How many of those that began may be in no record when their runner was killed later than 20 ms after that (early: before), and
# how many of the last samples of one of them. On a busy machine today's runner has not written them by then; the bound
# for one that appends to a log of its own is 0, 0 and 1.
: "${UNRECORDED_MAX:=3}" "${UNRECORDED_EARLY_MAX:=all}" "${TICKS_LOST_MAX:=5}"

stress() { # WHAT [OPTION...]
	local what=$1
	shift
	run timeout 400 python3 "$INTEGRATION/stress.py" "$what" "$PROCTOR" "$@"
	echo "# $stdout$stderr"
}

killed() { # NAME [OPTION...]
	local name=$1
	shift
	stress kill "$@"
	json "$name: runners were killed" "$stdout" 'd["killed"] >= d["jobs"] // 2'
	json "$name: no job is harmed" "$stdout" 'd["harmed"] == []'
	json "$name: each end that was passed on is recorded" "$stdout" 'd["lost_ends"] == []'
	json "$name: no end is made up" "$stdout" 'd["wrong"] == []'
	json "$name: nothing is there twice" "$stdout" 'd["twice"] == []'
	json "$name: what has begun is recorded" "$stdout" "len(d['unrecorded']) <= $UNRECORDED_MAX"
	json "$name: also early" "$stdout" "d['unrecorded_early'] <= (${UNRECORDED_EARLY_MAX/all/d[\'early\']})"
	json "$name: with its last samples" "$stdout" "(d['ticks_lost'] or 0) <= $TICKS_LOST_MAX"
}

killed alone --jobs 12 --early 6 --at-once 6

stress many --jobs 200 --at-once 20
json "many: each run passes its status on" "$stdout" 'd["harmed"] == 0'
json "many: and leaves its record" "$stdout" 'd["recorded"] == d["jobs"]'
json "many: with a number of its own" "$stdout" 'd["is_numbered"]'
json "many: and its end" "$stdout" 'd["has_ends"]'

start_daemon 'interval_seconds: 0.2'
killed "own daemon" --jobs 12 --daemon-kills 4 --at-once 6
"$PROCTOR" stop

. "$(dirname "$0")/users.sh"
start_daemon 'interval_seconds: 0.2'
killed "root's daemon" --jobs 12 --daemon-kills 4 --at-once 6 --as alice
json "root's daemon: it has made up no end either" "$(ask job.attempts)" \
	'all(a["uid"] == 4001 and a["exit_code"] in (None, int(a["job_id"].split("-")[-1]) % 100 + 1) for a in d["attempts"] if a["job_id"].startswith("kill-"))'
json "root's daemon: nor listed one twice" "$(ask job.attempts)" \
	'(lambda ids: len(set(ids)) == len(ids))([a["job_id"] for a in d["attempts"] if a["job_id"].startswith("kill-")])'
"$PROCTOR" stop
finish
