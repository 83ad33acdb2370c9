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

"$PROCTOR" run -q --job first -- true
slowly 3000 "$PROCTOR" run -q --interval 0.2 --job slow -- sleep 6
is "a run ends as its command does" $? 0
gaps "a run goes on looking" slow
run "$PROCTOR" report slow --json
json "and says of nothing that it is lost" "$stdout" '"history" not in [u["what"] for u in d["unknown"]]'

export PROCTOR_HOME=$TMP/new
slowly 500 "$PROCTOR" run --interval 0.2 --job new -- sleep 6 2>"$TMP/said"
is "with a database that is still to be made" $? 0
gaps "it goes on looking too" new

# The daemon looks for the run.
export PROCTOR_HOME=$TMP/home
echo "interval_seconds: 0.2" >"$PROCTOR_HOME/proctor.yaml"
slowly 3000 "$PROCTOR" start
"$PROCTOR" run -q --interval 0.2 --job watched -- sleep 8
run "$PROCTOR" status --json
json "the daemon has been there" "$stdout" 'd["pid"] > 0'
gaps "a daemon goes on looking" watched
"$PROCTOR" stop >/dev/null
run "$PROCTOR" doctor
is "all is sound" "$status" 0
finish
