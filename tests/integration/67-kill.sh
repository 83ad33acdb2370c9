#!/bin/bash
# Runners and daemons are killed at random moments, and many runs begin and end at once: no job is harmed, no
# end is lost that a runner has passed on, and no attempt is without a record. "make kill" does the same a thousand times.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
export TMP
mkdir -p "$PROCTOR_HOME"
echo "jsonl_path: proctor.jsonl" >"$PROCTOR_HOME/proctor.yaml" # which stress.py compares with the record

# Of JOBS runs a third runs alone, one beside the user's own daemon, and one beside root's. Of each third the runners of five in
# six are killed, two of these within 20 ms after their command began. Then there are RUNS short runs of one job.
: "${JOBS:=54}" "${RUNS:=200}" "${AT_ONCE:=6}"
daemon_kills=$((JOBS / 12))

stress() { # WHAT [OPTION...]
	local what=$1
	shift
	run timeout $((400 + JOBS + RUNS / 10)) python3 "$INTEGRATION/stress.py" "$what" "$PROCTOR" "$@"
	echo "# $stdout$stderr"
}

killed() { # NAME [OPTION...]
	local name=$1
	shift
	stress kill --jobs $((JOBS * 2 / 9)) --early $((JOBS / 9)) --at-once "$AT_ONCE" "$@"
	json "$name: runners were killed" "$stdout" 'd["killed"] >= d["jobs"] // 2'
	json "$name: no job is harmed" "$stdout" 'd["harmed"] == []'
	json "$name: each end that was passed on is recorded" "$stdout" 'd["lost_ends"] == []'
	json "$name: also in root's record, where a daemon of root's was there" "$stdout" 'd["lost_by_daemon"] == []'
	json "$name: no end is made up" "$stdout" 'd["wrong"] == []'
	json "$name: nothing is there twice" "$stdout" 'd["twice"] == []'
	json "$name: what has begun is recorded" "$stdout" 'd["unrecorded"] == [] and d["unrecorded_early"] == 0'
	json "$name: with its last samples but one" "$stdout" '(d["ticks_lost"] or 0) <= 1'
}

killed alone
json "alone: samples were compared" "$stdout" 'd["ticks_lost"] is not None'

stress many --jobs "$RUNS" --at-once $((AT_ONCE * 4))
json "many: each run passes its status on" "$stdout" 'd["harmed"] == 0'
json "many: and leaves its record" "$stdout" 'd["recorded"] == d["jobs"]'
json "many: with a number of its own" "$stdout" 'd["is_numbered"]'
json "many: and its end" "$stdout" 'd["has_ends"]'

start_daemon 'interval_seconds: 0.2'
killed "own daemon" --daemon-kills $daemon_kills
"$PROCTOR" stop

. "$(dirname "$0")/users.sh"
start_daemon 'interval_seconds: 0.2'
killed "root's daemon" --daemon-kills $daemon_kills --as alice
json "root's daemon: it has made up no end either" "$(ask job.attempts)" \
	'all(a["uid"] == 4001 and a["exit_code"] in (None, int(a["job_id"].split("-")[-1]) % 100 + 1) for a in d["attempts"] if a["job_id"].startswith("kill-"))'
json "root's daemon: nor listed one twice" "$(ask job.attempts)" \
	'(lambda ids: len(set(ids)) == len(ids))([a["job_id"] for a in d["attempts"] if a["job_id"].startswith("kill-")])'
"$PROCTOR" stop
finish
