#!/bin/bash
# The database is locked, gone or cannot be written, or its disk is full, while a job runs: the job does not
# notice, and its end is there as soon as it can be, once, with all of its samples that need not be lost.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"

# sampled JOB NAME: no sample of it is there twice, and some are of the time in which NAME held the database.
sampled() {
	run "$PROCTOR" history --job "$1" --json
	json "$2: no gap is left" "$stdout" "$(meanwhile "$2")"
	json "$2: no sample is there twice" "$stdout" 'len({(s["timestamp"], s["pid"]) for s in d}) == len(d)'
}

# ended NAME JOB END: how it ended is there, once.
ended() {
	is "$1: its end is there, once" "$(becomes "$3" ends_of "$2")" "$3"
}

# In the background, as most wait for something; its streams and its status are in $TMP/JOB.*.
begin() { # JOB COMMAND [ARG...]
	local job=$1
	shift
	("$PROCTOR" run --interval 0.1 --job "$job" -- "$@" >"$TMP/$job.out" 2>"$TMP/$job.err"
		echo $? >"$TMP/$job.status") &
	runner=$!
}

passed_on() { # NAME JOB STATUS
	wait "$runner"
	is "$1: its status and output are passed on" "$(cat "$TMP/$2.status" "$TMP/$2.out")" "$3"$'\nout'
}

# ---- locks ----
"$PROCTOR" run -q --job same -- true
begin locked sh -c "$(gate locked); echo out; exit 4"
eventually has_ticks locked 3
hold_database while
sleep 2 # in which there are samples
release_database while
is_behind() { # the last sample is later than the lock
	[ "$(json_eval "$("$PROCTOR" history --job locked --json)" \
		"d[0]['timestamp'] < ($(cat "$TMP/held.while"))[0] and d[-1]['timestamp'] > ($(cat "$TMP/held.while"))[1]")" = True ]
}
check "while: it is recorded before and after" eventually is_behind
pass locked
passed_on while locked 4
ended while locked "1 failure 4"
sampled locked while

# From before the beginning, to after the end.
hold_database whole
run "$PROCTOR" run --json --job same -- sh -c 'echo out >&2; exit 3'
is "whole: its status is passed on" "$status" 3
like "whole: and what it prints" "$stderr" '^out$'
json "whole: the printed report is of this attempt" "$stdout" 'd["exit_code"] == 3 and d["attempt"] != 1'
run "$PROCTOR" jobs --json
is "whole: readers are not affected" "$status" 0
json "whole: the attempt before it is unchanged" "$stdout" \
	'[j["outcome"] for j in d if j["job_id"] == "same" and j["attempt"] == 1] in ([], ["success"])'
release_database whole
ended whole same "1 success 0; 2 failure 3"
is "whole: no warning remains" "$("$PROCTOR" jobs 2>&1 >/dev/null)" ""
run "$PROCTOR" report same --json
json "whole: with what it used" "$stdout" \
	'd["exit_code"] == 3 and d["wall_seconds"] > 0 and d["total_cpu_seconds"] is not None'

# From the midst of it to after the end: samples are there, or the report states that they are missing.
begin outlived sh -c "$(gate outlived); echo out; exit 5"
eventually has_ticks outlived 3
hold_database outlived.lock
sleep 1
pass outlived
passed_on outlived outlived 5
release_database outlived.lock
ended outlived outlived "1 failure 5"
run "$PROCTOR" history --job outlived --json
samples=$stdout
run "$PROCTOR" report outlived --json
json "outlived: samples are there, or the report states that some are missing" "[$samples, $stdout]" \
	"(lambda d: $(meanwhile outlived.lock))(d[0]) or any(u['what'] == 'history' for u in d[1]['unknown'])"

# ---- a database that goes away under a run ----
for how in moved deleted; do
	begin $how sh -c "$(gate $how); echo out; exit 6"
	eventually has_ticks $how 3
	if [ $how = moved ]; then
		move_database "$TMP/moved"
	else
		rm -f "$PROCTOR_HOME"/proctor.db "$PROCTOR_HOME"/proctor.db-wal "$PROCTOR_HOME"/proctor.db-shm
	fi
	check "$how: it goes on in a new one, long before its end" eventually has_ticks $how 3
	pass $how
	passed_on $how $how 6
	ended $how $how "1 failure 6"
done

# ---- a folder that cannot be written ----
if [ "$(id -u)" -eq 0 ] && setpriv --reuid 65534 --clear-groups true 2>/dev/null; then
	nobody=(setpriv --reuid 65534 --clear-groups)
	cp "$PROCTOR" "$TMP/proctor"
	PROCTOR=$TMP/proctor
else
	nobody=(env)
fi
chmod 755 "$TMP"
export PROCTOR_HOME=$TMP/closed
mkdir "$PROCTOR_HOME"
[ "$(id -u)" -ne 0 ] || chown 65534 "$PROCTOR_HOME"
"${nobody[@]}" "$PROCTOR" run -q --interval 0.1 --job closed -- sh -c "$(gate closed); echo out; exit 7" >"$TMP/closed.out" 2>/dev/null &
runner=$!
has_closed_ticks() { # N
	[ "$(json_eval "$("${nobody[@]}" "$PROCTOR" history --job closed --json 2>/dev/null)" "len(d) >= $1")" = True ]
}
check "closed: a run is recorded" eventually has_closed_ticks 3
chmod 500 "$PROCTOR_HOME"
pass closed
wait "$runner"
is "closed: its status and output are passed on" "$?$(cat "$TMP/closed.out")" 7out
run "${nobody[@]}" "$PROCTOR" run --job never -- sh -c 'echo out; exit 8'
is "closed: so are those of one that begins then" "$status$stdout" 8out
chmod 700 "$PROCTOR_HOME"
closed_ends() {
	json_eval "$("${nobody[@]}" "$PROCTOR" jobs --all --json 2>/dev/null)" \
		"'; '.join('%s %s %s' % (j['attempt'], j['outcome'] or j['status'], j['exit_code']) for j in d if j['job_id'] == 'closed')"
}
is "closed: its end is there, once" "$(becomes "1 failure 7" closed_ends)" "1 failure 7"
mkdir -m 500 "$TMP/readonly"
[ "$(id -u)" -ne 0 ] || chown 65534 "$TMP/readonly"
run env PROCTOR_HOME="$TMP/readonly" "${nobody[@]}" "$PROCTOR" run --json --job never -- sh -c 'echo out >&2; exit 9'
is "from the beginning: a command runs all the same" "$status" 9
json "from the beginning: and its report has its end" "$stdout" 'd["exit_code"] == 9'
like "from the beginning: with what it printed, and why nothing is recorded" "$(paste -sd' ' <<<"$stderr")" \
	"out.*not recorded.*$TMP/readonly"
export PROCTOR_HOME=$TMP/home

# ---- a disk that is full ----
if ! small_disk 6m; then
	skip "a full disk" "only root can mount a small one, where there are mount namespaces"
	finish
fi
"$PROCTOR" run -q --job before -- true
begin awhile sh -c "$(gate awhile); echo out; exit 2"
eventually has_ticks awhile 3
fill_disk
began=$EPOCHREALTIME
sleep 2 # in which there are samples that have to wait
rm "$PROCTOR_HOME/filler"
echo "$began, $EPOCHREALTIME" >"$TMP/held.awhile"
is_behind() {
	[ "$(json_eval "$("$PROCTOR" history --job awhile --json)" "d[-1]['timestamp'] > $EPOCHREALTIME - 2")" = True ]
}
check "awhile: recording goes on" eventually is_behind
pass awhile
passed_on awhile awhile 2
ended awhile awhile "1 failure 2"
sampled awhile awhile

fill_disk
run "$PROCTOR" run --job short -- sh -c 'echo out; exit 3'
is "full: the status and output of one that begins on it are passed on" "$status$stdout" 3out
rm "$PROCTOR_HOME/filler"
begin long sh -c "$(gate long); sleep 1.5; echo out; exit 4"
eventually has_ticks long 4
fill_disk
pass long
passed_on full long 4
run "$PROCTOR" jobs --all --json
is "full: what was recorded before can be read" "$status" 0
json "full: all of it" "$stdout" '"before" in [j["job_id"] for j in d]'
rm -f "$PROCTOR_HOME/proctor.db-shm"
fill_disk
run "$PROCTOR" jobs --all --json
json "full: also by who is the first to use it" "$stdout" '"before" in [j["job_id"] for j in d]'
rm "$PROCTOR_HOME/filler"
ended full short "1 failure 3"
ended full long "1 failure 4"
ended full before "1 success 0"
is "full: no warning remains" "$("$PROCTOR" jobs 2>&1 >/dev/null)" ""
run "$PROCTOR" report long --json
json "full: the report has what the run knew" "$stdout" \
	'd["wall_seconds"] > 1.4 and len(d["series"]) > 3 and d["sheet_metrics"]["1"]["exit_code"] == 4'
run "$PROCTOR" doctor
like "full: the database is sound" "$stdout" 'database +ok'
leave_small_disk

finish
