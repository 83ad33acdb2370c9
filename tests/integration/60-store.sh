#!/bin/bash
# Bad things that happen to the database: damage, and media that cannot be written.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
db=$PROCTOR_HOME/proctor.db
command='run "proctor doctor --repair", which moves it aside'

damage() { # HOW [N]: see damage.py
	python3 "$INTEGRATION/damage.py" "$db" "$@"
}

sql() { # SQL: prints the first value
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
print(*db.execute(sys.argv[2]).fetchone() or [""])' "$db" "$1" 2>/dev/null || true
}

# A sound database with some jobs, all of it in its file; made once, and copied.
make_database() {
	if [ ! -e "$TMP/sound" ]; then
		for job in one two three; do
			"$PROCTOR" run -q --interval 0.1 --job $job -- sh -c 'sleep 0.3; /bin/true'
		done
		"$PROCTOR" jobs >/dev/null
		sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
		is "there is a sound database" "$(sql 'PRAGMA integrity_check')" ok
		mv "$PROCTOR_HOME" "$TMP/sound"
	fi
	rm -rf "$PROCTOR_HOME"
	cp -a "$TMP/sound" "$PROCTOR_HOME"
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
make_database
noise 0 100 "$db"
check_damage "garbage header" "is not a database"

make_database
noise 40000 30000 "$db"
check_damage "garbage in the middle" "is damaged"

make_database
truncate -s 40960 "$db"
check_damage "cut" "is damaged"

make_database
sql 'DROP TABLE sheets'
check_damage "a table is missing" "does not have the tables"

make_database
damage values
run "$PROCTOR" doctor
like "a little damage: what is lost is said" "$stdout" \
	'^  database +note +.*sound and in use.* lost: .* of job one, attempt 1'
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
make_database
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

make_database
layout=$(sql 'PRAGMA user_version')
damage page
run "$PROCTOR" doctor --repair
rm -rf "$TMP/look" && mkdir "$TMP/look"
# The recipe of the manual, as it stands there.
awk '/^\.nf/ { block = "" } /^\.fi/ && block ~ /\.dump/ { print block } !/^\./ { block = block $0 "\n" }' \
	"$SOURCE_ROOT/man/proctor.1" | sed "s/\\\\-/-/g; s/\\\\(aq/'/g; s|FILE|$(aside)|; s|NEW/|$TMP/look/|" >"$TMP/recipe"
like "the manual has a recipe" "$(cat "$TMP/recipe")" 'sqlite3 .* \.dump'
sh "$TMP/recipe" 2>/dev/null
PROCTOR_HOME=$TMP/look run "$PROCTOR" jobs --json
json "what a dump has saved is used" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three"]'

# Wherever it is hit: verbs tell or refuse, nothing breaks, a command runs, and --repair helps.
RANDOM=4711
trouble=
for i in $(seq 8); do
	make_database
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

# What cannot be decoded is left out, and what is left out is said: all else is told.
rm -rf "$PROCTOR_HOME"
"$PROCTOR" run -q --interval 0.1 --job torn -- sh -c 'sleep 0.5; exit 4'
"$PROCTOR" jobs >/dev/null
damage values
"$PROCTOR" run -q --interval 0.1 --job whole -- sleep 0.5
for verb in "history --job torn --json" "history --job torn --minutes --json" \
	"export csv --what snapshots --job torn" "top --history 1h --job torn --json" "sql SELECT*FROM(process_metrics)"; do
	# shellcheck disable=SC2086 # words
	run "$PROCTOR" $verb
	like "what can be read is told, and what is left out: $verb" "$status $(paste -sd' ' "$TMP/stderr")" \
		'^0 (.*)proctor: warning: left out, as it is damaged in the database.*: .* of job torn, attempt 1 \((at|from) '
	is "in one line: $verb" "$(grep -c 'left out' "$TMP/stderr")" 1
done
run "$PROCTOR" jobs --json
json "how jobs ended has nothing to do with it" "$stdout" \
	'[(j["job_id"], j["exit_code"]) for j in d] == [("torn", 4), ("whole", 0)]'
run "$PROCTOR" history --job whole --json
is "nor have other jobs" "$status/$stderr" 0/
json "which have their samples" "$stdout" 'len(d) > 2'
run "$PROCTOR" doctor
like "doctor names it" "$stdout" '^  database +note .*makes no sense.* of job torn, attempt 1 .*nothing need be done'
is "which is no failure" "$status" 0

# SQLite's own log. A young database has its tables in its file all the same.
rm -rf "$PROCTOR_HOME" && mkdir "$PROCTOR_HOME" && : >"$db"
"$PROCTOR" run -q --job young -- true
"$PROCTOR" jobs >/dev/null
check "a young database has its tables in its file" [ "$(stat -c %s "$db")" -gt 4096 ]

# A log that breaks off: what SQLite can read goes on.
make_database
damage log 40
noise 100 50 "$db-wal"
run "$PROCTOR" doctor
is "a damaged log is no failure" "$status" 0
like "but noted, with all that a break hides" "$stdout" \
	'^  database +note +.*-wal breaks off, and up to (3[0-9]|40) transactions behind that are lost'
run "$PROCTOR" run -q --job seven -- true
run "$PROCTOR" jobs --json
json "the rest is there, and goes on" "$stdout" \
	'[j["job_id"] for j in d] == ["one", "two", "three", "seven"]'

# ---- nothing to repair ----
make_database
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
	is "a command runs beside it, and is recorded in its log" "$status" 4
	is "nothing of it was changed" "$(cksum <"$db")" "$sum"
done
rm -f "$db" "$db"-wal "$db"-shm
run "$PROCTOR" jobs --all --json
json "which waits until the database is out of the way" "$stdout" \
	'[(j["job_id"], j["attempt"], j["exit_code"]) for j in d] == [("other", n, 4) for n in (1, 2, 3)]'
rm -rf "$db" "$db"-*
sql 'CREATE TABLE theirs (x)'
run "$PROCTOR" doctor --repair
like "and one of another program" "$status $stderr" '^1 proctor: .*another program'
is "nothing was moved" "$(find "$PROCTOR_HOME" -name "*damaged*")" ""

# ---- a medium that cannot be written ----
if [ "${OWN_MOUNTS:-}" = yes ] && mkdir "$TMP/medium" && mount -t tmpfs -o size=8m,mode=700 tmpfs "$TMP/medium"; then
	export PROCTOR_HOME=$TMP/medium
	cp -a "$TMP/sound/." "$PROCTOR_HOME"
	db=$PROCTOR_HOME/proctor.db
	sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null # and its log goes with who closes it last
	mount --bind "$TMP/medium" "$TMP/medium" && mount -o remount,ro,bind "$TMP/medium"
	run "$PROCTOR" jobs
	like "where others may write it it is not read without that" "$status $stderr" \
		'^1 .*cannot be opened \(Read-only file system\): make its folder writable, or copy it elsewhere'
	umount "$TMP/medium"
	mount -o remount,ro "$TMP/medium"
	run "$PROCTOR" jobs
	like "a database on a medium that nobody can write is read" "$stdout" '^one '
	run "$PROCTOR" run --job medium -- sh -c 'echo out; exit 7'
	is "a command runs all the same" "$status/$stdout" 7/out
	like "and what to do is said" "$stderr" \
		'cannot be written \(Read-only file system\): mount its file system writable, or set PROCTOR_HOME'
	mount -o remount,rw "$TMP/medium"
	echo "not empty" >"$PROCTOR_HOME/proctor.db-wal"
	mount -o remount,ro "$TMP/medium"
	run "$PROCTOR" jobs
	like "with a log beside it nobody reads it without that" "$status $stderr" \
		'^1 .*cannot be opened \(Read-only file system\)'
	mount -o remount,rw "$TMP/medium"
	rm "$PROCTOR_HOME/proctor.db-wal"
	noise 0 100 "$db"
	cp "$db" "$TMP/kept.db"
	mount -o remount,ro "$TMP/medium"
	run "$PROCTOR" doctor
	like "doctor says that a damaged one cannot be moved, and why" "$status $stdout" \
		'database +broken .*cannot be moved.*Read-only file system'
	run "$PROCTOR" doctor --repair
	like "so does --repair" "$status $stderr" '^1 .*cannot be moved aside \(Read-only file system\)'
	check "nothing was touched" cmp "$TMP/kept.db" "$db"
	umount "$TMP/medium"
	export PROCTOR_HOME=$TMP/home
	db=$PROCTOR_HOME/proctor.db
else
	skip "a medium that cannot be written" "only root can mount one, where there are mount namespaces"
fi

# ---- in use ----
make_database
hold_database use
noise 40000 30000 "$db"
run "$PROCTOR" doctor --repair
like "what is in use is not moved, and who uses it is said" "$status $stderr" \
	"^1 .*cannot be moved aside while process $holder \\(python3\\) has it open"
release_database use
make_database
EXCLUSIVE=1 hold_database alone
run "$PROCTOR" jobs
is "who has it for itself keeps readers out" "$status" 1
like "and is named" "$stderr" \
	"^proctor: the database $db is locked by process $holder \\(python3\\): wait for it or end it"
release_database alone
run "$PROCTOR" jobs --json
json "and no longer than that" "$stdout" '[j["job_id"] for j in d] == ["one", "two", "three"]'

finish
