#!/bin/bash
# Bad things that happen to the database: damage, and locks that others hold.
. "$(dirname "$0")/lib.sh"
db=$PROCTOR_HOME/proctor.db
command='run "proctor doctor --repair", which moves it aside'

# A sound database with some jobs; all of it in the file, nothing in the log.
make_database() {
	rm -rf "$PROCTOR_HOME"
	for job in one two three; do
		"$PROCTOR" run -q --interval 0.1 --job $job -- sh -c 'sleep 0.3; /bin/true'
	done
	sql 'PRAGMA wal_checkpoint(TRUNCATE)'
	check "$1: there is a sound database" [ "$(sql 'PRAGMA integrity_check')" = ok ]
}

sql() { # SQL: prints the first value
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
print(*db.execute(sys.argv[2]).fetchone() or [""])' "$db" "$1" 2>/dev/null || true
}

# noise OFFSET BYTES FILE: overwrites a part of it.
noise() {
	head -c "$2" /dev/urandom | dd of="$3" bs=1 seek="$1" conv=notrunc status=none
}

aside() { # prints the one file that was moved aside
	ls "$db".damaged-*Z
}

# What was damaged is found, told, moved as it is and nothing more, and then a run records again.
check_damage() { # NAME WHAT-IS-SAID
	cp "$db" "$TMP/kept.db"
	run "$PROCTOR" doctor
	is "$1: doctor fails" "$status" 1
	like "$1: and says what is wrong and what to do" "$stdout" "^  database +broken +.*$2.*$command"
	run "$PROCTOR" doctor --json
	json "$1: also in JSON" "$stdout" \
		'[c["health"] for c in d["checks"] if c["name"] == "database"] == ["broken"]'
	check "$1: doctor changes nothing" cmp "$TMP/kept.db" "$db"
	run "$PROCTOR" run -q --job while -- sh -c 'exit 7'
	is "$1: a command runs all the same" "$status" 7
	cp "$db" "$TMP/kept.db" # that run may have written to what is still whole
	run "$PROCTOR" doctor --repair
	is "$1: it is moved aside" "$status" 0
	like "$1: and where it is now is said" "$stdout" "^  $db\\.damaged-[0-9]{8}T[0-9]{6}Z\$"
	like "$1: and that a new one is there" "$stdout" 'A new one, which is empty, has begun\.'
	check "$1: as it is" test -e "$db"
	check "$1: as it was, byte for byte" cmp "$TMP/kept.db" "$(aside)"
	run "$PROCTOR" run -q --job after -- sh -c 'exit 5'
	is "$1: a run after that passes its status on" "$status/$stderr" "5/"
	run "$PROCTOR" jobs --json
	# That of before may have waited beside the database.
	json "$1: and is recorded" "$stdout" \
		'd[-1]["job_id"] == "after" and {(j["job_id"], j["exit_code"]) for j in d[:-1]} <= {("while", 7)}'
	check "$1: the old one is still there" cmp "$TMP/kept.db" "$(aside)"
	run "$PROCTOR" doctor
	is "$1: and doctor is content" "$status" 0
}

# ---- damage ----
make_database "garbage header"
noise 0 100 "$db"
check_damage "garbage header" "is not a database"

make_database "garbage in the middle"
noise 40000 30000 "$db"
check_damage "garbage in the middle" "is damaged"

make_database "cut"
truncate -s 40960 "$db"
check_damage "cut" "is damaged"

make_database "a table is missing"
sql 'DROP TABLE unknowns'
check_damage "a table is missing" "does not have the tables"

make_database "values that cannot be decoded"
sql "UPDATE chunks SET data = x'00ff00ff' WHERE id = (SELECT max(id) FROM chunks)"
run "$PROCTOR" doctor
like "a little damage: what is lost is said, and nothing need be done" "$stdout" \
	'^  database +note +.*sound and in use.* lost: 1 stretch of a process.s samples of job three, attempt 1 .*nothing need be done'
check "nobody is told to move the record away" [ "${stdout/--repair/}" = "$stdout" ]
run "$PROCTOR" doctor --repair
like "nor is it moved" "$status $stdout" '^0 nothing to repair: .*is sound and in use'
run "$PROCTOR" run -q --job while -- sh -c 'exit 7'
run "$PROCTOR" jobs --json
json "the record goes on with all jobs" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three", "while"]'
run "$PROCTOR" doctor --all
is "--all alone means nothing" "$status" 2
run "$PROCTOR" doctor --repair --all
like "only who wants it moves it" "$stdout" "^  $db\\.damaged-"
rm -rf "$TMP/look" && mkdir "$TMP/look"
for part in "" -wal -shm; do cp "$(aside)$part" "$TMP/look/proctor.db$part"; done
PROCTOR_HOME=$TMP/look run "$PROCTOR" jobs --json
json "a copy of it can be looked into" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three", "while"]'

# As the manual tells it.
make_database "backup"
"$PROCTOR" run -q --interval 0.1 --job copied -- sh -c "$(gate copied)" &
eventually has_ticks copied 5
rm -rf "$TMP/look" && mkdir "$TMP/look"
check "a copy is made while a job runs" sqlite3 "$db" ".backup $TMP/look/proctor.db"
pass copied
wait $!
PROCTOR_HOME=$TMP/look run "$PROCTOR" jobs --json
json "and has all jobs" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three", "copied"]'
PROCTOR_HOME=$TMP/look run "$PROCTOR" sql --json "SELECT DISTINCT snapshot_id FROM process_metrics WHERE job_id = 'copied'"
json "and its samples" "$stdout" 'len(d) >= 5'
PROCTOR_HOME=$TMP/look run "$PROCTOR" doctor
like "and is sound" "$stdout" '^  database +ok '

make_database "salvage"
layout=$(sql 'PRAGMA user_version')
noise $((4096 * ($(sql "SELECT rootpage FROM sqlite_schema WHERE name = 'chunks'") - 1))) 4096 "$db"
run "$PROCTOR" doctor --repair
rm -rf "$TMP/look" && mkdir "$TMP/look"
(
	echo 'PRAGMA auto_vacuum = INCREMENTAL;'
	sqlite3 "$(aside)" .dump | sed 's/^ROLLBACK;.*/COMMIT;/'
	echo 'PRAGMA application_id = 1348695154;'
	echo "PRAGMA user_version = $layout;"
) 2>/dev/null | sqlite3 "$TMP/look/proctor.db"
PROCTOR_HOME=$TMP/look run "$PROCTOR" jobs --json
json "what a dump has saved is used" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three"]'

# Wherever it is hit: verbs tell or refuse, nothing breaks, a command runs, and --repair helps.
make_database "anywhere"
cp "$db" "$TMP/whole.db"
RANDOM=4711
trouble=
for i in $(seq 12); do
	cp "$TMP/whole.db" "$db"
	rm -f "$db"-wal "$db"-shm "$db"-spool "$db".damaged-*
	at=$(((RANDOM * 32768 + RANDOM) % $(stat -c %s "$db")))
	if [ $((i % 4)) = 0 ]; then truncate -s $at "$db"; else noise $at $((1 + RANDOM % 300)) "$db"; fi
	for verb in jobs "report two" "history --job two --json" "export csv" "events --json" \
		"top --history 1h --json" "sql SELECT*FROM(process_metrics)" "gc" "doctor" "doctor --repair"; do
		# shellcheck disable=SC2086 # words
		run timeout 60 "$PROCTOR" $verb
		[ "$status" -le 2 ] || trouble+=" $verb:$status at $at ($i);"
		[ "$status" != 1 ] || [ -n "$stderr" ] || [ "$verb" = doctor ] ||
			trouble+=" $verb says nothing at $at ($i);"
	done
	run timeout 60 "$PROCTOR" run -q --job after -- sh -c 'exit 7'
	[ "$status" = 7 ] || trouble+=" run:$status at $at ($i);"
	run "$PROCTOR" jobs --json
	[ "$(json_eval "$stdout" 'd[-1]["job_id"]')" = after ] || trouble+=" not recorded at $at ($i);"
done
is "damage anywhere is borne" "$trouble" ""

# A tick that cannot be read costs itself and those that build on it: all else is told.
rm -rf "$PROCTOR_HOME"
"$PROCTOR" run -q --job whole -- sleep 0.3
"$PROCTOR" run -q --interval 0.1 --job torn -- sleep 1017 &
runner=$!
has_some() { [ "$(sql "SELECT count(*) FROM ticks")" -ge 8 ]; }
eventually has_some
torn=$(pgrep -P $runner -x sleep)
kill -9 $runner
wait $runner 2>/dev/null
kill "$torn"
sql "UPDATE ticks SET data = x'00' WHERE id = (SELECT max(id) - 1 FROM ticks)"
readable=$(sql "SELECT count(*) - 2 FROM ticks")
for verb in "history --job torn --json" "history --job torn --minutes --json" \
	"export csv --what snapshots --job torn" "top --history 1h --job torn --json"; do
	# shellcheck disable=SC2086 # words
	run "$PROCTOR" $verb
	like "what can be read is told, and what is left out: $verb" "$status $stderr" \
		'^0 proctor: warning: left out, as it is damaged in the database or a newer proctor wrote it: 2 ticks of job torn, attempt 1 \((at|from) '
	is "in one line: $verb" "$(wc -l <"$TMP/stderr")" 1
done
run "$PROCTOR" history --job torn --json
json "no more is missing" "$stdout" "len({s['timestamp'] for s in d}) == $readable"
run "$PROCTOR" sql --no-header "SELECT count(*) FROM snapshots WHERE timestamp > (SELECT max(started_wall_ns) / 1e9 FROM attempts)"
like "nor in SQL" "$((stdout)) $stderr" "^$readable proctor: warning: left out, as it is damaged .* 2 ticks of job torn"
run "$PROCTOR" report torn --json
json "the report knows it" "$stdout" \
	'[u["why"].split(" of job")[0] for u in d["unknown"] if u["what"] == "damaged"] == ["2 ticks"]'
run "$PROCTOR" jobs
like "a sheet that was cut off is not completed" "$stdout" "^torn .* 0/1 +lost "
run "$PROCTOR" history --job whole --json
is "other jobs have nothing to do with it" "$status/$stderr" 0/
run "$PROCTOR" doctor
like "doctor names it" "$status $stdout" 'database +note .*makes no sense.*2 ticks of job torn, attempt 1'

# A young database that was made of an empty file is all in its log.
rm -rf "$PROCTOR_HOME" && mkdir "$PROCTOR_HOME" && : >"$db"
"$PROCTOR" run -q --job young -- true
cp "$db-wal" "$TMP/kept.wal"
noise 100 50 "$db-wal"
cp "$db-wal" "$TMP/noisy.wal"
run "$PROCTOR" jobs
is "a young database with a damaged log is refused" "$status" 1
like "and what to do is said" "$stderr" 'its -wal cannot be read.*proctor doctor --repair'
run "$PROCTOR" run -q --job young -- sh -c 'exit 3'
is "a run is not recorded over it" "$status/$(cmp "$TMP/noisy.wal" "$db-wal" && echo same)" 3/same
cp "$TMP/kept.wal" "$db-wal"
run "$PROCTOR" jobs --json
json "with the log as it was all is there" "$stdout" '[j["job_id"] for j in d] == ["young"]'
cp "$TMP/noisy.wal" "$db-wal"
run "$PROCTOR" doctor --repair --json
json "it is moved, with its log" "$stdout" \
	'd["repaired"] is True and d["moved_to"].startswith(d["database"] + ".damaged-")'
check "which is as it was" cmp "$TMP/noisy.wal" "$(json_eval "$stdout" 'd["moved_to"]')-wal"
run "$PROCTOR" run -q --job new -- true
run "$PROCTOR" jobs --json
json "and a new one begins" "$stdout" '[j["job_id"] for j in d] == ["new"]'

# A log that breaks off: what SQLite can read goes on.
make_database "damaged log"
for job in four five six; do "$PROCTOR" run -q --job $job -- true; done
check "there is a log" [ -s "$db-wal" ]
noise 100 50 "$db-wal"
run "$PROCTOR" doctor
like "a damaged log is noted" "$stdout" '^  database +note +.*-wal breaks off, and up to [0-9]+ transactions behind that are lost'
is "and is no failure" "$status" 0
run "$PROCTOR" run -q --job seven -- true
run "$PROCTOR" jobs --json
json "the rest is there, and goes on" "$stdout" \
	'[j["job_id"] for j in d] == ["one", "two", "three", "seven"]'
make_database "long damaged log"
python3 -c '
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for i in range(40):
    db.execute("UPDATE attempts SET exit_code = ?", (i,))
os._exit(0) # and leaves the log' "$db"
noise 100 50 "$db-wal"
run "$PROCTOR" doctor
like "all that a break hides is counted" "$stdout" \
	'^  database +note +.*-wal breaks off, and up to (3[0-9]|40) transactions behind that are lost'

# ---- nothing to repair ----
make_database "nothing to repair"
run "$PROCTOR" doctor --repair
is "a sound database is not moved" "$status/$(find "$PROCTOR_HOME" -name '*damaged*')" 0/
like "and that is said" "$stdout" '^nothing to repair: .* is sound'
run "$PROCTOR" doctor --repair --json
json "also in JSON" "$stdout" 'd["repaired"] is False and d["moved_to"] is None'
rm -rf "$PROCTOR_HOME"
run "$PROCTOR" doctor --repair
like "nor is one that is not there" "$status $stdout" '^0 nothing to repair: nothing was recorded'
mkdir "$PROCTOR_HOME"
: >"$db"
run "$PROCTOR" doctor --repair
like "nor an empty one" "$status $stdout" '^0 nothing to repair: nothing was recorded'
run "$PROCTOR" run -q --job first -- true
run "$PROCTOR" jobs --json
json "which is as good as none" "$stdout" '[j["job_id"] for j in d] == ["first"]'

# ---- not ours to repair ----
for other in 1 $((layout - 1)) $((layout + 1)); do
	sql "PRAGMA user_version = $other"
	sum=$(cksum <"$db")
	for verb in "doctor --repair" jobs gc; do
		read -ra words <<<"$verb"
		run "$PROCTOR" "${words[@]}"
		like "$verb: one of layout $other is left alone" "$status $stderr" \
			"^1 proctor: .*$db has layout $other, and this proctor needs layout $layout: move it away"
	done
	run "$PROCTOR" run --job other -- sh -c 'exit 4'
	like "a command runs beside it" "$status $stderr" "^4 .*has layout $other, and this proctor needs layout $layout"
	is "nothing of it was changed" "$(cksum <"$db")" "$sum"
done
rm -f "$db" "$db"-*
sql 'CREATE TABLE theirs (x)'
run "$PROCTOR" doctor --repair
like "and one of another program" "$status $stderr" '^1 proctor: .*another program'
is "nothing was moved" "$(ls "$PROCTOR_HOME" -I proctor.jsonl)" proctor.db

# ---- a medium that cannot be written ----
make_database "read-only"
noise 0 100 "$db"
cp "$db" "$TMP/kept.db"
if unshare --mount true 2>/dev/null; then
	on_read_only() {
		run unshare --mount sh -c \
			'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"' \
			"$PROCTOR_HOME" "$PROCTOR" "$@"
	}
	on_read_only doctor
	like "doctor says that it cannot be moved, and why" "$status $stdout" \
		'database +broken .*cannot be moved.*Read-only file system'
	on_read_only doctor --repair
	like "so does --repair" "$status $stderr" '^1 .*cannot be moved aside \(Read-only file system\)'
	is "nothing was touched" "$(ls "$PROCTOR_HOME" -I proctor.jsonl -I proctor.db-spool)/$(cmp "$TMP/kept.db" "$db" && echo same)" \
		proctor.db/same
else
	skip "a medium that cannot be written" "this machine makes no mount namespaces"
fi

# A file system that nobody can write, and one of which only this mount cannot be written.
read_medium() {
	mount -t tmpfs -o size=8m,mode=700 tmpfs "$TMP/medium" || exit 77
	export PROCTOR_HOME=$TMP/medium
	"$PROCTOR" run -q --job there -- true
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
db.close() # and with it the log goes' "$PROCTOR_HOME/proctor.db"
	mount --bind "$TMP/medium" "$TMP/medium" && mount -o remount,ro,bind "$TMP/medium"
	"$PROCTOR" jobs >"$TMP/bound.out" 2>&1
	umount "$TMP/medium"
	mount -o remount,ro "$TMP/medium"
	"$PROCTOR" jobs >"$TMP/medium.out" 2>&1
	"$PROCTOR" run -q -- true >"$TMP/medium.run" 2>&1
	mount -o remount,rw "$TMP/medium"
	echo "not empty" >"$PROCTOR_HOME/proctor.db-wal"
	mount -o remount,ro "$TMP/medium"
	"$PROCTOR" jobs >"$TMP/medium.wal" 2>&1
	return 0
}
mkdir "$TMP/medium"
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
	(
		export TMP PROCTOR
		export -f read_medium
		unshare --mount bash -c read_medium
	)
	if [ $? = 77 ]; then
		skip "a database on a medium that cannot be written" "no tmpfs can be mounted here"
	else
		like "a database on a medium that cannot be written is read" "$(cat "$TMP/medium.out")" '^there '
		like "to write it no mode helps" "$(cat "$TMP/medium.run")" \
			'cannot be written \(Read-only file system\): mount its file system writable, or set PROCTOR_HOME'
		like "with a log beside it nobody reads it without that" "$(cat "$TMP/medium.wal")" \
			'cannot be opened \(Read-only file system\)'
		like "nor where others may write it" "$(cat "$TMP/bound.out")" \
			'cannot be opened \(Read-only file system\): make its folder writable, or copy it elsewhere'
	fi
else
	skip "a database on a medium that cannot be written" "only root can mount one here"
fi

# ---- in use ----
# hold SQL: has the database open, having run this, until it is ended; sets holder.
hold() {
	rm -f "$TMP/ready"
	python3 -c '
import signal, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
for sql in sys.argv[2].split(";"):
    db.execute(sql).fetchall()
print("ready", flush=True)
signal.pause()' "$db" "$1" >"$TMP/ready" &
	holder=$!
	while ! [ -s "$TMP/ready" ] && kill -0 $holder 2>/dev/null; do sleep 0.05; done
}

release() {
	kill $holder
	wait $holder 2>/dev/null
}

make_database "in use"
noise 40000 30000 "$db"
hold 'SELECT 1 FROM sqlite_schema'
run "$PROCTOR" doctor --repair
like "what is in use is not moved, and who uses it is said" "$status $stderr" \
	"^1 .*cannot be moved aside while process $holder \\(python3\\) has it open"
release

make_database "ends that make no sense"
printf 'rubbish!' | dd of="$db-spool" conv=notrunc status=none
run "$PROCTOR" run --job after -- true
like "a run that sets them aside says so" "$stderr" \
	"how some attempts ended .* is damaged.*$db-spool.damaged-[0-9]"
run "$PROCTOR" doctor
like "and doctor names the file" "$stdout" "damaged, and is in $db-spool.damaged-[0-9]"
rm -f "$db"-spool.damaged-*
printf 'rubbish!' | dd of="$db-spool" conv=notrunc status=none
"$PROCTOR" start >"$TMP/start" 2>&1
run cat "$PROCTOR_HOME/daemon.log"
like "so does a daemon" "$stdout" "how some attempts ended .* is damaged.*$db-spool.damaged-[0-9]"
"$PROCTOR" stop >"$TMP/stop" 2>&1
rm -f "$db"-spool.damaged-*

make_database "locked"
hold 'BEGIN IMMEDIATE'
run "$PROCTOR" run --job locked -- sh -c 'echo done; exit 4'
is "a lock does not change the command's status" "$stdout/$status" done/4
like "and its holder is named" "$stderr" \
	"not recorded: the database $db is locked by process $holder \\(python3\\): wait for it or end it"
like "and how it ended is not lost" "$stderr" 'how this run ended is kept beside the database until'
run "$PROCTOR" jobs --json
json "readers do not mind" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three"]'
like "and say that there is more" "$stderr" "waits in $db-spool until the database can be written"
release
run "$PROCTOR" jobs --json
json "as soon as it can be it is taken in" "$stdout" \
	'[(j["job_id"], j["attempt"], j["outcome"], j["exit_code"]) for j in d][3:] == [("locked", 1, "failure", 4)]'
is "and that is that" "$stderr" ""
run "$PROCTOR" report locked --json
json "the report knows why its samples are missing, and gives no order that is stale" "$stdout" \
	"[u['why'] for u in d['unknown'] if u['what'] == 'recording'] == ['the database $db is locked by process $holder (python3)']"
hold 'PRAGMA locking_mode = EXCLUSIVE;BEGIN EXCLUSIVE'
run "$PROCTOR" jobs
is "who has it for itself keeps readers out" "$status" 1
like "and is named" "$stderr" \
	"^proctor: the database $db is locked by process $holder \\(python3\\): wait for it or end it"
release
run "$PROCTOR" run -q --job locked -- true
run "$PROCTOR" jobs --json
json "after that all is well" "$stdout" \
	'[(j["job_id"], j["attempt"], j["outcome"]) for j in d][3:] == [("locked", 2, "success")]'
run "$PROCTOR" report locked --attempt 1 --json
json "what was kept has its report" "$stdout" \
	'd["exit_code"] == 4 and d["wall_seconds"] > 0 and d["total_cpu_seconds"] is not None and any("locked by process" in u["why"] for u in d["unknown"])'

finish
