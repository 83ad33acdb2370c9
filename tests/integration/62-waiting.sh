#!/bin/bash
# The database is locked, or its disk is full, while a job runs: nothing of it is lost that need be.
. "$(dirname "$0")/lib.sh"

says() { # TEXT: the run that writes to $TMP/said
	grep -q -- "$1" "$TMP/said"
}

# meanwhile FILE: of a history, that there are samples of the time that the file has, as "from, to".
meanwhile() {
	echo "len({s['timestamp'] for s in d if $(sed 's/, / < s["timestamp"] < /' "$1")}) > 1"
}

# ---- a lock that is held for seconds ----
"$PROCTOR" run -q --job first -- true
"$PROCTOR" run --interval 0.1 --job locked -- sh -c "$(gate locked)" 2>"$TMP/said" &
runner=$!
eventually has_ticks locked 3
python3 - "$PROCTOR_HOME/proctor.db" "$TMP/lock" "$TMP/passed.lock" <<'END' &
import os, sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
began = time.time()
while os.path.exists(sys.argv[1]) and not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
print(began, time.time(), sep=", ", file=open(sys.argv[2], "w"))
db.execute("ROLLBACK")
END
holder=$!
eventually says "recording waits"
sleep 2 # in which there are samples that have to wait
pass lock
wait $holder
eventually says "recording goes on"
is_behind() { # of what waited: the last tick is later than the lock
	[ "$(json_eval "$("$PROCTOR" history --job locked --json)" \
		"d[-1]['timestamp'] > ($(cat "$TMP/lock"))[1]")" = True ]
}
eventually is_behind
pass locked
wait $runner
is "the job does not notice" $? 0
said=$(cat "$TMP/said")
like "it is said" "$said" "recording waits, and the job goes on"
like "with who holds it" "$said" "$holder"
like "and that it is over" "$said" "recording goes on; the database has every tick"
is "once" "$(grep -c "recording waits" "$TMP/said")" 1
run "$PROCTOR" history --job locked --json
json "no gap is left" "$stdout" "$(meanwhile "$TMP/lock")"
json "from the beginning to the end" "$stdout" \
	"(lambda began, ended: d[0]['timestamp'] < began and d[-1]['timestamp'] > ended)($(cat "$TMP/lock"))"

# ---- one that cannot be written at all, and has an earlier attempt of the same job ----
"$PROCTOR" run -q --job same -- true
hold_database same
run "$PROCTOR" run -q --json --job same -- sh -c 'exit 3'
json "what a run tells is never of the attempt before it" "$stdout" 'd["exit_code"] == 3'
pass same
wait "$holder"

# ---- a database that is moved away under a run ----
has_samples() { # JOB
	[ "$(json_eval "$("$PROCTOR" history --job "$1" --json)" 'len(d) > 2')" = True ]
}
"$PROCTOR" run -q --interval 0.1 --job moved -- sh -c "$(gate moved)" 2>"$TMP/said" &
runner=$!
eventually has_samples moved
mkdir "$TMP/moved"
mv "$PROCTOR_HOME"/proctor.db* "$TMP/moved/"
check "it goes on in a new one, long before its end" eventually has_samples moved
pass moved
wait $runner
is "and says so once" "$(grep -c "was removed or replaced: this run is recorded anew" "$TMP/said")" 1
run "$PROCTOR" report moved --json
json "its end is there, and that samples are elsewhere" "$stdout" \
	'd["outcome"] == "success" and [u["what"] for u in d["unknown"]].count("history") == 1'

# ---- a lock that outlives the run ----
python3 - "$PROCTOR_HOME/proctor.db" "$TMP/holds" <<'END' &
import os, sqlite3, sys, time
while not os.path.exists(sys.argv[2] + ".now"):
    time.sleep(0.05)
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w")
time.sleep(60)
END
holder=$!
"$PROCTOR" run --syscalls=sampled --interval 0.2 --job outlived -- sh -c '
	sleep 1; touch "$0.now"; while ! [ -e "$0" ]; do sleep 0.1; done; sleep 1' \
	"$TMP/holds" 2>"$TMP/said"
kill $holder
wait $holder 2>/dev/null
like "how many ticks are lost is said" "$(cat "$TMP/said")" 'not fully recorded \([0-9]+ ticks are lost\)'
run "$PROCTOR" report outlived --json
json "the report says it" "$stdout" \
	'[u["why"] for u in d["unknown"] if u["what"] == "history"][0].endswith("ticks could not be stored")'
json "and of system calls nothing that is not so" "$stdout" \
	'len([u for u in d["unknown"] if u["what"] in ("syscalls", "syscall_hotspots")]) <= 1'

# ---- a disk that is full for a while ----
full_disk() {
	mount -t tmpfs -o size=4m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	"$PROCTOR" run -q --job before -- true
	"$PROCTOR" run --interval 0.1 --job full -- sh -c "$(gate full)" 2>"$TMP/said" &
	runner=$!
	eventually has_ticks full 3
	head -c 8m /dev/zero >"$TMP/small/filler" 2>/dev/null
	eventually says "recording waits"
	began=$EPOCHREALTIME
	sleep 2 # in which there are samples that have to wait
	echo "$began, $EPOCHREALTIME" >"$TMP/disk"
	rm "$TMP/small/filler"
	eventually says "recording goes on"
	pass full
	wait "$runner"
	echo $? >"$TMP/status"
	"$PROCTOR" history --job full --json >"$TMP/history"
	"$PROCTOR" jobs --json >"$TMP/jobs"
	python3 -c 'import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("PRAGMA integrity_check").fetchone()[0])' \
		"$TMP/small/proctor.db" >"$TMP/check"
}

# ---- a disk that is full to the end ----
full_to_the_end() {
	mount -t tmpfs -o size=4m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	"$PROCTOR" run -q --job before -- true
	head -c 8m /dev/zero >"$TMP/small/filler" 2>/dev/null
	"$PROCTOR" run --interval 0.1 --job short -- sh -c 'exit 3' 2>"$TMP/said-short"
	echo $? >"$TMP/status-short"
	rm "$TMP/small/filler"
	"$PROCTOR" run --interval 0.1 --job long -- sh -c "$(gate long); sleep 1.5; exit 4" 2>"$TMP/said-long" &
	runner=$!
	eventually has_ticks long 4
	head -c 8m /dev/zero >"$TMP/small/filler" 2>/dev/null
	pass long
	wait "$runner"
	echo $? >"$TMP/status-long"
	"$PROCTOR" jobs >"$TMP/jobs-full" 2>&1
	rm -f "$TMP/small/proctor.db-shm"
	head -c 8m /dev/zero >>"$TMP/small/filler" 2>/dev/null
	"$PROCTOR" jobs --all --json >"$TMP/jobs-alone" 2>"$TMP/said-alone"
	rm "$TMP/small/filler"
	for i in 1 2; do "$PROCTOR" jobs --all --json >"$TMP/jobs-$i" 2>"$TMP/said-$i"; done
	"$PROCTOR" report long --json >"$TMP/report"
	"$PROCTOR" doctor >"$TMP/doctor"
}
mkdir "$TMP/small"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	(
		export TMP PROCTOR
		export -f full_disk says has_ticks json_eval gate pass eventually
		unshare -m bash -c full_disk
	)
	if [ $? = 77 ]; then
		skip "a full disk" "no tmpfs can be mounted here"
	else
		is "the job does not notice a full disk" "$(cat "$TMP/status")" 0
		said=$(cat "$TMP/said")
		like "it is said" "$said" "recording waits, and the job goes on"
		like "and that it is over" "$said" "recording goes on"
		is "once" "$(grep -c "recording waits" "$TMP/said")" 1
		json "the database is sound" "{\"check\": \"$(cat "$TMP/check")\"}" 'd["check"] == "ok"'
		json "recording went on by itself" "$(cat "$TMP/history")" "$(meanwhile "$TMP/disk")"
		json "and the outcome is there" "$(cat "$TMP/jobs")" \
			'[j["outcome"] for j in d if j["job_id"] == "full"] == ["success"]'
	fi
	(
		export TMP PROCTOR
		export -f full_to_the_end has_ticks json_eval gate pass eventually
		unshare -m bash -c full_to_the_end
	)
	if [ $? = 77 ]; then
		skip "a disk that is full to the end" "no tmpfs can be mounted here"
	else
		is "full to the end: statuses pass" "$(cat "$TMP/status-short" "$TMP/status-long")" $'3\n4'
		for job in short long; do
			like "full to the end: $job says where its end is" "$(cat "$TMP/said-$job")" \
				"how this run ended is kept beside the database"
		done
		like "full to the end: it may look lost, and why is said" "$(cat "$TMP/jobs-full")" \
			"waits in .*proctor.db-spool until the database can be written"
		json "full to the end: it can be read also by who is the first to use it" "$(cat "$TMP/jobs-alone")" \
			'"before" in [j["job_id"] for j in d]'
		for i in 1 2; do
			json "full to the end: with room all is there, once ($i)" "$(cat "$TMP/jobs-$i")" \
				'sorted((j["job_id"], j["attempt"], j["outcome"], j["exit_code"]) for j in d) == [("before", 1, "success", 0), ("long", 1, "failure", 4), ("short", 1, "failure", 3)]'
			is "full to the end: nothing is left to say ($i)" "$(cat "$TMP/said-$i")" ""
		done
		json "full to the end: the report has what the run knew" "$(cat "$TMP/report")" \
			'd["wall_seconds"] > 1.4 and len(d["series"]) > 3 and d["sheet_metrics"]["1"]["exit_code"] == 4'
		like "full to the end: the database is sound" "$(cat "$TMP/doctor")" 'database +ok'
	fi
else
	skip "a full disk" "needs root and mount namespaces"
fi

finish
