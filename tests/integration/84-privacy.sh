#!/bin/bash
# What a user is told by root's daemon of jobs that are in no record of their own, and what is kept from everybody: programs
# that run with more rights than their user has.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/users.sh"

check "the daemon of the host starts" start_daemon 'interval_seconds: 0.3
access:
  read_group: readers'
has_news=$(status_of '"polling" not in d["rungs"]["births, deaths, exit codes"]')

# ---- what root's database alone has ----

mkfifo -m 644 "$TMP/go"
is_sampled() { [ "$(json_eval "$(as dave "$PROCTOR" history --job "$1" --json)" 'len(d) > 1')" = True ]; }
printf 'job_id: daves\nsheets:\n  - run: read -r _ <%s; sleep 3.4; sh -c "exit 3"; sleep 0.4\n' "$TMP/go" >"$TMP/daves.yaml"
chmod 644 "$TMP/daves.yaml"
run as dave "$PROCTOR" submit "$TMP/daves.yaml"
is "who has no database submits a job" "$status" 0
like "that what it prints will be lost is said at once" "$stderr" 'job daves: what it prints is lost: no folder .*Permission denied'
eventually is_sampled daves
echo >"$TMP/go"
as dave "$PROCTOR" wait daves >/dev/null
setpriv --reuid=dave --regid=dave --init-groups sh -c "read -r _ <$TMP/go; sleep 3.4; true" &
tree=$!
is_daves() { [ "$(stat -c %u "/proc/$tree")" = 4004 ]; }
eventually is_daves
run as dave "$PROCTOR" attach --pid "$tree" --job tree
is "and attaches a tree" "$status$stderr" 0
eventually is_sampled tree
echo >"$TMP/go"
wait "$tree"
as dave "$PROCTOR" wait tree >/dev/null
flat() { tr '\n' ' ' <<<"$stdout"; }
ends=success
end=job.completed
[ "$has_news" = True ] || ends='(success|-)' end='job.(completed|failed)' # who waited for it may not tell
for user in dave carol; do
	run as "$user" "$PROCTOR" jobs
	like "$user lists both" "$(flat)" " daves .* success .* tree .* $ends"
	run as "$user" "$PROCTOR" jobs --json
	json "$user's list is complete" "$stdout" \
		'[(j["job_id"], j["uid"]) for j in d if j["uid"] == 4004] == [("daves", 4004), ("tree", 4004)]'
	for job in daves tree; do
		run as "$user" "$PROCTOR" events --job "$job"
		like "$user sees what happened to $job" "$status $(flat)" "^0 TIME .*job.started .*spawn .*$end .* $job"
		run as "$user" "$PROCTOR" events --job "$job" --json
		like "as objects too ($user, $job)" "$stdout" '^{"event":"process.spawn",'
		[ "$has_news" != True ] ||
			like "with the end of each ($user, $job)" "$stdout" '^{"event":"process.exit",.*"exit_code":0'
		run as "$user" "$PROCTOR" history --job "$job"
		like "$user sees the samples of $job" "$status $(flat)" '^0 TIME .*sleep 3\.4'
		run as "$user" "$PROCTOR" history --job "$job" --json
		json "as objects, too" "$stdout" "len(d) > 1 and {p['job_id'] for p in d} == {'$job'}"
		run as "$user" "$PROCTOR" anomalies --job "$job" --json
		json "and what was out of the ordinary" "$status" 'd == 0'
		run as "$user" "$PROCTOR" report "$job"
		like "all sections of the report of $job are there" "$(flat)" 'Processes.*Life of the processes.*How it was measured'
	done
done
run as dave "$PROCTOR" report daves --format json
json "that what it printed is lost is said" "$stdout" \
	'[u["why"] for u in d["unknown"] if u["what"] == "output"][0].startswith("what the job prints is lost: ")'
if [ "$has_news" = True ]; then
	json "how each process ended is known" "$stdout" \
		'len(d["processes"]) == 4 and sorted(p["exit_code"] for p in d["processes"]) == [0, 0, 0, 3]'
	json "and when" "$stdout" 'all(p["born"] < p["died"] for p in d["processes"])'
else
	skip "how each process ended" "the kernel does not tell of births here"
fi
json "who measured is told" "$stdout" '"births, deaths, exit codes" in d["rungs"]'
run as bob "$PROCTOR" jobs --json
json "others do not see them" "$stdout" 'all(j["uid"] == 4002 for j in d)'
for verb in events history anomalies; do
	run as bob "$PROCTOR" "$verb" --job daves
	is "nor what became of them ($verb)" "$status" 1
done
for method in job.events job.samples job.anomalies; do
	json "nor by asking ($method)" "$(ask_as bob $method '{"job_id": "daves"}')" 'd["code"] == -32001'
done
json "nor the whole list" "$(ask_as bob job.attempts)" 'all(a["uid"] == 4002 for a in d["attempts"])'

# ---- whose ends one hears of ----

# In a job of alice's something runs as bob, who records it himself.
cp "$(command -v setpriv)" "$TMP/become" && chmod 4755 "$TMP/become"
# shellcheck disable=SC2016 # the shells inside know them
as alice "$PROCTOR" run -q --json --job outer -- sh -c '"$0" --reuid=4002 --regid=4002 --clear-groups env HOME="$1" "$2" run -q --job inner -- sh -c "
	i=0; while [ \$i -lt 40 ]; do (exit 3); sleep 0.005; i=\$((i + 1)); done; sleep 0.3"; exit 7' "$TMP/become" "$TMP/bob" "$PROCTOR" >"$TMP/outer.json"
run as bob "$PROCTOR" report inner --format json
if [ "$has_news" = True ]; then
	json "bob has how his processes ended, or why not" "$stdout" \
		'len([p for p in d["processes"] if p["exit_code"] == 3]) >= 36 or any("did not wait for it" in u["why"] for u in d["unknown"])'
	json "alice how hers did" "$(cat "$TMP/outer.json")" 'd["exit_code"] == 7 and d["outcome"] == "failure"'
	json "and of his not what they have read, written and called" "$(cat "$TMP/outer.json")" \
		'all(p["rchar"] is None and p["wchar"] is None and not p.get("syscalls") for p in d["processes"] if p["exit_code"] == 3)'
else
	skip "ends of other users" "the kernel does not tell of births here"
fi

# ---- what programs of root have done in a job of one's own ----

cp "$(readlink -f "$(command -v dd)")" "$TMP/sdd" && chmod 4755 "$TMP/sdd"
cp "$TMP/sdd" "$TMP/gdd" && chgrp readers "$TMP/gdd" && chmod 2755 "$TMP/gdd"
its='[p for p in d["processes"] if "sdd" in str(p["command"]) and not p["command"].startswith("sh ")]'
is_sampled_by_daemon() { # JOB of alice's
	[ "$(json_eval "$(ask_as alice daemon.top)" "any(p['job_id'] == '$1' for p in d['processes'])")" = True ]
}
keeps_secrets() { # RUNG NUMBER
	local source='(head -c 64m /dev/zero; sleep 0.6)' # each is there for some samples
	as alice "$PROCTOR" run -q --json --interval 0.1 --job "kept-$2" -- sh -c "$(gate "kept-$2")
		$source | $TMP/sdd of=/dev/null bs=16k 2>/dev/null
		$source | dd of=/dev/null bs=16k 2>/dev/null; sleep 0.5; true" >"$TMP/kept.json" &
	eventually is_sampled_by_daemon "kept-$2"
	pass "kept-$2"
	wait $!
	stdout=$(cat "$TMP/kept.json")
	json "by $1: one that is set-user-ID is listed" "$stdout" "len($its) == 1"
	# Until it was that program it was hers, and a busy machine may have looked by then.
	json "and what it has read, written and called is not told" "$stdout" \
		"(all((p[k] or 0) < 16384 for p in $its for k in ('rchar', 'wchar')) and
		not any(c['name'] in ('read', 'write') for p in $its for c in p.get('syscalls') or []))"
	json "which is said, of ends that are" "$stdout" \
		'any("set-user-ID" in u["why"] for u in d["unknown"]) or any("did not wait" in u["why"] for u in d["unknown"])'
}
copiers='[p for p in d[%s] if "of=/dev/null" in str(p["command"]) and not p["command"].startswith("sh ")]'
told_of() { # LIST METHOD [PARAMS]: whose I/O alice is told, of those that have read and go on
	# shellcheck disable=SC2059 # it has the place
	json_eval "$(ask_as alice "$2" "${3:-{\}}")" \
		"sorted({p['command'].split()[0].split('/')[-1]: (p['rchar'] or 0) >= 65536
		for p in sorted($(printf "$copiers" "'$1'"), key=lambda p: p['rchar'] or 0)}.items())"
}
keeps_secrets_meanwhile() { # RUNG NUMBER
	local expected="[('dd', True), ('gdd', False), ('sdd', False)]"
	rm -f "$TMP/alice/go"
	# shellcheck disable=SC2016 # the shell inside knows it
	as alice "$PROCTOR" run -q --job "secret-$2" -- sh -c 'for dd in "$@"; do
		{ head -c 131072 /dev/zero; while [ ! -e go ]; do sleep 0.1; done; } | "$dd" of=/dev/null bs=64k 2>/dev/null &
		done; wait' sh dd "$TMP/sdd" "$TMP/gdd" &
	local run=$!
	is "by $1: what programs with more rights read is not told while they do" \
		"$(becomes "$expected" told_of processes daemon.top)" "$expected"
	# shellcheck disable=SC2059
	json "nor what they call" "$(ask_as alice daemon.top)" \
		"all(p['syscall_counts'] is None for p in $(printf "$copiers" "'processes'") if not p['command'].startswith('dd '))"
	is "nor what they have read" "$(becomes "$expected" told_of samples job.samples "{\"job_id\": \"secret-$2\"}")" "$expected"
	touch "$TMP/alice/go"
	wait $run
}
# Of a tree that was attached, too: what each used is withheld, and not as if it had not been there.
counts_withheld() {
	local tree
	setpriv --reuid=alice --regid=alice --init-groups sh -c \
		"read -r _ <$TMP/go; $TMP/sdd if=/dev/zero count=9 of=/dev/null; $TMP/sdd if=/dev/zero count=9 of=/dev/null; true" \
		2>/dev/null &
	tree=$!
	is_alices() { [ "$(stat -c %u "/proc/$tree")" = 4001 ]; }
	eventually is_alices
	as alice "$PROCTOR" attach --pid "$tree" --job secrets
	echo >"$TMP/go"
	wait "$tree"
	as alice "$PROCTOR" wait secrets >/dev/null
	run as alice "$PROCTOR" report secrets --format json
	json "of an attached tree it is said how many ends are withheld" "$stdout" \
		'[u["why"].split()[0] for u in d["unknown"] if u["what"] == "processes" and "set-user-ID" in u["why"]] == ["2"]'
	json "and that its CPU time lacks them" "$stdout" 'any(u["what"] == "total_cpu_seconds" for u in d["unknown"])'
}
# Who signals a program with more rights is for root, in a run of hers and in a tree that was attached.
withholds_signals() {
	# shellcheck disable=SC2016 # the shell inside knows it
	as alice "$PROCTOR" run -q --job signals -- sh -c 'mkfifo line; exec 3<>line; for dd in dd "$1"; do
		"$dd" of=/dev/null <&3 2>/dev/null &
		done; wait' sh "$TMP/sdd" &
	local run=$! plain root
	reads_now() { plain=$(pgrep -u alice -x dd) && root=$(pgrep -u root -x sdd); }
	eventually reads_now
	kill -USR2 "$root" "$plain"
	wait $run
	run as alice "$PROCTOR" events --job signals --json
	json "a signal to a program of hers is recorded" "[$(grep '^{' <<<"$stdout" | paste -sd,)]" \
		"any(e['event'] == 'process.signal' and e['pid'] == $plain for e in d)"
	json "and none to one that is set-user-ID" "[$(grep '^{' <<<"$stdout" | paste -sd,)]" \
		"not any(e['event'] == 'process.signal' and e['pid'] == $root for e in d)"
}
if [ "$has_news" = True ]; then
	counts_withheld
	[[ $(status_of 'd["rungs"]["births, deaths, exit codes"]') == *eBPF* ]] && withholds_signals
	keeps_secrets "$(status_of 'd["rungs"]["births, deaths, exit codes"]')" 1
	keeps_secrets_meanwhile "$(status_of 'd["rungs"]["process samples"]')" 1
	"$PROCTOR" stop
	echo 'ebpf_enabled: false' >>/etc/proctor/proctor.yaml
	"$PROCTOR" start
	keeps_secrets "the rung below" 2
	# The daemon has heard of the shell before it looks the next time: it started all the others.
	if [[ $(status_of 'd["rungs"]["births, deaths, exit codes"]') == *taskstats ]]; then
		json "what is hers is, as far as that goes" "$stdout" \
			'([p["cpu_evidence"] for p in d["processes"] if str(p["command"]).startswith("dd ")] == ["at least"] or
			any("did not wait" in u["why"] for u in d["unknown"]))'
		json "and why it is not exact" "$stdout" \
			'(any("without eBPF" in u["why"] or "did not wait" in u["why"] for u in d["unknown"]) and
			not any("had not done with" in u["why"] for u in d["unknown"]))'
	fi
	keeps_secrets_meanwhile "proc/PID" 2
else
	skip "what programs of root have done" "the kernel does not tell of births here"
fi

# ---- what is found out about a program of root's in which something began ----

mkdir -m 700 "$TMP/vault"
touch "$TMP/vault/names"
cp "$(readlink -f "$(command -v bash)")" "$TMP/sbash" && chmod 4755 "$TMP/sbash"
# shellcheck disable=SC2016 # the shell inside knows them
hoard='for i in {3..41}; do eval "exec $i<\"$1\""; done; exec sleep 30'
began() { # JOB: what began in it, of the open files of a process
	json_eval "$(ask_as alice job.anomalies '{"job_id": "'"$1"'"}')" \
		'len([a for a in d["anomalies"] if a["anomaly_type"] == "fd_exhaustion"])'
}
hoards() { # JOB SHELL FILE: what alice is told when it is over
	# shellcheck disable=SC2016
	as alice sh -c 'ulimit -n 44; exec "$@"' - "$PROCTOR" run -q --job "$1" -- "$2" -p -c "$hoard" - "$3" &
	becomes 1 began "$1" >/dev/null
	as alice "$PROCTOR" cancel "$1" >/dev/null 2>&1
	wait $!
	ask_as alice job.anomalies '{"job_id": "'"$1"'"}'
}
touch "$TMP/alice/names"
told=$(hoards mine-open "$(command -v bash)" "$TMP/alice/names")
like "which files a program of hers has open alice is told" "$told" "alice/names"
told=$(hoards roots-open "$TMP/sbash" "$TMP/vault/names")
like "that one of root's in her job has too many, too" "$told" fd_exhaustion
unlike "but not which" "$told" vault

"$PROCTOR" stop
finish
