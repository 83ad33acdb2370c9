#!/bin/bash
# The same beside a daemon: the database is locked, or its disk is full, and nothing of a job is lost.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"

# recorded NAME JOB END: its end is there, once, and samples of the time in which NAME held the database.
recorded() {
	is "$1: its end is there, once" "$(becomes "$3" ends_of "$2")" "$3"
	check "$1: no gap is left" eventually has_no_gap "$1" "$2"
	run "$PROCTOR" history --job "$2" --json
	json "$1: no sample is there twice" "$stdout" 'len({(s["timestamp"], s["pid"]) for s in d}) == len(d)'
}
has_no_gap() { # NAME JOB
	[ "$(json_eval "$("$PROCTOR" history --job "$2" --json)" "$(meanwhile "$1")")" = True ]
}

# ---- a lock that is held for seconds, and another that outlives the job ----
check "a daemon starts" start_daemon 'interval_seconds: 0.2'
"$PROCTOR" run -q --job locked -- sh -c "$(gate locked); exit 3" &
runner=$!
eventually has_ticks locked 3
hold_database while
sleep 2 # in which there are samples
is "while: the daemon answers" "$(status_of 'd["running_jobs"]')" 1
release_database while
eventually has_ticks locked "$(($(json_eval "$("$PROCTOR" history --job locked --json)" 'len({s["timestamp"] for s in d})') + 2))"
pass locked
wait "$runner"
is "while: the job does not notice" $? 3
recorded while locked "1 failure 3"

"$PROCTOR" run -q --job outlived -- sh -c "$(gate outlived); exit 4" 2>/dev/null &
runner=$!
eventually has_ticks outlived 3
hold_database after
sleep 2
pass outlived
wait "$runner"
is "after: the job does not notice" $? 4
release_database after
recorded after outlived "1 failure 4"
kill -9 "$(daemon_pid)"
recorded after outlived "1 failure 4" # all of it is there, though no daemon is

# ---- a disk that is full for a while ----
if ! small_disk 8m; then
	skip "a full disk" "only root can mount a small one, where there are mount namespaces"
	finish
fi
check "full: a daemon starts" start_daemon $'interval_seconds: 0.2\njsonl_path: proctor.jsonl'
"$PROCTOR" run -q --job full -- sh -c "$(gate full); exit 5" 2>/dev/null &
runner=$!
eventually has_ticks full 3
fill_disk
began=$EPOCHREALTIME
is_not_recording() { [ "$(status_of 'd["recording"] is False and len(d["recording_error"]) > 0')" = True ]; }
check "full: status shows that nothing is recorded, and why" eventually is_not_recording
run "$PROCTOR" doctor
like "full: doctor shows that there is no room" "$stdout" 'folder +broken .*its disk is full'
sleep 1
echo "$began, $EPOCHREALTIME" >"$TMP/held.full"
rm "$PROCTOR_HOME/filler"
is_recording() { [ "$(status_of 'd["recording"] and d["ticks_waiting"] == 0')" = True ]; }
check "full: with room it is recorded again" eventually is_recording
is "full: no tick is lost" "$(status_of 'd["ticks_lost"]')" 0
is "full: what the log of snapshots lacks is counted" "$(status_of 'd["log_lines_lost"] > 0')" True
pass full
wait "$runner"
is "full: the job does not notice" $? 5
recorded full full "1 failure 5"
run "$PROCTOR" doctor
like "full: the database is sound" "$stdout" 'database +ok'
"$PROCTOR" stop
leave_small_disk

finish
