#!/bin/bash
# What was recorded can be asked in SQL: by "proctor sql", and by other programs that load the
# extension. Both only read, say what is wrong in a line, and hold nobody up.
. "$(dirname "$0")/lib.sh"
: "${PROCTOR_EXTENSION:?is set by the test runner: the extension to test, without .so}"
db=$PROCTOR_HOME/proctor.db

sql() { # STATEMENT [OPTION...]
	run "$PROCTOR" sql "${@:2}" "$1"
}

# The one value of a statement.
ask() { # STATEMENT
	"$PROCTOR" sql --no-header "$1" </dev/null
}

# refused NAME STATEMENT REGEX: status 2, nothing on stdout, and one line that is like the regex.
refused() {
	sql "$2"
	is "$1: status" "$status" 2
	is "$1: nothing is printed" "$stdout" ""
	is "$1: one line" "$(wc -l <"$TMP/stderr")" 1
	like "$1: says what is wrong" "$stderr" "^proctor: .*$3"
}

# ---- nothing recorded ----

run "$PROCTOR" history --job nightly
said=$stderr said_status=$status
sql 'SELECT * FROM snapshots'
is "without a record it says what history says" "$stderr" "$said"
is "and fails in the same way" "$status" "$said_status"
check "the tables are told without a record" "$PROCTOR" sql --schema

# ---- a record ----

cat >"$TMP/nightly.yaml" <<'END'
job_id: nightly
sheets:
  - run: sleep 0.6 & sleep 0.4; wait; @GATE@
  - run: sh -c 'kill -9 $$'; echo "it's, \"so\""; sleep 0.3
END
sed -i "s|@GATE@|$(gate nightly)|" "$TMP/nightly.yaml"
"$PROCTOR" run --quiet --interval 0.1 -f "$TMP/nightly.yaml" </dev/null >/dev/null 2>&1 &
nightly=$!
eventually has_ticks nightly 8
pass nightly
wait $nightly
is "a job is recorded" $? 0
check "another" "$PROCTOR" run --quiet --interval 0.1 --job other -- sleep 0.3

# ---- the contract ----

check "snapshots has the columns of the contract" "$PROCTOR" sql "SELECT id, timestamp, daemon_pid,
	system_memory_total_mb, system_memory_available_mb, system_memory_used_mb, daemon_rss_mb, load_avg_1,
	load_avg_5, load_avg_15, pressure_level, running_jobs, active_sheets, zombie_count, zombie_pids, gpus,
	job_progress, conductor_uptime_seconds FROM snapshots"
check "process_metrics too" "$PROCTOR" sql "SELECT snapshot_id, timestamp, pid, ppid, command, state,
	cpu_percent, rss_mb, vms_mb, threads, open_fds, age_seconds, job_id, sheet_num, syscall_counts,
	syscall_time_pct FROM process_metrics"
check "process_events too" "$PROCTOR" sql "SELECT timestamp, pid, event_type, exit_code, signal_num, job_id,
	sheet_num, details FROM process_events"

# ---- the same as elsewhere ----

history=$("$PROCTOR" history --job nightly --json)
sql "SELECT * FROM process_metrics WHERE job_id = 'nightly' ORDER BY timestamp" --json
json "process_metrics has the samples of history" "[$history, $stdout]" \
	'len(d[0]) > 5 and [(s["timestamp"], s["pid"], s["rss_mb"], s["cpu_percent"], s["command"], s["sheet_num"], s["fd_limit"]) for s in d[0]] == [(s["timestamp"], s["pid"], s["rss_mb"], s["cpu_percent"], s["command"], s["sheet_num"], s["fd_limit"]) for s in d[1]]'
json "syscalls are unknown until they are measured" "$stdout" \
	'all(s["syscall_counts"] is None and s["syscall_time_pct"] is None for s in d)'
report=$("$PROCTOR" report nightly --json)
sql "SELECT timestamp, pid, event_type, exit_code, signal_num, job_id, sheet_num, details FROM process_events
	WHERE job_id = 'nightly' ORDER BY timestamp, rowid" --json
json "process_events has the events of the report" "[$report, $stdout]" \
	'len(d[1]) > 5 and d[0]["events"] == d[1]'
sql "SELECT count(*) AS n, min(system_memory_total_mb) AS mb, sum(gpus IS NULL) AS unknown,
	sum(daemon_pid IS NULL) AS without FROM snapshots" --json
json "snapshots have the host" "$stdout" \
	'd[0]["n"] > 5 and abs(d[0]["mb"] * 1024 - int(open("/proc/meminfo").read().split()[1])) < 1 and d[0]["without"] == d[0]["n"]'
top=$("$PROCTOR" top --history 1h --json | grep job_progress | paste -sd,)
sql "SELECT timestamp, job_progress FROM snapshots ORDER BY timestamp" --json
json "they have the progress that a replay has, and whose it is" "[[$top], $stdout]" \
	'{s["timestamp"]: s["job_progress"] for s in d[0]} == {s["timestamp"]: json.loads(s["job_progress"]) for s in d[1]} and all(p["attempt"] and p["attempt_id"] for s in d[0] for p in s["job_progress"])'
is "samples are joined with their snapshots" \
	"$(ask 'SELECT count(*) FROM process_metrics m JOIN snapshots s ON s.id = m.snapshot_id')" \
	"$(ask 'SELECT count(*) FROM process_metrics')"
is "the database's own tables are there" "$(ask "SELECT count(*) FROM outcomes WHERE job_id = 'other'")" 1

# ---- how it is printed ----

values="SELECT NULL AS n, 1 AS i, 0.1 AS r, 'a, \"b\"' || char(10) || 'c' AS t, x'00ff' AS b, '' AS e"
sql "$values"
is "text" "$stdout" "n  i    r  t         b     e
-  1  0.1  a, \"b\" c  00ff"
sql "$values" --no-header
is "text without a header" "$stdout" "-  1  0.1  a, \"b\" c  00ff"
sql "$values" --json
is "JSON" "$stdout" '[{"n":null,"i":1,"r":0.1,"t":"a, \"b\"\nc","b":"00ff","e":""}]'
sql "$values" --csv
is "CSV" "$stdout" "n,i,r,t,b,e
,1,0.1,\"a, \"\"b\"\"
c\",00ff,\"\""
sql 'SELECT 1 AS x WHERE 0' --json
is "no rows are an empty array" "$stdout" "[]"
sql "SELECT char(27) || '[31m' || char(155) AS x" --no-header
is "nothing commands the terminal" "$stdout" "?[31m?"
run "$PROCTOR" sql - <<<'SELECT 1 AS x' # stdin is taken by run
like "a statement from an empty stdin is none" "$stderr" "no statement"
is "a statement is read from stdin" "$(echo "SELECT 'in' -- end" | "$PROCTOR" sql --no-header -)" in
sql "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c WHERE x < 100000) SELECT x FROM c" --csv
is "many rows" "$(tail -n 1 "$TMP/stdout") $(wc -l <"$TMP/stdout")" "100000 100001"
check "a reader that has seen enough is no news" bash -c \
	"'$PROCTOR' sql 'WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) SELECT x FROM c' 2>&1 |
	head -n 2 | tail -n 1 | grep -qx ' *1'"
like "what is in no record is said there" "$("$PROCTOR" sql --schema)" '^process_metrics: .*cpu_wait_seconds and ignores_sigchld .* in no record'
run "$PROCTOR" sql --schema --json
json "the schema as JSON" "$stdout" \
	'[t["table"] for t in d] == ["snapshots", "process_metrics", "process_events", "process_minutes"] and all(c["about"] for t in d for c in t["columns"])'
if [ -e /dev/full ]; then
	"$PROCTOR" sql 'SELECT 1' >/dev/full 2>"$TMP/stderr"
	is "a full disk is a failure" $? 1
	like "and is told" "$(cat "$TMP/stderr")" "cannot write the output: No space left"
fi

# ---- what is wrong ----

refused "a mistake" 'SELECT pid FORM process_metrics' 'near "process_metrics": syntax error'
refused "its place" $'SELECT 1,\n nowhere FROM snapshots' 'line 2, column 2: no such column: nowhere'
refused "a table that is not there" 'SELECT * FROM nowhere' 'no such table: nowhere'
cp -r "$PROCTOR_HOME" "$TMP/lacking"
sqlite3 "$TMP/lacking/proctor.db" 'DROP TABLE ticks; DROP VIEW outcomes'
for table in process_metrics outcomes ticks; do
	PROCTOR_HOME=$TMP/lacking run "$PROCTOR" sql "SELECT * FROM $table"
	like "$table: what the database lacks is not the statement's mistake" "$status $stderr" \
		'^1 proctor: the database .* does not have the tables that it should .*doctor --repair'
done
refused "two statements" 'SELECT 1; SELECT 2' 'one statement at a time'
refused "rubbish behind it" 'SELECT 1; )' 'one statement at a time'
refused "nothing" '' 'there is no statement'
refused "a statement that writes" 'DELETE FROM jobs' 'only what reads is allowed'
refused "another file" "ATTACH '$TMP/x.db' AS x" 'only what reads is allowed'
refused "a setting" 'PRAGMA journal_mode = delete' 'only what reads is allowed'
refused "an extension" "SELECT load_extension('$PROCTOR_EXTENSION')" 'only what reads is allowed'
check "no file was made" [ ! -e "$TMP/x.db" ]
sql 'SELECT 1 AS x, 2 AS x' --json
is "two names that are the same, as JSON" "$status:$stdout" 2:
run "$PROCTOR" sql
is "no statement" "$status" 2
run "$PROCTOR" sql SELECT 1
is "a statement in two words" "$status" 2
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	stdout=$(script -qec "'$PROCTOR' sql --csv 'SELECT char(27, 155, 34, 65)'" /dev/null </dev/null)
	unlike "as CSV a terminal is not commanded either" "$stdout" $'\e|\u009b'
	like "and a quote is one" "$stdout" '"[^"]+""A"'
else
	skip "as CSV a terminal is not commanded either" "no script(1) here"
fi
run "$PROCTOR" sql --json --csv 'SELECT 1'
is "two formats" "$status" 2
printf 'SELECT 1\0' | "$PROCTOR" sql - >/dev/null 2>&1
is "a zero byte" $? 2
head -c 1100000 /dev/zero | tr '\0' ' ' | "$PROCTOR" sql - >/dev/null 2>&1
is "a statement that is too long" $? 2
sql "SELECT json('{')"
is "what fails while it runs" "$status" 1
is "the record is as it was" "$(ask 'PRAGMA integrity_check')$(ask 'SELECT count(*) FROM jobs')" ok2

# ---- the page ----

# Each block of SQL in docs/sql.md becomes a file.
awk -v to="$TMP/question-" '
	/^```/ { inside = $0 == "```sql"; n += inside; next }
	inside { print > (to n ".sql") }' "$SOURCE_ROOT/docs/sql.md"
is "the page has ten questions" "$(find "$TMP" -name 'question-*.sql' | wc -l)" 10
for question in "$TMP"/question-*.sql; do
	check "$(basename "$question" .sql) of docs/sql.md" sh -c "'$PROCTOR' sql - <'$question'"
done

# ---- others that use it ----

# A statement that is never read to its end: as soon as nobody takes its rows they go to a file,
# and the log can be emptied, which it cannot while somebody reads.
mkfifo "$TMP/fifo"
exec 9<>"$TMP/fifo"
"$PROCTOR" sql --no-header "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c WHERE x < 100000)
	SELECT x, (SELECT count(*) FROM jobs) FROM c" >"$TMP/fifo" 9<&- &
reader=$!
emptied=0
end=$((EPOCHSECONDS + 120))
while [ $EPOCHSECONDS -lt $end ]; do
	[ "$(ask 'SELECT 1')" = 1 ] || break
	if [ "$(python3 -c '
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])' "$db")" = 0 ] &&
		[ -n "$(find "/proc/$reader/fd" -lname '/tmp/*(deleted)' 2>/dev/null)" ]; then
		emptied=1
		break
	fi
	sleep 0.05
done
is "a reader that waits holds nothing" "$emptied" 1
is "and gets all of it" "$(head -n 100000 <&9 | tail -n 1)" "100000  2"
exec 9<&-
wait "$reader"
is "in the end" $? 0

# Ctrl-C, as a terminal sends it: bash lets its background ignore that.
python3 -c '
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$PROCTOR" sql \
	'WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c' 2>"$TMP/stderr" &
long=$!
holds_interrupts() { # PID: of a proctor; SIGINT is signal 2
	[ "$(readlink "/proc/$1/exe")" = "$(realpath "$PROCTOR")" ] &&
		grep -q '^SigBlk:.*[2367abef]$' "/proc/$1/status"
}
eventually holds_interrupts "$long"
kill -INT "$long"
wait "$long"
is "Ctrl-C ends a long statement" $? 1
is "and that is said" "$(cat "$TMP/stderr")" "proctor: interrupted"

"$PROCTOR" run --quiet --interval 0.1 --job live -- sleep 1.5 &
runner=$!
failures=0
while kill -0 "$runner" 2>/dev/null; do
	ask 'SELECT count(*) FROM process_metrics m JOIN snapshots s ON s.id = m.snapshot_id' >/dev/null || failures=1
done
wait "$runner"
is "a job goes on while it is asked about" "$?:$failures" 0:0

# ---- the extension ----

extension=$PROCTOR_EXTENSION.so
is "the extension takes SQLite from who loads it" \
	"$(nm -D --undefined-only "$extension" | grep -c sqlite3_)" 0
is "and shows nothing but its entry" \
	"$(nm -D --defined-only "$extension" | awk '{ print $3 }')" sqlite3_proctorsqlite_init

questions="SELECT count(*), sum(rss_bytes), max(cpu_ns) FROM process_metrics WHERE job_id = 'nightly'
SELECT count(*), max(id), min(timestamp) > 1e9 FROM snapshots
SELECT event_type, count(*) FROM process_events GROUP BY 1 ORDER BY 1
SELECT count(*) FROM process_metrics m JOIN snapshots s ON s.id = m.snapshot_id JOIN jobs j USING (job_id)"
by_proctor=$(while read -r question; do "$PROCTOR" sql --csv --no-header "$question" </dev/null; done <<<"$questions" | tr -d '\r')

if command -v sqlite3 >/dev/null; then
	by_shell=$(sqlite3 -batch -csv "$db" ".load $PROCTOR_EXTENSION" "${questions//$'\n'/;}" 2>&1 | tr -d '\r')
	is "sqlite3 loads it and gives the same" "$by_shell" "$by_proctor"
	by_shell=$(sqlite3 -readonly -batch -csv "$db" ".load $PROCTOR_EXTENSION" "BEGIN; ${questions//$'\n'/;}; COMMIT" 2>&1 |
		tr -d '\r')
	is "also in a transaction, and read-only" "$by_shell" "$by_proctor"
	is "the tables cannot be written" \
		"$(sqlite3 -batch "$db" ".load $PROCTOR_EXTENSION" "DELETE FROM snapshots" 2>&1 | grep -c 'may not be modified')" 1
	sqlite3 "$TMP/foreign.db" 'CREATE TABLE t (x)'
	like "of another program's database it says so" \
		"$(sqlite3 -batch "$TMP/foreign.db" ".load $PROCTOR_EXTENSION" 'SELECT * FROM snapshots' 2>&1)" \
		"foreign.db is the database of another program"
	cp "$db" "$TMP/other.db"
	sqlite3 "$TMP/other.db" 'PRAGMA journal_mode = delete; PRAGMA user_version = 999' >/dev/null
	like "of another layout too" \
		"$(sqlite3 -batch "$TMP/other.db" ".load $PROCTOR_EXTENSION" 'SELECT * FROM snapshots' 2>&1)" \
		"other.db has layout 999, and this proctor needs layout [0-9]+: load the extension"
else
	skip "sqlite3 loads the extension" "sqlite3 is not installed"
fi

cat >"$TMP/load.py" <<'END'
import sqlite3, sys
db = sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True)
db.enable_load_extension(True)
db.load_extension(sys.argv[2])
for question in sys.argv[3].split("\n"):
    for row in db.execute(question):
        print(*row, sep=",")
cursors = [iter(db.execute("SELECT snapshot_id FROM process_metrics")) for _ in range(3)]
assert len({tuple(row) for row in zip(*cursors)}) > 5
db.close()
END
for python in python3 /usr/bin/python3; do
	if "$python" -c 'import sqlite3; sqlite3.Connection.enable_load_extension' 2>/dev/null; then
		is "Python loads it and gives the same" \
			"$("$python" "$TMP/load.py" "$db" "$PROCTOR_EXTENSION" "$questions" 2>&1)" "$by_proctor"
		break
	fi
	[ "$python" != /usr/bin/python3 ] || skip "Python loads the extension" "its SQLite loads none"
done

finish
