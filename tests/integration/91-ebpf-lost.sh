#!/bin/bash
# What a report says where a daemon with eBPF could not hear of all ends: it stood still, or was killed.
. "$(dirname "$0")/lib.sh"
mkdir -p "$PROCTOR_HOME"
daemon=
trap '[ -z "$daemon" ] || kill -CONT "$daemon" 2>/dev/null; "$PROCTOR" stop --jobs 2>/dev/null; rm -rf "$TMP"' EXIT

start_daemon() {
	"$PROCTOR" start >/dev/null
	run "$PROCTOR" status --json
	daemon=$(json_eval "$stdout" 'd["pid"]')
}

reasons() { # WORDS: how many of the reasons why processes are not known in full have these
	json_eval "$stdout" 'len([u for u in d["unknown"] if u["what"] == "processes" and "'"$1"'" in u["why"]])'
}

start_daemon
if [[ $(json_eval "$stdout" 'd["rungs"]["births, deaths, exit codes"]') != eBPF* ]]; then
	skip "a daemon that hears of ends through eBPF" "there is none here (see proctor doctor)"
	finish
fi

# ---- it stands still, and there are more ends than the kernel keeps for it ----

n_forks=8000
cat >"$TMP/forks.py" <<END
import os
for _ in range($n_forks):
    pid = os.fork()
    if pid == 0:
        os._exit(3)
    os.waitpid(pid, 0)
END
"$PROCTOR" run -q --job still -- sh -c "$(gate go); python3 $TMP/forks.py; : >$TMP/forked; $(gate end)" &
runner=$!
is_running() { "$PROCTOR" jobs --json | grep -q '"still"'; }
eventually is_running
kill -STOP "$daemon"
pass go
check "the daemon stands still while they end" eventually test -e "$TMP/forked"
kill -CONT "$daemon"
check "and goes on" eventually "$PROCTOR" status
pass end
wait $runner
is "the command is none the wiser" $? 0
run "$PROCTOR" status --json
json "it has counted what it missed" "$stdout" 'd["process_events_lost"] > 0'
run "$PROCTOR" report still --json
json "the runner has heard of them" "$stdout" 'd["process_spawn_count"] >= '$n_forks
json "but not all that each used" "$stdout" 'any(p["cpu_evidence"] != "exact" for p in d["processes"])'
# That news were lost, if it was followed all the time; or why it was not.
check "and the report says why" [ "$(reasons exact)" -gt 0 ]

# ---- it is gone ----

"$PROCTOR" run -q --job forsaken -- sh -c ": >$TMP/began; $(gate killed); /bin/true; :" &
runner=$!
eventually test -e "$TMP/began"
kill -9 "$daemon"
pass killed
wait $runner
run "$PROCTOR" report forsaken --json
check "that it was followed once, or never was" \
	[ "$(($(reasons 'was gone for a while') + $(reasons 'had not answered when the run began')))" = 1 ]

# ---- all is well ----

start_daemon
"$PROCTOR" run -q --job well -- sh -c '/bin/true; sleep 1; :'
run "$PROCTOR" report well --json
json "nothing is excused that is exact" "$stdout" \
	'any(p["cpu_evidence"] != "exact" for p in d["processes"]) or "processes" not in [u["what"] for u in d["unknown"]]'

finish
