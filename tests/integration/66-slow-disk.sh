#!/bin/bash
# A disk that takes seconds for each sync: processes are looked at all the same, and nothing is lost.
. "$(dirname "$0")/lib.sh"

SLOW_DISK=$PROCTOR_BUILD/tests/integration/libslow_disk.so
if ldd "$PROCTOR" | grep -q asan; then
	SLOW_DISK="$(gcc -print-file-name=libasan.so) $SLOW_DISK"
fi

# slowly MS COMMAND...: on a disk that takes so long.
slowly() {
	local ms=$1
	shift
	SLOW_DISK_MS=$ms LD_PRELOAD=$SLOW_DISK "$@"
}

# gaps NAME JOB: less than half of what the disk takes for one sync, which is 3 s.
gaps() {
	run "$PROCTOR" history --job "$2" --json
	json "$1" "$stdout" 'max(b["timestamp"] - a["timestamp"] for a, b in zip(d, d[1:])) < 1.5'
	json "$1, to its end" "$stdout" 'd[-1]["timestamp"] - d[0]["timestamp"] > 4'
}

# nothing_lost NAME JOB
nothing_lost() {
	run "$PROCTOR" report "$2" --json
	json "$1" "$stdout" 'd["outcome"] == "success" and "history" not in [u["what"] for u in d["unknown"]]'
}

# set_meta KEY VALUE, get_meta KEY
set_meta() {
	python3 - "$PROCTOR_HOME/proctor.db" "$@" <<-'END'
		import sqlite3, sys
		with sqlite3.connect(sys.argv[1]) as db:
		    db.execute("UPDATE meta SET value = ? WHERE key = ?", (int(sys.argv[3]), sys.argv[2]))
	END
}

get_meta() {
	python3 - "$PROCTOR_HOME/proctor.db" "$1" <<-'END'
		import sqlite3, sys
		db = sqlite3.connect(sys.argv[1])
		print(db.execute("SELECT value FROM meta WHERE key = ?", sys.argv[2:]).fetchone()[0])
	END
}

# begin NAME COMMAND...: in the background and a home of its own, beside others that only wait as well.
begin() {
	local name=$1
	shift
	(
		PROCTOR_HOME=$TMP/$name "$@" </dev/null >/dev/null 2>"$TMP/$name.said"
		echo $? >"$TMP/$name.status"
	) &
}

# status_in NAME: of what was begun there, which is the home from now on.
status_in() {
	export PROCTOR_HOME=$TMP/$1
	status=$(cat "$TMP/$1.status")
}

# after_another COMMAND...: where there is a database already.
after_another() {
	"$PROCTOR" run -q --job first -- true
	"$@"
}

run_due() {
	set_meta retained_ns 1
	slowly 150 "$PROCTOR" run -q --interval 0.2 --job due -- sleep 6
}

cat >"$TMP/first.yaml" <<-'END'
	job_id: first
	sheets:
	  - run: "true"
	  - run: sleep 1000
	    timeout: 1s
END

begin slow after_another slowly 3000 "$PROCTOR" run --interval 0.2 --job slow -- sleep 6
begin stuck after_another slowly 60000 timeout 40 "$PROCTOR" run --interval 0.2 --job stuck -- sleep 1
begin due after_another run_due
begin first slowly 3000 "$PROCTOR" run -q -f "$TMP/first.yaml"
begin made slowly 1500 "$PROCTOR" run --interval 0.2 --job made -- sleep 15
begin new slowly 150 "$PROCTOR" run -q --interval 0.2 --job new -- sleep 6
wait

# ---- a run ----

status_in slow
is "a run ends as its command does" "$status" 0
gaps "a run goes on looking" slow
nothing_lost "and says of nothing that it is lost" slow
is "that the disk is slow is said once" "$(grep -c 'the disk takes [0-9.]* s for what is recorded' "$TMP/slow.said")" 1

# An end that waited for this disk would come after a minute; and so would a log that begins.
status_in stuck
is "the end of a run does not wait for ever" "$status" 0
like "and says that not all is on the disk" "$(cat "$TMP/stuck.said")" \
	'the disk has not taken the last of what was recorded yet'
nothing_lost "which outlives it" stuck

# Here the loop waits a few times, and goes on where it should be by then.
status_in due
is "retention is due" "$status" 0
check "and done" test "$(get_meta retained_ns)" -gt 1
run "$PROCTOR" history --job due --json
json "the run goes on looking" "$stdout" 'len(d) > 15 and d[-1]["timestamp"] - d[0]["timestamp"] > 4'
nothing_lost "and nothing is lost" due

# ---- the first run ----

# What the disk takes for the database is longer than all of this: a signal, a timeout and the next
# sheet are for the job, and do not wait for it.
status_in first
run "$PROCTOR" sql --json 'SELECT (started_wall_ns - min(started_wall_ns) OVER ()) / 1e9 AS began, wall_ns / 1e9 AS wall
	FROM sheets ORDER BY num'
json "of a first run a timeout is on time" "$stdout" '1 <= d[1]["wall"] < 10'
json "and the next sheet begins at once" "$stdout" 'd[1]["began"] < 10'
run "$PROCTOR" report first --json
json "it has ended when its command did" "$stdout" 'd["outcome"] == "timeout" and d["ended"] - d["started"] < 12'

status_in made
is "it ends as its command does" "$status" 0
run "$PROCTOR" history --job made --json
json "it has looked from the beginning" "$stdout" 'len(d) > 15 and d[0]["age_seconds"] < 5'
json "and gone on looking" "$stdout" 'max(b["timestamp"] - a["timestamp"] for a, b in zip(d, d[1:])) < 5'
nothing_lost "nothing of it is lost" made

status_in new
is "with a database that is still to be made" "$status" 0
run "$PROCTOR" history --job new --json
json "all is recorded" "$stdout" 'len(d) > 10 and d[-1]["timestamp"] - d[0]["timestamp"] > 2'
nothing_lost "and nothing of it is lost" new

# ---- the log ----

# longest PID: of the log, while the process is there.
longest() {
	local most=0 bytes
	while kill -0 "$1" 2>/dev/null; do
		bytes=$(stat -c %s "$PROCTOR_HOME/proctor.db-wal" 2>/dev/null || echo 0)
		most=$((bytes > most ? bytes : most))
		sleep 0.1
	done
	echo "$most"
}

slowly 150 "$PROCTOR" run -q --interval 0.1 --job many -- \
	sh -c 'for i in $(seq 300); do sleep 20 & done; wait' &
most=$(longest $!)
echo "# the log had $most bytes at most"
check "the log gets long" test "$most" -ge $((256 * 4096))
check "and begins anew" test "$most" -le $((2 * 256 * 4120))
nothing_lost "with all that was seen" many

# ---- a daemon ----

export PROCTOR_HOME=$TMP/home
"$PROCTOR" run -q --job first -- true
echo "interval_seconds: 0.2" >"$PROCTOR_HOME/proctor.yaml"
slowly 3000 "$PROCTOR" start
"$PROCTOR" run -q --interval 0.2 --job watched -- sleep 10
run "$PROCTOR" status --json
json "the daemon has been there" "$stdout" 'd["pid"] > 0'
json "and tells how long its disk takes" "$stdout" 'd["disk_wait_seconds"] > 2'
gaps "a daemon goes on looking" watched
"$PROCTOR" stop >/dev/null
run "$PROCTOR" doctor
is "all is sound" "$status" 0
finish
