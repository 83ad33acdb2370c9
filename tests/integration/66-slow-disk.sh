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

# begin NAME COMMAND...: in the background and a home of its own, beside others that only wait as well.
begin() {
	local name=$1
	shift
	(
		PROCTOR_HOME=$TMP/$name "$@" </dev/null >"$TMP/$name.out" 2>"$TMP/$name.said"
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

watch_by_daemon() {
	mkdir -p "$PROCTOR_HOME"
	echo "interval_seconds: 0.2" >"$PROCTOR_HOME/proctor.yaml"
	slowly 3000 "$PROCTOR" start
	"$PROCTOR" run -q --interval 0.2 --job watched -- sleep 9
	echo $?
	"$PROCTOR" status --json
	"$PROCTOR" stop
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
begin watched after_another watch_by_daemon
begin first slowly 3000 "$PROCTOR" run -q -f "$TMP/first.yaml"
begin made slowly 1500 "$PROCTOR" run --interval 0.2 --job made -- sleep 12
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

# ---- the first run ----

# What the disk takes for the database is longer than all of this: a signal, a timeout and the next
# sheet are for the job, and do not wait for it.
status_in first
run "$PROCTOR" report first --json
json "of a first run a timeout is on time" "$stdout" '1 <= d["sheet_metrics"]["2"]["wall_seconds"] < 10'
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

# ---- a daemon ----

status_in watched
{ read -r status && read -r stdout; } <"$TMP/watched.out"
is "a run that a daemon watches ends as its command does" "$status" 0
json "that disk is as slow" "$stdout" 'd["disk_wait_seconds"] > 2'
gaps "a daemon goes on looking" watched
nothing_lost "and nothing is lost" watched
run "$PROCTOR" doctor
is "all is sound" "$status" 0
finish

# ---- a disk that refuses ----

export PROCTOR_HOME=$TMP/refusing
SLOW_DISK_ERRORS=1 slowly 0 run "$PROCTOR" run --job refused -- true
is "where the disk refuses the end once it is written again" "$status" 0
unlike "and nothing is lost" "$stderr" 'is lost|not recorded'
nothing_lost "as the record has it" refused
SLOW_DISK_ERRORS=1 slowly 0 run "$PROCTOR" run --interval 0.1 --job refused -- sleep 1
is "where it refuses samples the run goes on" "$status" 0
like "and says so" "$stderr" 'the disk refuses what is recorded'
like "and when they are there" "$stderr" 'what was recorded is on the disk by now'
nothing_lost "and nothing of them is lost" refused
