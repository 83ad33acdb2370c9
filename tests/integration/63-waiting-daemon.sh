#!/bin/bash
# The same while a daemon records: its ticks wait as well.
. "$(dirname "$0")/lib.sh"

start_daemon() {
	mkdir -p "$PROCTOR_HOME"
	printf "interval_seconds: 0.2\nlimits:\n  max_daemon_cpu_percent: 100\n" >"$PROCTOR_HOME/proctor.yaml" # or a busy host has fewer ticks
	"$PROCTOR" start
}

status_of() { json_eval "$("$PROCTOR" status --json)" "$1"; }
has_samples() { # JOB: of the daemon's; its runner has made some before that
	"$PROCTOR" sql --json "SELECT count(*) > 1 AS n FROM process_metrics m JOIN snapshots s ON s.id = m.snapshot_id
		WHERE m.job_id = '$1' AND s.daemon_pid IS NOT NULL" | grep -q '"n":1'
}
ticks_wait() { [ "$(status_of 'd["ticks_waiting"] > 3')" = True ]; }
none_waits() { [ "$(status_of 'd["ticks_waiting"] == 0 and d["recording"]')" = True ]; }

# hold NAME [SQL]: locks the database until pass NAME, and does that then; sets holder. From when to when is in
# the file NAME.
hold() {
	python3 - "$PROCTOR_HOME/proctor.db" "$TMP/$1" "$TMP/passed.$1" "${2:-}" <<'END' &
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("PRAGMA foreign_keys = ON")
db.execute("BEGIN IMMEDIATE")
began = time.time()
open(sys.argv[2] + ".held", "w").close()
while os.path.exists(sys.argv[1]) and not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
ended = time.time()
db.execute(sys.argv[4])
db.execute("COMMIT")
print(began, ended, sep=", ", file=open(sys.argv[2], "w"))
END
	holder=$!
	eventually test -e "$TMP/$1.held"
}

# More than one tick of that time is there.
meanwhile() { # NAME
	echo "len({s['timestamp'] for s in d if $(sed 's/, / < s["timestamp"] < /' "$TMP/$1")}) > 1"
}

# ---- a lock that is held for seconds ----
check "a daemon starts" start_daemon
"$PROCTOR" run -q --job locked -- sh -c "$(gate locked)" &
runner=$!
eventually has_samples locked
hold lock
check "its ticks wait" eventually ticks_wait
eventually grep -q "cannot record.*$holder" "$PROCTOR_HOME/daemon.log"
pass lock
wait "$holder"
check "until they can be stored" eventually none_waits
pass locked
wait "$runner"
is "the job does not notice" $? 0
check "the daemon ends" "$PROCTOR" stop
log=$(cat "$PROCTOR_HOME/daemon.log")
like "it is said, with who holds it" "$log" "cannot record, and goes on: .* is locked by .*$holder"
is "once" "$(grep -c "cannot record.*$holder" "$PROCTOR_HOME/daemon.log")" 1
like "and that it is over" "$log" "can record again"
unlike "nothing is lost" "$log" "are lost"
run "$PROCTOR" history --job locked --json
json "no gap is left" "$stdout" "$(meanwhile lock)"
json "and no tick is there twice" "$stdout" \
	'len({(s["timestamp"], s["pid"]) for s in d}) == len(d)'

# ---- an attempt that is removed while its ticks wait ----
check "a daemon starts once more" start_daemon
"$PROCTOR" run -q --job removed -- sh -c "$(gate both)" 2>/dev/null &
removed=$!
"$PROCTOR" run -q --job stays -- sh -c "$(gate both)" &
runner=$!
eventually has_samples removed
eventually has_samples stays
hold removal "DELETE FROM attempts WHERE job = (SELECT id FROM jobs WHERE job_id = 'removed')"
eventually ticks_wait
pass removal
wait "$holder"
check "the ticks of both are done with" eventually none_waits
pass both
wait "$runner"
wait "$removed"
"$PROCTOR" stop
unlike "no tick is lost for that" "$(cat "$PROCTOR_HOME/daemon.log")" "ticks are lost"
run "$PROCTOR" history --job stays --json
json "what is of the other job is there, without a gap" "$stdout" "$(meanwhile removal)"

# ---- a lock that outlives the job ----
check "a daemon starts again" start_daemon
"$PROCTOR" run -q --job outlived -- sh -c "$(gate outlived)" 2>/dev/null &
runner=$!
eventually has_samples outlived
hold long
eventually ticks_wait
pass outlived
wait "$runner"
pass long
wait "$holder"
eventually none_waits # no job runs any more
run "$PROCTOR" status --json
kill -9 "$(json_eval "$stdout" 'd["pid"]')"
run "$PROCTOR" history --job outlived --json
json "what waited is stored without another job" "$stdout" "$(meanwhile long)"

# ---- a disk that is full for a while ----

# The log of the daemon says it after each gap: a line that is short enough may fit in between.
lines_lacking() { # DAEMON-LOG
	sed -n 's/.*the log lacks \([0-9]*\) snapshots.*/\1/p' "$1" | awk '{ n += $1 } END { print n + 0 }'
}
is_lack_told() {
	local n
	n=$(lines_lacking "$TMP/small/daemon.log")
	[ "$n" -gt 0 ] && [ "$(status_of "d['log_lines_lost'] == $n")" = True ]
}
full_disk() {
	mount -t tmpfs -o size=6m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	start_daemon >/dev/null || exit 1
	"$PROCTOR" run -q --job full -- sh -c "$(gate full)" 2>/dev/null &
	runner=$!
	eventually has_samples full
	head -c 8m /dev/zero >"$TMP/small/filler" 2>/dev/null
	began=$EPOCHREALTIME
	eventually ticks_wait
	"$PROCTOR" status --json >"$TMP/status-full"
	"$PROCTOR" doctor >"$TMP/doctor-full"
	echo "$began, $EPOCHREALTIME" >"$TMP/disk"
	rm "$TMP/small/filler"
	eventually none_waits
	eventually is_lack_told
	"$PROCTOR" status --json >"$TMP/status-after"
	cp "$TMP/small/daemon.log" "$TMP/small/proctor.jsonl" "$TMP"
	pass full
	wait "$runner"
	echo $? >"$TMP/status"
	"$PROCTOR" stop >/dev/null
	"$PROCTOR" history --job full --json >"$TMP/history"
	"$PROCTOR" jobs --json >"$TMP/jobs"
	python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone()[0])' \
		"$TMP/small/proctor.db" >"$TMP/check"
}
mkdir "$TMP/small"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	(
		export TMP PROCTOR
		export -f full_disk lines_lacking is_lack_told start_daemon status_of has_samples ticks_wait none_waits json_eval gate pass eventually
		unshare -m bash -c full_disk
	)
	if [ $? = 77 ]; then
		skip "a full disk" "no tmpfs can be mounted here"
	else
		is "the job does not notice a full disk" "$(cat "$TMP/status")" 0
		json "status says that nothing is recorded, why, and how much waits" \
			"$(cat "$TMP/status-full")" \
			'd["recording"] is False and "cannot grow" in d["recording_error"] and d["ticks_waiting"] > 1 and d["ticks_lost"] == 0'
		json "what the log lacks is counted" "$(cat "$TMP/status-after")" \
			"d[\"log_lines_lost\"] == $(lines_lacking "$TMP/daemon.log") > 0"
		like "and doctor that there is no room" "$(cat "$TMP/doctor-full")" \
			'folder +broken .*its disk is full'
		is "the database is sound" "$(cat "$TMP/check")" ok
		json "what was seen meanwhile is there" "$(cat "$TMP/history")" "$(meanwhile disk)"
		json "and the outcome" "$(cat "$TMP/jobs")" \
			'[j["outcome"] for j in d if j["job_id"] == "full"] == ["success"]'
	fi
else
	skip "a full disk" "only root can mount a small one"
fi
finish
