#!/bin/bash
# What was recorded goes to other programs: export csv, events, top --history.
. "$(dirname "$0")/lib.sh"

# same_as_json WHAT: compares $TMP/csv with $TMP/json, which holds a list of objects; every key is a
# column with the very same value. Further words are keys that have no column. Prints "same N".
cat >"$TMP/same_as_json" <<'END'
import csv, json, sys

def same(cell, value):
    if value is None:
        return cell == ""
    if isinstance(value, bool):
        return cell == str(value).lower()
    if isinstance(value, int):
        return cell == str(value)
    if isinstance(value, float):
        return cell != "" and float(cell) == value
    if isinstance(value, str):
        return cell == value
    return json.loads(cell) == value

def flat(value, prefix=""):
    """psi_cpu: {some: {avg10: 1}} is psi_cpu_some_avg10; a line without values is nothing at all."""
    for key, v in value.items():
        if key.startswith("psi_") or prefix:
            yield from flat(v, prefix + key + "_") if isinstance(v, dict) else [(prefix + key, v)] if v is not None else []
        else:
            yield key, v

folder, *skipped = sys.argv[1:]
with open(folder + "/csv", newline="", encoding="utf-8", errors="strict") as f:
    rows = list(csv.DictReader(f, strict=True, restkey="too many", restval="too few"))
with open(folder + "/json") as f:
    objects = json.load(f)
if len(rows) != len(objects):
    sys.exit(f"{len(rows)} rows, {len(objects)} objects")
for row, o in zip(rows, objects):
    if "too many" in row or "too few" in row.values():
        sys.exit(f"not as many fields as the heading: {row}")
    for key, value in flat(o):
        if key not in skipped and not (key in row and same(row[key], value)):
            sys.exit(f"{key}: {row.get(key)!r} is not {value!r}")
    for key, cell in row.items():
        exact = key.replace("_bytes", "_mb"), key.replace("_ns", "_seconds")
        if cell and key.endswith("_bytes") and exact[0] in row and float(row[exact[0]]) * 1048576 != int(cell):
            sys.exit(f"{key}: {cell} is not {row[exact[0]]} MB")
        if cell and key.endswith("_ns") and exact[1] in row and float(row[exact[1]]) != int(cell) / 1e9:
            sys.exit(f"{key}: {cell} is not {row[exact[1]]} s")
print("same", len(rows))
END

export_csv() { # [OPTION...]: into $TMP/csv
	"$PROCTOR" export csv "$@" >"$TMP/csv" </dev/null
}

# Python, with d being what stdin holds: prints the value as JSON into $TMP/json.
pick() { # EXPRESSION
	python3 -c '
import json, sys
text = sys.stdin.read()
d = json.loads(text) if text[0] == "[" or text.count("\n") < 2 else [json.loads(l) for l in text.splitlines()]
json.dump(eval(sys.argv[1]), sys.stdout)' "$1" >"$TMP/json"
}

compared() { # NAME [KEY...]
	local name=$1 said
	shift
	said=$(python3 "$TMP/same_as_json" "$TMP" "$@" 2>&1)
	like "$name" "$said" '^same [1-9]'
}

names() { # of the columns in $TMP/csv
	head -n 1 "$TMP/csv"
}

# ---- before anything was recorded ----
run "$PROCTOR" export csv
is "nothing recorded: a heading and no row" "$status/$(wc -l <"$TMP/stdout")" 0/1
like "and it is said" "$stderr" 'nothing has been recorded'
run "$PROCTOR" export csv --job j
is "a job that is not there is an error" "$status/$stdout" 1/
run "$PROCTOR" top --history 1h --json
is "nothing to replay" "$status/$stdout/$stderr" 0//
run "$PROCTOR" top --history 1h
is "nothing to replay for people" "$status/$stdout" 0/
like "and it is said there too" "$stderr" 'nothing has been recorded'
run "$PROCTOR" events --json
is "no events" "$status/$stdout" 0/
check "looking makes no database" [ ! -e "$PROCTOR_HOME/proctor.db" ]

# ---- names that want to break out of their field ----
evil_name=$'=e,"\n\e[1m\xff'
evil_dir=$TMP/$'w,"\n\r\t\xfeé'
mkdir "$evil_dir"
cp /bin/sleep "$evil_dir/$evil_name"
(cd "$evil_dir" && "$PROCTOR" run -q --job @evil --interval 0.1 -- "./$evil_name" 1.5 </dev/null)
"$PROCTOR" run -q --job @evil --interval 0.1 -- sh -c 'sleep 1.4; exit 3' 'a,b' '"q"' $'n\nl' é→ \
	$'\xff\xfe' $'\e[31mred\e[0m' '=1+1' </dev/null
cat >"$TMP/job.yaml" <<'END'
job_id: sheets
sheets:
  - name: "a, \"b\" é"
    run: sleep 0.3; exit 4
    retries: 1
    on_failure: continue
  - name: "=HYPERLINK(\"x\")"
    run: sleep 0.3
    ranks: 2
END
"$PROCTOR" run -q --interval 0.1 -f "$TMP/job.yaml" </dev/null

# ---- each table holds what the JSON holds ----
export_csv --job @evil
"$PROCTOR" history --job @evil --json | pick d
compared "samples are those of history --json"
is "history --csv is the same table" "$("$PROCTOR" history --job @evil --csv | cksum)" "$(cksum <"$TMP/csv")"
like "the contract's names come with the exact ones" "$(names)" '^timestamp,.*,rss_mb,.*,timestamp_ns,.*,rss_bytes,'
check "an evil name is in it" python3 -c '
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1], newline="", encoding="utf-8")))
assert "=e,\"\n\x1b[1m\ufffd" in {r["comm"] for r in rows}, {r["comm"] for r in rows}
assert {r["attempt"] for r in rows} == {"1", "2"}' "$TMP/csv"
export_csv
samples=$(python3 -c 'import csv, sys; print(len(list(csv.reader(sys.stdin))))' <"$TMP/csv")
check "without --job it is everyone's" [ "$samples" -gt "$("$PROCTOR" history --job @evil | wc -l)" ]

export_csv --what snapshots --job @evil
"$PROCTOR" top --history 1h --job @evil --json | pick '[s for s in d if "event" not in s]'
compared "snapshots are those that were recorded" processes

export_csv --what events
"$PROCTOR" events --json | grep '"event":"process\.' | pick d
compared "events are those of events --json" event
"$PROCTOR" report @evil --json | pick 'd["events"]'
export_csv --what events --job @evil
sed -i '1p; /,"@evil",2,/!d' "$TMP/csv"
compared "and those of the report"

for job in @evil sheets; do
	export_csv --what jobs --job $job
	"$PROCTOR" report $job --json | pick '[d]'
	# of the two attempts of @evil the latest is reported
	python3 -c '
import csv, sys
rows = list(csv.reader(open(sys.argv[1], newline="")))
csv.writer(open(sys.argv[1], "w", newline="")).writerows([rows[0], rows[-1]])' "$TMP/csv"
	compared "$job: the row of jobs is the report's" verdict last_seen evidence sheet_metrics \
		syscall_hotspots anomalies telemetry runs_like_this rungs rung_reasons unknown processes events \
		phases syscalls series series_samples series_samples_per_point
done
export_csv --what jobs
"$PROCTOR" jobs --all --json | pick d
compared "jobs are those of jobs --json"
export_csv --what sheets --job sheets
"$PROCTOR" report sheets --json |
	pick '[{"sheet_num": int(n), "name": s["name"], "command": s["command"], **t} for n, s in d["sheet_metrics"].items() for t in s["tries"]]'
compared "a row for each try of each sheet" evidence
is "that is three" "$(grep -c '^"sheets",' "$TMP/csv")" 3
export_csv --what processes --job sheets
"$PROCTOR" report sheets --json | pick 'd["processes"]'
compared "processes are the report's"

# ---- text that a spreadsheet would run ----
unlike "text is as it is" "$("$PROCTOR" export csv --what sheets)" "'=HYPER"
like "unless it is for a spreadsheet" "$("$PROCTOR" export csv --what sheets --spreadsheet)" "\"'=HYPER"
like "an id is text too" "$("$PROCTOR" export csv --spreadsheet)" ",\"'@evil\","
unlike "and no field begins as a formula then" "$("$PROCTOR" export csv --spreadsheet)" '(^|,)"?[=+@-]'
if script -qec true /dev/null </dev/null >/dev/null 2>&1; then
	unlike "a terminal is not commanded" \
		"$(script -qec "'$PROCTOR' export csv" /dev/null </dev/null)" $'\e'
else
	skip "a terminal is not commanded" "no script(1) here"
fi
is "a pipe gets text as it is" "$("$PROCTOR" export csv --job @evil | grep -c $'\e')" \
	"$("$PROCTOR" history --job @evil --json | grep -o '\\u001b' | wc -l)"

# ---- from when till when ----
run "$PROCTOR" export csv --what events --since 1h --until 59m
is "nothing in that hour: a heading alone" "$status/$(wc -l <"$TMP/stdout")/$stderr" 0/1/
run "$PROCTOR" history --job sheets --until 1h --json
is "history has an end too" "$status/$stdout" "0/[]"
run "$PROCTOR" export csv --what jobs --until 1h
is "jobs that had not begun are left out" "$status/$(wc -l <"$TMP/stdout")" 0/1
run "$PROCTOR" events --until 1h
is "no events then" "$status/$stdout" 0/
like "which is said" "$stderr" 'no events were recorded'

# ---- events ----
run "$PROCTOR" events --job sheets --json
check "one object per line, by time" python3 -c '
import json, sys
every = [json.loads(l) for l in open(sys.argv[1])]
assert [e["timestamp"] for e in every] == sorted(e["timestamp"] for e in every)
assert all(e["job_id"] == "sheets" for e in every)
kinds = [e["event"] for e in every if e["event"].split(".")[0] in ("job", "sheet")]
assert kinds[0] == "job.started" and kinds[1] == "sheet.started" and kinds[-1].startswith("job."), kinds
d = [e for e in every if e["event"].startswith("process.")]
assert all(e["event"] == "process." + e["event_type"] for e in d)
want = set("event timestamp pid event_type exit_code signal_num job_id sheet_num details".split())
assert len(d) >= 8 and all(want <= set(e) for e in d)
assert [e["timestamp"] for e in d] == sorted(e["timestamp"] for e in d)
assert [e["exit_code"] for e in d].count(4) >= 2' "$TMP/stdout"
run "$PROCTOR" events --job @evil
like "for people" "$stdout" '^20[0-9-]+ [0-9:.]+ +2 +1 +[0-9]+  exit +exit 3 +@evil +sh -c'
unlike "and their terminals" "$stdout" $'\e'
run "$PROCTOR" events --job none
is "an unknown job is an error" "$status/$stdout" 1/
run "$PROCTOR" events --follow --until 1h
is "what has no end takes no end" "$status/$stdout" 2/

# ---- top ----
"$PROCTOR" snapshot --json >"$TMP/now"
run "$PROCTOR" top --history 1h --json
check "snapshots and all events, by time" python3 -c '
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
times = [l.get("changed", l["timestamp"]) for l in lines]
assert times == sorted(times)
snaps = [l for l in lines if "event" not in l]
events = [l for l in lines if "event" in l]
now = list(json.load(open(sys.argv[2])))
assert {tuple(s) for s in snaps} == {tuple(now)}
assert {p["job_id"] for s in snaps for p in s["processes"]} == {"@evil", "sheets"}
assert {e["event"].split(".")[0] for e in events} >= {"job", "sheet", "process"}
assert len(events) == int(sys.argv[3])' "$TMP/stdout" "$TMP/now" "$("$PROCTOR" events --json | wc -l)"
is "as many as history has" "$(json_eval "$("$PROCTOR" history --job @evil --json)" 'len(d)')" \
	"$("$PROCTOR" top --history 1h --job @evil --json | python3 -c '
import json, sys
print(sum(len(json.loads(l).get("processes", [])) for l in sys.stdin))')"
run "$PROCTOR" top --history 1h
like "for people it is the screen as text" "$stdout" '^proctor recorded .* 20[0-9-]+ [0-9:]+$'
like "with the host" "$stdout" '^MEM .* of [0-9.]+[MGT]'
like "its jobs" "$stdout" '^- sheets(#1)? [1-9]'
like "their processes" "$stdout" '^ +[0-9]+ sleep 0.3 +[A-Z] '
like "what happened to jobs" "$stdout" 'job.completed of @evil#1: '
like "and the ends of processes that failed" "$stdout" 'process.exit pid [0-9]+ of sheets, sheet 1: exit code 4'
unlike "and nothing for the terminal" "$stdout" $'\e'
unlike "and no row is selected" "$stdout" '^[>|]'
screens=$(grep -c '^proctor recorded' <<<"$stdout")
run "$PROCTOR" top --history 1h --interval 0.1 --job sheets
check "there can be more screens" [ "$(grep -c '^proctor recorded' <<<"$stdout")" -gt "$screens" ]
unlike "and of one job" "$stdout" '@evil'
run "$PROCTOR" top --history 1h --until 50m
is "nothing then" "$status/$stdout" 0/
like "which is said" "$stderr" 'nothing was recorded in that time'
run "$PROCTOR" top --history 1h --job none
is "an unknown job is an error" "$status/$stdout" 1/
for words in "--trace 1x" "--history 0s" "--history soon" "--history 1h --interval 0" \
	"--history 1h --json --interval 5" "--history 1h --until 2h" "--history 1h evil"; do
	# shellcheck disable=SC2086 # they are words
	run "$PROCTOR" top $words
	is "top $words: bad usage, in one line" "$status/$stdout/$(wc -l <"$TMP/stderr")" 2//1
done

# ---- files ----
run "$PROCTOR" export csv -o "$TMP/out.csv"
is "to a file" "$status/$stdout/$(stat -c %a "$TMP/out.csv")" 0//600
is "it is the same" "$(cksum <"$TMP/out.csv")" "$("$PROCTOR" export csv | cksum)"
echo old >"$TMP/old.csv"
run "$PROCTOR" export csv --job none -o "$TMP/old.csv"
is "a failure leaves what was there" "$status/$(cat "$TMP/old.csv")" 1/old
mkdir "$TMP/folder"
run "$PROCTOR" export csv -o "$TMP/folder"
is "a folder is no file" "$status/$(wc -l <"$TMP/stderr")/$(ls "$TMP/folder")" 1/1/
run "$PROCTOR" export csv -o "$TMP/none/out.csv"
is "a folder that is not there" "$status/$(wc -l <"$TMP/stderr")" 1/1
run "$PROCTOR" export csv -o -
is "- is stdout" "$status/$(wc -c <"$TMP/stdout")" "0/$(wc -c <"$TMP/out.csv")"
run "$PROCTOR" export csv -o /dev/full
is "a full disk" "$status/$(wc -l <"$TMP/stderr")" 1/1
like "is named" "$stderr" 'No space left'
check "devices stay devices" [ -c /dev/full ]
for verb in "export csv" "history --job sheets --csv" "events --json" "top --history 1h"; do
	# shellcheck disable=SC2086 # they are words
	"$PROCTOR" $verb >/dev/full 2>"$TMP/stderr" </dev/null
	is "$verb: no room on stdout is an error" "$?/$(wc -l <"$TMP/stderr")" 1/1
done
if [ "$(id -u)" -eq 0 ]; then
	chmod 755 "$TMP"
	cp "$PROCTOR" "$TMP/proctor"
	mkdir -m 755 "$TMP/locked"
	run setpriv --reuid=65534 --regid=65534 --clear-groups env PROCTOR_HOME="$TMP/nobody" \
		"$TMP/proctor" export csv -o "$TMP/locked/out.csv"
else
	mkdir -m 555 "$TMP/locked"
	run "$PROCTOR" export csv -o "$TMP/locked/out.csv"
fi
is "a folder that may not be written" "$status/$(ls "$TMP/locked")" 1/
like "is named" "$stderr" 'cannot write .*locked/out.csv: Permission denied'

# ---- bad usage ----
for words in "" "cvs" "otlp" "--job evil" "csv --what" "csv --what everything" "csv evil" \
	"csv --since soon" "csv --since 1h --until 2h" "csv --frobnicate" "csv -o ''"; do
	eval "run \"\$PROCTOR\" export $words"
	is "export $words: bad usage, in one line" "$status/$stdout/$(wc -l <"$TMP/stderr")" 2//1
done
like "what there is is said" "$("$PROCTOR" export 2>&1)" 'csv'
run "$PROCTOR" export --help
is "help is no error" "$status/$stderr" 0/
like "and lists the kinds" "$stdout" '^  csv '
unlike "only those that work" "$stdout" 'otlp'

# ---- much of it ----
"$PROCTOR" run -q --job many --interval 0.1 -- sh -c '
	i=0
	while [ $i -lt 400 ]; do sleep 300 & i=$((i + 1)); done
	'"$(gate many)" </dev/null &
has_many() { [ "$("$PROCTOR" sql --json "SELECT count(*) > 2500 AS n FROM process_metrics WHERE job_id = 'many'")" = '[{"n":1}]' ]; }
eventually has_many
pass many
wait $!
# Both read all of it; the first writes megabytes and the second little. VmHWM in KB, as long as it
# lives: what a parent gets to know at the end is never less than the parent's own.
used=$(python3 -c '
import fcntl, re, subprocess, sys
def measure(what):
    n, peak = 0, 0
    with subprocess.Popen([sys.argv[1], "export", "csv", "--job", "many", "--what", what], stdout=subprocess.PIPE) as p:
        fcntl.fcntl(p.stdout, fcntl.F_SETPIPE_SZ, 4096)
        while chunk := p.stdout.read1(4096):
            n += chunk.count(b"\n")
            mark = re.search(r"VmHWM:\s*(\d+)", open(f"/proc/{p.pid}/status").read())
            peak = int(mark[1]) if mark else peak
    assert p.returncode == 0
    return n - 1, peak
print(*measure("samples"), measure("snapshots")[1])' "$PROCTOR")
read -r count much little <<<"$used"
check "thousands of samples" [ "$count" -gt 2500 ]
check "in bounded memory ($much KB)" [ "$much" -lt 65536 ]
check "and in no more than without them ($little KB)" [ "$much" -lt $((little + 3072)) ]
for verb in "export csv" "history --job many --json" "events --json" "top --history 1h --json"; do
	# shellcheck disable=SC2086 # they are words
	{
		"$PROCTOR" $verb </dev/null 2>"$TMP/stderr"
		echo $? >"$TMP/status"
	} | head -c 1 >/dev/null
	is "$verb: nobody reads on, and nothing is said" "$(cat "$TMP/status" "$TMP/stderr")" 1
done
"$PROCTOR" export csv -o "$TMP/stopped.csv" </dev/null &
exporter=$!
while [ "/proc/$exporter/exe" -ef "$BASH" ]; do sleep 0.01; done # until it is one
kill -TERM $exporter
wait $exporter
is "ended by a signal it leaves no half file" "$(find "$TMP" -maxdepth 1 -name 'stopped.csv?*')" ""

finish
