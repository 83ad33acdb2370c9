#!/bin/bash
# The same while a daemon records: its ticks wait as well.
. "$(dirname "$0")/lib.sh"

start_daemon() {
	mkdir -p "$PROCTOR_HOME"
	printf "interval_seconds: 0.2\nlimits:\n  max_daemon_cpu_percent: 100\n" >"$PROCTOR_HOME/proctor.yaml" # or a busy host has fewer ticks
	"$PROCTOR" start
}

# hold SECONDS: locks the database for so long; sets holder.
hold() {
	python3 - "$PROCTOR_HOME/proctor.db" "$1" <<'END' &
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
db.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))
db.execute("ROLLBACK")
END
	holder=$!
}

# ---- a lock that is held for seconds ----
check "a daemon starts" start_daemon
"$PROCTOR" run -q --job locked -- sleep 6 &
runner=$!
sleep 2
hold 3
wait "$runner"
is "the job does not notice" $? 0
wait "$holder"
for _ in $(seq 100); do
	grep -q "can record again" "$PROCTOR_HOME/daemon.log" && break
	sleep 0.1
done
check "the daemon ends" "$PROCTOR" stop
log=$(cat "$PROCTOR_HOME/daemon.log")
like "it is said, with who holds it" "$log" "cannot record, and goes on: .* is locked by .*$holder"
is "once" "$(grep -c "cannot record.*$holder" "$PROCTOR_HOME/daemon.log")" 1
like "and that it is over" "$log" "can record again"
unlike "nothing is lost" "$log" "are lost"
run "$PROCTOR" history --job locked --json
json "no gap is left" "$stdout" 'max(b["timestamp"] - a["timestamp"] for a, b in zip(d, d[1:])) < 1.5'
json "from the beginning to the end" "$stdout" 'd[-1]["timestamp"] - d[0]["timestamp"] > 4'
json "and no tick is there twice" "$stdout" \
	'len({(s["timestamp"], s["pid"]) for s in d}) == len(d)'

# ---- an attempt that is removed while its ticks wait ----
check "a daemon starts once more" start_daemon
"$PROCTOR" run -q --job removed -- sleep 7 2>/dev/null &
removed=$!
"$PROCTOR" run -q --job stays -- sleep 7 &
runner=$!
sleep 2
python3 - "$PROCTOR_HOME/proctor.db" <<'END'
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
db.execute("PRAGMA foreign_keys = ON")
db.execute("BEGIN IMMEDIATE")
time.sleep(3)
db.execute("DELETE FROM attempts WHERE job = (SELECT id FROM jobs WHERE job_id = 'removed')")
db.execute("COMMIT")
END
wait "$runner"
wait "$removed"
"$PROCTOR" stop
unlike "no tick is lost for that" "$(cat "$PROCTOR_HOME/daemon.log")" "ticks are lost"
run "$PROCTOR" history --job stays --json
json "what is of the other job is there, without a gap" "$stdout" \
	'max(b["timestamp"] - a["timestamp"] for a, b in zip(d, d[1:])) < 1.5 and d[-1]["timestamp"] - d[0]["timestamp"] > 5'

# ---- a lock that outlives the job ----
check "a daemon starts again" start_daemon
"$PROCTOR" run -q --job outlived -- sleep 4 2>/dev/null &
runner=$!
sleep 2
hold 4
wait "$runner"
wait "$holder"
for _ in $(seq 100); do # no job runs any more
	[ "$(grep -c "can record again" "$PROCTOR_HOME/daemon.log")" = 2 ] && break
	sleep 0.1
done
run "$PROCTOR" status --json
kill -9 "$(json_eval "$stdout" 'd["pid"]')"
run "$PROCTOR" history --job outlived --json
json "what waited is stored without another job" "$stdout" \
	'd[-1]["timestamp"] - d[0]["timestamp"] > 3.2'

# ---- a disk that is full for a while ----
full_disk() {
	mount -t tmpfs -o size=6m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	start_daemon >/dev/null || exit 1
	"$PROCTOR" run -q --job full -- sleep 6 2>/dev/null &
	runner=$!
	sleep 2
	head -c 8m /dev/zero >"$TMP/small/filler" 2>/dev/null
	for _ in $(seq 30); do
		"$PROCTOR" status --json >"$TMP/status-full"
		grep -q '"ticks_waiting":[2-9]' "$TMP/status-full" && break
		sleep 0.1
	done
	"$PROCTOR" doctor >"$TMP/doctor-full"
	rm "$TMP/small/filler"
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
		export -f full_disk start_daemon
		unshare -m bash -c full_disk
	)
	if [ $? = 77 ]; then
		skip "a full disk" "no tmpfs can be mounted here"
	else
		is "the job does not notice a full disk" "$(cat "$TMP/status")" 0
		json "status says that nothing is recorded, why, and how much waits" \
			"$(cat "$TMP/status-full")" \
			'd["recording"] is False and "cannot grow" in d["recording_error"] and d["ticks_waiting"] > 1 and d["ticks_lost"] == 0'
		like "and doctor that there is no room" "$(cat "$TMP/doctor-full")" \
			'folder +broken .*its disk is full'
		is "the database is sound" "$(cat "$TMP/check")" ok
		json "what was seen meanwhile is there" "$(cat "$TMP/history")" \
			'max(b["timestamp"] - a["timestamp"] for a, b in zip(d, d[1:])) < 1.5 and d[-1]["timestamp"] - d[0]["timestamp"] > 4'
		json "and the outcome" "$(cat "$TMP/jobs")" \
			'[j["outcome"] for j in d if j["job_id"] == "full"] == ["success"]'
	fi
else
	skip "a full disk" "only root can mount a small one"
fi
finish
