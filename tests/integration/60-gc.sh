#!/bin/bash
# "proctor gc" removes what is old, says what it was, and leaves what jobs used and how they ended.
. "$(dirname "$0")/lib.sh"
db=$PROCTOR_HOME/proctor.db

sql() { # STATEMENT...: prints the first value of the last
	python3 -c '
import sqlite3, struct, sys

def seal(key, data): # as store/query.c makes it
    value = 0xcbf29ce484222325
    for byte in struct.pack("<q", key) + data:
        value = (value ^ byte) * 0x100000001b3 & 2**64 - 1
    return struct.unpack("<i", struct.pack("<I", (value ^ value >> 32) & 2**32 - 1))[0]

db = sqlite3.connect(sys.argv[1])
db.create_function("seal", 2, seal)
for statement in sys.argv[2:]:
    rows = db.execute(statement).fetchall()
db.commit()
print(rows[0][0] if rows else "")' "$db" "$@"
}

run "$PROCTOR" gc
is "nothing recorded yet: status" "$status" 0
like "nothing recorded yet: it is said" "$stderr" 'nothing has been recorded'
run "$PROCTOR" gc --json
json "nothing recorded yet: nothing is removed" "$stdout" 'd["samples_rolled"] == 0 and d["bytes_before"] is None'
check "no database is made" [ ! -e "$db" ]

"$PROCTOR" run -q --job kept --interval 0.1 -- sh -c "$(gate kept); exit 3" </dev/null &
runner=$!
eventually has_ticks kept 10
pass kept
wait $runner
is "the job ran" $? 3
run "$PROCTOR" report kept --json
before=$stdout
run "$PROCTOR" gc --json
is "what is new stays: status" "$status" 0
json "what is new stays" "$stdout" 'd["samples_rolled"] == 0 and d["events_removed"] == 0 and not d["dry_run"]'
check "its samples are there" [ "$(sql 'SELECT count(*) FROM chunks')" -gt 0 ]

# As far as the rows say it all was 40 days ago.
ago=3456000000000000
sql "UPDATE folds SET first_ns = first_ns - $ago, last_ns = last_ns - $ago" \
	"UPDATE events SET wall_ns = wall_ns - $ago" \
	"UPDATE attempts SET started_wall_ns = started_wall_ns - $ago" >/dev/null
run "$PROCTOR" gc --dry-run --json
preview=$stdout
json "dry run: it tells what would go" "$preview" \
	'd["dry_run"] and d["samples_rolled"] > 5 and d["events_removed"] >= 2'
check "dry run: nothing is touched" [ "$(sql 'SELECT count(*) FROM chunks')" -gt 0 ]
run "$PROCTOR" gc --dry-run
like "dry run: for people" "$stdout" '[0-9]+  samples at full resolution, made into 1-minute values'

run "$PROCTOR" gc --json
is "status" "$status" 0
for key in samples_rolled folds_removed events_removed bytes_after bytes_given_back total_bytes; do
	is "$key: what the dry run said" "$(json_eval "$stdout" "d['$key']")" \
		"$(json_eval "$preview" "d['$key']")"
done
json "the database is told" "$stdout" 'd["bytes_after"] <= d["bytes_before"]'
is "its size is that of the file" "$(stat -c %s "$db")" "$(json_eval "$stdout" 'd["bytes_after"]')"
is "no sample is left" "$(sql 'SELECT count(*) FROM chunks')" 0
check "minutes are" [ "$(sql 'SELECT count(*) FROM rollups')" -gt 0 ]
is "the database is sound" "$(sql 'PRAGMA integrity_check')" ok
run "$PROCTOR" history --job kept --json
is "history has none of them" "$stdout" "[]"

# What is kept as minutes is not hidden from anybody.
samples=$(json_eval "$preview" 'd["samples_rolled"]')
run "$PROCTOR" sql --json "SELECT sum(samples) AS n, min(resolution_seconds) AS low, max(resolution_seconds) AS high
	FROM process_metrics WHERE job_id = 'kept'"
json "in SQL there are minutes for them" "$stdout" "d == [{'n': $samples, 'low': 60.0, 'high': 60.0}]"
run "$PROCTOR" sql --json "SELECT count(*) AS n FROM snapshots s JOIN process_metrics m ON m.snapshot_id = s.id
	WHERE s.resolution_seconds = 60 AND s.load_avg_1 IS NULL"
json "with snapshots that say so" "$stdout" 'd[0]["n"] > 0'
run "$PROCTOR" sql --json "SELECT * FROM process_minutes"
json "with least, average and largest" "$stdout" \
	"sum(m['samples'] for m in d) == $samples and all(m['rss_mb_min'] <= m['rss_mb_avg'] <= m['rss_mb_max'] for m in d)"
run "$PROCTOR" top --history 3d --json
json "top replays them" "[$(grep resolution_seconds <<<"$stdout" | paste -sd,)]" \
	'len(d) > 0 and all(s["resolution_seconds"] == 60 and s["job_progress"] is None and s["processes"] for s in d)'
run "$PROCTOR" top --history 3d
like "and says what they are" "$stdout" '^proctor recorded, averages of 60s '
run "$PROCTOR" export csv --job kept
is "they are exported" "$(python3 -c '
import csv, sys
print({r["resolution_seconds"] for r in csv.DictReader(sys.stdin)})' <<<"$stdout")" "{'60.0'}"
run "$PROCTOR" export csv --what snapshots --job kept
check "as snapshots too" [ "$(wc -l <<<"$stdout")" -gt 1 ]

run "$PROCTOR" report kept --json
is "the report is there" "$status" 0
for key in outcome exit_code peak_rss_mb total_cpu_seconds process_spawn_count; do
	is "the report still has $key" "$(json_eval "$stdout" "d['$key']")" \
		"$(json_eval "$before" "d['$key']")"
done
json "the report has its curve" "$stdout" 'len(d["series"]) > 5'
json "the report says that its events are gone" "$stdout" \
	'd["events"] == [] and any(u["what"] == "events" for u in d["unknown"])'

# An hour later there is more of it. The hour is part of the key that a row is sealed with.
sql 'UPDATE rollups SET id = id - (1 << 30), seal = seal(id - (1 << 30), data)' >/dev/null
run "$PROCTOR" run --job kept --interval 0.1 -- sleep 0.5
for as in "" --json --csv; do
	run "$PROCTOR" history --job kept $as
	is "history${as:+ $as} of what is partly minutes: status" "$status" 0
	like "and that it begins later is said" "$stderr" \
		'warning: before [0-9-]+ [0-9:]+ only 1-minute values are kept \(--minutes\)$'
done
run "$PROCTOR" history --job kept --since 5m
is "but not of a time when there was nothing" "$stderr" ""
run "$PROCTOR" history --job kept --minutes
is "nor with them" "$stderr" ""

run "$PROCTOR" gc
is "once more: status" "$status" 0
like "once more: there is nothing left" "$stdout" 'Nothing is old enough'

# The cap is on all together: a log that is not even the database's is part of it.
json "the dry run and the run have the same keys for it" "[$preview, $(
	"$PROCTOR" gc --json)]" 'all(d[i]["over_max_bytes"] == 0 and d[i]["max_bytes"] == 1 << 30 for i in (0, 1))'
echo 'jsonl_path: proctor.jsonl' >"$PROCTOR_HOME/proctor.yaml"
{ echo '{}'; head -c 70000 /dev/zero; } >"$PROCTOR_HOME/proctor.jsonl"
json "all together is more than the database" "$("$PROCTOR" gc --json)" \
	'd["total_bytes"] >= d["bytes_after"] + 65536'
printf 'jsonl_path: proctor.jsonl\nretention: {max_bytes: 16777216}\n' >"$PROCTOR_HOME/proctor.yaml"
for suffix in "" .1 .2; do
	{ echo '{}'; head -c 7000000 /dev/zero; } >"$PROCTOR_HOME/proctor.jsonl$suffix"
done
run "$PROCTOR" gc --dry-run --json
json "dry run: what is above it would go" "$stdout" 'd["logs_removed"] == 1 and d["over_max_bytes"] == 0'
check "and is there" [ -e "$PROCTOR_HOME/proctor.jsonl.2" ]
run "$PROCTOR" gc --json
json "the oldest log goes" "$stdout" 'd["logs_removed"] == 1 and d["over_max_bytes"] == 0 and d["attempts_removed"] == 0'
check "which is that" [ ! -e "$PROCTOR_HOME/proctor.jsonl.2" ]
check "and no other" [ -e "$PROCTOR_HOME/proctor.jsonl.1" ]
run "$PROCTOR" gc
like "for people it is told" "$stdout" 'With what waits beside it and the log of snapshots that is 1[0-9]'
rm "$PROCTOR_HOME"/proctor.yaml "$PROCTOR_HOME"/proctor.jsonl*

# ---- above max_bytes, and not an hour since it was done ----
echo 'retention: {max_bytes: 16777216}' >"$PROCTOR_HOME/proctor.yaml"
python3 - "$db" <<'EOF'
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
db.executemany("INSERT INTO events (attempt, wall_ns, pid, type, details) SELECT max(id), ?, 1, 'spawn', ?"
               " FROM attempts", [(time.time_ns() + i, "x" * (1 << 20)) for i in range(24)])
db.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('retained_ns', ?)",
           (time.time_ns() - 300 * 10**9,))
db.commit()
EOF
is_below() { [ "$(sql 'SELECT (SELECT page_count FROM pragma_page_count) * 4096 < 17000000')" = 1 ]; }
like "doctor says how much" "$("$PROCTOR" doctor)" 'lies beside it [0-9.]+ MB above max_bytes: "proctor gc" removes'
"$PROCTOR" start >/dev/null 2>&1
eventually is_below
check "who begins does not wait for the hour" is_below
is_told() { [ "$(json_eval "$("$PROCTOR" status --json)" 'd["over_max_bytes"]')" = 0 ]; }
eventually is_told
check "and says that nothing is above when it is done" is_told
"$PROCTOR" stop >/dev/null 2>&1
rm "$PROCTOR_HOME"/proctor.yaml

# ---- another writes ----
# beside_a_lock SECONDS: what a terminal shows of it meanwhile, and its status.
beside_a_lock() {
	python3 - "$PROCTOR" "$PROCTOR_HOME/proctor.db" "$1" <<'EOF'
import os, pty, sqlite3, subprocess, sys, time
db = sqlite3.connect(sys.argv[2], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
master, slave = pty.openpty()
gc = subprocess.Popen([sys.argv[1], "gc"], stdout=subprocess.DEVNULL, stderr=slave,
                      env=dict(os.environ, TERM="xterm"))
os.close(slave)
shown, until = b"", time.monotonic() + float(sys.argv[3])
while time.monotonic() < until or b"waits" not in shown:
    try:
        shown += os.read(master, 4096)
    except OSError:
        break
db.execute("ROLLBACK")
gc.wait()
print(gc.returncode, shown[-200:].decode(errors="replace").replace("\r", "\n"))
EOF
}
like "gc waits for another who writes, and says so" "$(beside_a_lock 1)" '; waits for another who writes'
like "and goes on then" "$(beside_a_lock 1)" '^0 '
like "but not for ever, and says for whom" "$(beside_a_lock 60)" 'is locked by process [0-9]+ \(python3'

# ---- on a full disk ----
on_a_full_disk() {
	mount -t tmpfs -o size=4m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	echo 'jsonl_path: proctor.jsonl' >"$TMP/small/proctor.yaml"
	"$PROCTOR" run -q --job small --interval 0.1 -- sleep 1
	"$PROCTOR" jobs >/dev/null # which stores what the run has logged
	head -c 100000 /dev/zero >"$TMP/small/proctor.jsonl.1"
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
db.close() # and with it the log goes' "$TMP/small/proctor.db"
	head -c 8m /dev/zero >"$TMP/small/filler" 2>/dev/null
	"$PROCTOR" gc >"$TMP/gc-alone" 2>&1
	echo $? >"$TMP/status-alone"
}
# What is old of a job on such a disk: N_ROWS of 1 KB that go one after the other, and an event of
# EVENT_MB that goes at once or not at all, which is written to the log as it is.
make_tight_disk() { # N_ROWS EVENT_MB FREE_KB
	mount -t tmpfs -o size=40m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	"$PROCTOR" run -q --job small --interval 0.1 -- sleep 1
	"$PROCTOR" jobs >/dev/null # which stores what the run has logged
	python3 - "$TMP/small/proctor.db" "$1" "$2" <<-'EOF'
		import sqlite3, sys, time
		db, n_rows, event_mb = sqlite3.connect(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
		hour = int(time.time()) // 3600 - 20 * 24
		db.executemany("INSERT INTO rollups (id, data, seal) VALUES ((? << 30) + ?, randomblob(1000), 0)",
		               [(hour, i) for i in range(1, n_rows + 1)])
		db.execute("INSERT INTO events (attempt, wall_ns, pid, type, details) SELECT max(id), ?, 1, 'spawn', ?"
		           " FROM attempts", ((hour - 1000) * 3600 * 10**9, "x" * (event_mb << 20)))
		db.execute("DELETE FROM meta WHERE key = 'retained_ns'") # it is due
		db.commit()
		db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
	EOF
	head -c 60m /dev/zero >"$TMP/small/filler" 2>/dev/null
	truncate -s "-${3}K" "$TMP/small/filler"
}
on_a_tight_disk() { # NAME N_ROWS EVENT_MB FREE_KB
	make_tight_disk "$2" "$3" "$4"
	before=$(stat -c %s "$TMP/small/proctor.db")
	"$PROCTOR" gc --json >"$TMP/$1.json" 2>"$TMP/$1.err"
	echo $? >"$TMP/$1.status"
	echo $((before - $(stat -c %s "$TMP/small/proctor.db"))) >"$TMP/$1.bytes"
}
count_old() {
	python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute("SELECT count(*) FROM rollups").fetchone())' \
		"$PROCTOR_HOME/proctor.db"
}
has_no_old() {
	[ "$(count_old)" = 0 ]
}
beside_a_run() {
	make_tight_disk 4000 0 1500 # the run's own rows need some
	"$PROCTOR" run -q --job next --interval 0.2 -- sh -c "$(gate next)" 2>"$TMP/next.err" &
	eventually has_no_old
	count_old >"$TMP/next.old"
	pass next
	wait
}
# What is old lies before what is not: to give it back pages are moved, with hardly any room for that.
with_hardly_any_room() {
	mount -t tmpfs -o size=12m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	printf 'jsonl_path: ""\nretention:\n  events_days: 1\n' >"$PROCTOR_HOME/proctor.yaml"
	"$PROCTOR" run -q -j a -- true
	"$PROCTOR" jobs >/dev/null
	python3 - "$PROCTOR_HOME/proctor.db" <<-'EOF'
		import sqlite3, sys, time
		db = sqlite3.connect(sys.argv[1])
		for n, at in (40000, time.time_ns() - 3 * 86400 * 10**9), (30000, time.time_ns()):
		    db.executemany("INSERT INTO events (attempt, wall_ns, pid, start_ticks, type, details)"
		                   " VALUES (1, ?, ?, ?, 'exit', '')",
		                   [(at + i, i * 31 % 99991 + 1, i * 7) for i in range(n)])
		db.commit()
		db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
	EOF
	room=$(df -k --output=avail "$PROCTOR_HOME" | tail -1)
	head -c $(((room - 110) * 1024)) /dev/zero >"$PROCTOR_HOME/fill"
	"$PROCTOR" gc --trust-clock --json >"$TMP/hardly.json" 2>"$TMP/hardly.err"
	echo $? >"$TMP/hardly.status"
}
# Rotated logs above max_bytes, and not a byte free: nobody can open the database.
make_disk_full_of_logs() {
	mount -t tmpfs -o size=24m,mode=700 tmpfs "$TMP/small" || exit 77
	export PROCTOR_HOME=$TMP/small
	printf 'jsonl_path: proctor.jsonl\nretention:\n  max_bytes: 16777216\n' >"$PROCTOR_HOME/proctor.yaml"
	"$PROCTOR" run -q --job before -- true
	"$PROCTOR" jobs >/dev/null
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
db.close() # and with it the log goes' "$PROCTOR_HOME/proctor.db"
	for i in 1 2; do
		head -c 8400000 /dev/zero >"$PROCTOR_HOME/proctor.jsonl.$i"
	done
	head -c 24m /dev/zero >"$PROCTOR_HOME/filler" 2>/dev/null
}
list_logs() {
	(cd "$PROCTOR_HOME" && echo proctor.jsonl.[12])
}
has_dropped_log() {
	[ "$(list_logs)" = proctor.jsonl.1 ]
}
run_among_logs() {
	make_disk_full_of_logs
	"$PROCTOR" run -q --job among --interval 0.2 -- sh -c "$(gate among)" 2>"$TMP/among.err" &
	eventually has_dropped_log
	list_logs >"$TMP/among.logs"
	pass among
	wait
	"$PROCTOR" jobs --json >"$TMP/among.json"
}
start_among_logs() {
	make_disk_full_of_logs
	"$PROCTOR" start >/dev/null 2>&1
	eventually has_dropped_log
	list_logs >"$TMP/daemon.logs"
	"$PROCTOR" stop >/dev/null 2>&1
}
mkdir "$TMP/small"
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	(
		export TMP PROCTOR
		export -f on_a_full_disk on_a_tight_disk make_tight_disk beside_a_run count_old has_no_old \
			gate pass eventually with_hardly_any_room \
			make_disk_full_of_logs list_logs has_dropped_log run_among_logs start_among_logs
		unshare -m bash -c on_a_full_disk &&
			unshare -m bash -c 'on_a_tight_disk some 2000 8 1500' &&
			unshare -m bash -c 'on_a_tight_disk all 4000 3 1500' &&
			unshare -m bash -c 'on_a_tight_disk little 4000 0 600' &&
			unshare -m bash -c beside_a_run &&
			unshare -m bash -c with_hardly_any_room &&
			unshare -m bash -c run_among_logs &&
			unshare -m bash -c start_among_logs
	)
	if [ $? = 77 ]; then
		skip "a full disk" "no tmpfs can be mounted here"
	else
		is "nobody has the database open: status" "$(cat "$TMP/status-alone")" 1
		like "what cannot be done is said" "$(cat "$TMP/gc-alone")" \
			'nothing can be removed from the database on a full disk: .*log'
		like "and what can be removed by hand" "$(cat "$TMP/gc-alone")" \
			'small/proctor.jsonl.1 and .2 have 98 KB: .* removed by hand'
		is "some can be removed, but not all: status" "$(cat "$TMP/some.status")" 1
		like "that is said" "$(cat "$TMP/some.err")" 'no more can be removed from the database'
		json "with what was" "$(cat "$TMP/some.json")" \
			'd["minute_rows_removed"] == 2000 and d["events_removed"] == 0 and d["bytes_given_back"] > 1 << 20'
		check "and the disk has it back" [ "$(cat "$TMP/some.bytes")" -gt 1048576 ]
		is "what was removed makes room for the rest: status" "$(cat "$TMP/all.status")" 0
		json "all of it is told" "$(cat "$TMP/all.json")" \
			'd["minute_rows_removed"] == 4000 and d["events_removed"] == 1 and d["bytes_given_back"] > 6 << 20'
		is "there is room for a few rows at a time: status" "$(cat "$TMP/little.status")" 0
		is "a run does it between its ticks as well" "$(cat "$TMP/next.old") $(cat "$TMP/next.err")" "0 "
		json "all go" "$(cat "$TMP/little.json")" 'd["minute_rows_removed"] == 4000 and d["events_removed"] == 1'
		is "with hardly any room it is given back: status" "$(cat "$TMP/hardly.status" "$TMP/hardly.err")" 0
		json "all that was removed" "$(cat "$TMP/hardly.json")" \
			'd["events_removed"] == 40000 and d["bytes_given_back"] > 2 << 20'
		is "a run drops logs above max_bytes where it cannot open the database" "$(cat "$TMP/among.logs")" proctor.jsonl.1
		json "and is recorded" "$(cat "$TMP/among.json")" '[j["job_id"] for j in d] == ["before", "among"]'
		is "with nothing to complain of" "$(cat "$TMP/among.err")" ""
		is "so does a daemon" "$(cat "$TMP/daemon.logs")" proctor.jsonl.1
	fi
else
	skip "a full disk" "only root can mount one here"
fi

run "$PROCTOR" gc everything
is "a word too many is refused" "$status" 2
like "and named" "$stderr" "'everything'"

finish
