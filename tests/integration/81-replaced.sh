#!/bin/bash
# The database is moved away, and another takes its place, while the daemon runs: what comes then is in the new
# one, and every job has its own end there.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/users.sh"

check "the daemon starts" start_daemon 'interval_seconds: 0.2'
move_away() { # NAME
	PROCTOR_HOME=/var/lib/proctor move_database "$TMP/$1"
}
recorded() { # of all attempts, as the daemon has them
	json_eval "$(ask job.attempts)" \
		"' '.join(sorted('%s:%s:%s:%s' % (a['job_id'], a['uid'], a['outcome'] or a['status'], a['exit_code']) for a in d['attempts']))"
}

# ---- events ----

loud() { # JOB: one with process starts, exits and a signal
	"$PROCTOR" run -q --job "$1" -- sh -c 'for i in 1 2 3 4 5 6; do sleep 0.05; done; sleep 60 & sleep 0.3; kill $!; wait; true'
}
published() { # JOB: whether the daemon published the start and the exit of each process
	json_eval "$(ask daemon.events "{\"limit\": 4096, \"job_id\": \"$1\"}")" \
		'[sum(e["event"] == "process." + what for e in d) >= 8 for what in ("spawn", "exit")]'
}
loud before
is "process starts and exits are published" "$(becomes "[True, True]" published before)" "[True, True]"
has_one_log() { # that of the daemon: what is in another stays there for the next database
	[ "$(find /var/lib/proctor/proctor.db-logs -maxdepth 1 -name '*.[0-9]*' | wc -l)" -eq 1 ]
}
check "the log of a job that is over is removed" eventually has_one_log
move_away first
loud after
is "in the next database as well, though it has fewer of them" "$(becomes "[True, True]" published after)" "[True, True]"
is "which has that job alone" "$(becomes after:0:success:0 recorded)" after:0:success:0

# ---- a job of another user ----

as alice "$PROCTOR" run -q --job hers -- sh -c "$(gate hers); exit 77" &
runner=$!
is "another user's job is watched" "$(becomes hers:4001 listed root)" hers:4001
move_away second
"$PROCTOR" run -q --job roots -- true
is "root's has its end in the next database" "$(becomes True json_eval "$(ask job.attempts)" \
	'[a["outcome"] for a in d["attempts"] if a["job_id"] == "roots"] == ["success"]')" True
pass hers
wait "$runner"
is "the other user's job does not notice" $? 77
both="hers:4001:failure:77 roots:0:success:0"
is "each of both has its own end" "$(becomes "$both" recorded)" "$both"
json "and hers is in her own record" "$(as alice "$PROCTOR" jobs --json)" \
	'[(j["job_id"], j["exit_code"]) for j in d] == [("hers", 77)]'
"$PROCTOR" stop
finish
