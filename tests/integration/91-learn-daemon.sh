#!/bin/bash
# A daemon that learns by itself: what ends becomes runs, an analysis is told on the bus, and what is
# expected of a job decides when it starts.
. "$(dirname "$0")/lib.sh"
config=$PROCTOR_HOME/proctor.yaml
mkdir -p "$PROCTOR_HOME"
children=()
trap '"$PROCTOR" stop --jobs 2>/dev/null; [ ${#children[@]} = 0 ] || kill "${children[@]}" 2>/dev/null; rm -rf "$TMP"' EXIT

# ask METHOD PARAMS: prints the answer of the daemon.
ask() { # METHOD PARAMS, or @FILE with them
	python3 - "$PROCTOR_HOME/proctor.sock" "$1" "$2" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
params = open(sys.argv[3][1:]).read() if sys.argv[3][0] == "@" else sys.argv[3]
s.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": sys.argv[2], "params": json.loads(params)}).encode() + b"\n")
print(s.makefile().readline())
END
}

answers() { # METHOD PARAMS EXPRESSION: of the answer, as d
	[ "$(json_eval "$(ask "$1" "$2")" "$3")" = True ]
}

job_is() { # JOB EXPRESSION: of its object in "jobs --json", as j
	[ "$(json_eval "$("$PROCTOR" jobs --json 2>/dev/null)" "[$2 for j in d if j['job_id'] == '$1'] == [True]")" = True ]
}

# sql QUERY: prints its one value, without writing.
sql() {
	python3 -c '
import sqlite3, sys
print(sqlite3.connect("file:%s?mode=ro" % sys.argv[1], uri=True).execute(sys.argv[2]).fetchone()[0])' \
		"$PROCTOR_HOME/proctor.db" "$1"
}

has_runs() { # N
	[ "$(sql 'SELECT count(*) FROM runs')" = "$1" ]
}

# Takes MB of memory, waits while the file WAIT is there, and exits with STATUS.
cat >"$TMP/eat.py" <<'END'
import os, sys, time
kept = b"x" * (int(sys.argv[1]) << 20)
while len(sys.argv) > 3 and os.path.exists(sys.argv[3]):
    time.sleep(0.05)
sys.exit(int(sys.argv[2]))
END

eat() { # JOB MB STATUS
	"$PROCTOR" run -q --job "$1" -- python3 "$TMP/eat.py" "$2" "$3" </dev/null
}

# What ended before there was a daemon.
eat before 41 0
printf 'interval_seconds: 0.2\nlimits:\n  max_concurrent_jobs: 8\n' >"$config"
"$PROCTOR" start
daemon=$(json_eval "$("$PROCTOR" status --json)" 'd["pid"]')

# ---- no data ----

json "without history the answer is null" "$(ask estimate '{"command": ["true"]}')" \
	'd["result"]["estimated_peak_memory_mb"] is None and d["result"]["estimated_cpu_seconds"] is None and d["result"]["confidence"] is None and d["result"]["runs"] == 0'
json "of nothing: refused" "$(ask estimate '{}')" 'd["error"]["code"] == -32602'
json "of two things: refused" "$(ask estimate '{"command": ["true"], "file": "sheets: []"}')" 'd["error"]["code"] == -32602'
json "of no command: refused" "$(ask estimate '{"command": []}')" 'd["error"]["code"] == -32602'
json "of a bad file: refused" "$(ask estimate '{"file": "sheets: 7"}')" 'd["error"]["code"] == -32602'
json "admitted, as nothing is known" "$(ask admit '{"command": ["true"]}')" \
	'd["result"]["answer"] == "admit" and d["result"]["estimated_peak_memory_mb"] is None and d["result"]["headroom_mb"] is None and "nothing is known" in d["result"]["reason"]'

# ---- what has ended becomes runs ----

check "what ended before it began" eventually has_runs 1
for i in 1 2 3 4 5; do
	eat "large-$i" $((60 + i)) 1
	eat "small-$i" $((20 + i)) 0
done
check "what ended since, without anybody asking" eventually has_runs 11
is "and each that could be was estimated, and scored" \
	"$(becomes 10 sql 'SELECT count(*) FROM estimates JOIN scores ON estimate = id')" 10

# ---- an analysis ----

# Asks for an analysis, and prints its answer and (WANTED of) the events that come with it: these may
# be behind the answer.
cat >"$TMP/listen.py" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.settimeout(60)
s.connect(sys.argv[1])
lines = s.makefile()
s.sendall(b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{"topics":["learn.*"]}}\n')
lines.readline()
s.sendall(b'{"jsonrpc":"2.0","id":2,"method":"correlate"}\n')
patterns, answer = [], None
while answer is None or len(patterns) < int(sys.argv[2]):
    message = json.loads(lines.readline())
    if message.get("id") == 2:
        answer = message["result"]
    else:
        patterns.append(message["params"])
print(json.dumps({"patterns": patterns, "answer": answer}))
END

count_news() { # prints how often something was believed anew since the daemon began
	json_eval "$(ask daemon.events '{"limit": 4096}')" 'sum("FINDING" in json.dumps(e) for e in d["result"])'
}

"$PROCTOR" events --follow --json >"$TMP/followed" &
followers=$!
"$PROCTOR" events --follow >"$TMP/followed.txt" &
followers="$followers $!"
eventually has_subscribers 2
run python3 "$TMP/listen.py" "$PROCTOR_HOME/proctor.sock" 1
json "an analysis finds what is there" "$stdout" \
	'd["answer"]["runs"] == 11 and any("failed 5 of 5" in f["sentence"] for f in d["answer"]["findings"])'
json "what is believed anew is told" "$stdout" \
	'all(p["topic"] == "learn.pattern" and p["data"]["type"] in ("FINDING", "RESOURCE_CORRELATION") for p in d["patterns"])'
has_followed() { grep -q learn.pattern "$TMP/followed" && grep -q learn.pattern "$TMP/followed.txt"; }
check "those who follow events are told" eventually has_followed
# shellcheck disable=SC2086 # they are two
kill $followers
json "with what it is and when" "[$(grep FINDING "$TMP/followed" | paste -sd,)]" \
	'all(e["event"] == "learn.pattern" and e["timestamp"] > 1.6e9 for e in d) and len(d) > 0'
like "and so in words" "$(grep -m1 learn.pattern "$TMP/followed.txt")" "^$(date +%Y)-"
json "and kept" "$("$PROCTOR" patterns --json)" 'any(p["type"] == "FINDING" and p["state"] == "supported" for p in d)'
n_news=$(count_news)
check "the last events have it too" test "$n_news" -gt 0
run python3 "$TMP/listen.py" "$PROCTOR_HOME/proctor.sock" 0
json "the same is found again" "$stdout" 'len(d["answer"]["findings"]) > 0'
is "which is no news" "$(count_news)" "$n_news"
json "nothing is to be said to it" "$(ask correlate '{"since": 1}')" 'd["error"]["code"] == -32602'

# ---- what a job needs decides when it starts ----

touch "$TMP/wait"
eat_file() { # MB NAME
	printf 'job_id: %s\nsheets:\n  - run: [python3, %s, "%s", "0", %s]\n' "$2" "$TMP/eat.py" "$1" "$TMP/wait"
}
eat_file 50 big >"$TMP/big.yaml"
rm "$TMP/wait"
for i in 1 2 3; do
	"$PROCTOR" run -q --job "learned-$i" -f "$TMP/big.yaml" </dev/null
done
check "they are learned from" eventually has_runs 14
params=$(python3 -c 'import json, sys; print(json.dumps({"file": open(sys.argv[1]).read()}))' "$TMP/big.yaml")
answer=$(ask estimate "$params")
json "a job file is estimated" "$answer" \
	'd["result"]["runs"] == 3 and d["result"]["basis"] == "exact command" and 50 < d["result"]["estimated_peak_memory_mb"] < 200 and d["result"]["confidence"] == 0.75'
is "as the program does it" "$(json_eval "$answer" 'd["result"]["estimated_peak_memory_mb"]')" \
	"$(json_eval "$("$PROCTOR" estimate --json -f "$TMP/big.yaml")" 'd["estimated_peak_memory_mb"]')"
json "admitted while there is room" "$(ask admit "$params")" \
	'd["result"]["answer"] == "admit" and d["result"]["headroom_mb"] > 0 and "is expected to need" in d["result"]["reason"]'

# The words of a command are those of the request, which is gone when the answer is worked out.
for _ in 1 2 3; do "$PROCTOR" run -q -- sh -c ': a command with words of its own; exit 0'; done
check "so is a command" eventually answers estimate '{"command": ["sh", "-c", ": a command with words of its own; exit 0"]}' \
	'd["result"]["runs"] == 3 and d["result"]["basis"] == "exact command"'
printf '{"command": ["%s"]}' "$(head -c 4000000 /dev/zero | tr '\0' A)" >"$TMP/long.json"
json "and a long one" "$(ask estimate "@$TMP/long.json")" 'd["result"]["basis"] == "no data"'

json "a scheduler may know better" "$(ask admit '{"estimated_peak_memory_mb": 1e9}')" \
	'd["result"]["answer"] == "reject" and "more than the" in d["result"]["reason"] and d["result"]["delay_seconds"] is None'
json "not of a sheet" "$(ask admit '{"for": "sheet", "estimated_peak_memory_mb": 1}')" 'd["error"]["code"] == -32602'

# From here on there is as much memory as jobs are to have: four times what is in use now. What runs of
# this job needed is written into the record, as no test can take that much.
used=$(json_eval "$(ask daemon.top '{}')" 'int(d["result"]["system_memory_used_mb"])')
printf 'interval_seconds: 0.2\nlimits:\n  max_concurrent_jobs: 8\n  max_memory_mb: %d\n' $((4 * used)) >"$config"
kill -HUP "$daemon"
set_peaks() { # MB: of all runs of the job
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=60)
db.execute("UPDATE runs SET peak_rss_mb = ? WHERE attempt IN (SELECT attempts.id FROM attempts JOIN jobs ON jobs.id = job WHERE job_id LIKE \"learned-%\")", (float(sys.argv[2]),))
db.commit()' "$PROCTOR_HOME/proctor.db" "$1"
}
set_peaks $((17 * used / 10))
check "the record says so" eventually answers estimate "$params" "d['result']['estimated_peak_memory_mb'] == $((17 * used / 10))"
check "and the limit is in force" eventually answers admit "$params" "0 < d['result']['headroom_mb'] < 2 * $used"
touch "$TMP/wait"
"$PROCTOR" submit --job first "$TMP/big.yaml" >/dev/null
check "the first runs" eventually job_is first 'j["status"] == "running"'
"$PROCTOR" submit --job second "$TMP/big.yaml" >/dev/null
check "the second waits for room" eventually job_is second 'j["status"] == "queued" and j["why_queued"].startswith("it is expected to need ")'
check "the first takes its memory" eventually answers job.list '{}' \
	'any(j["job_id"] == "first" and (j["rss_mb"] or 0) > 40 for j in d["result"])'
check "and the second still waits" job_is second 'j["status"] == "queued" and "running jobs may want" in j["why_queued"]'
json "a scheduler is told to wait" "$(ask admit "$params")" \
	'd["result"]["answer"] == "delay" and 2 <= d["result"]["delay_seconds"] <= 60 and d["result"]["headroom_mb"] < 0'
printf 'sheets:\n  - run: [true]\n' >"$TMP/other.yaml"
run "$PROCTOR" submit --job third "$TMP/other.yaml"
is "a job that needs little is not held up by one that waits" "$status" 0
run timeout 120 "$PROCTOR" wait third
is "and ends" "$status" 0
rm "$TMP/wait"
run timeout 120 "$PROCTOR" wait first
is "the first ends" "$status" 0
run timeout 120 "$PROCTOR" wait second
is "then the second has its turn" "$status" 0
set_peaks $((9 * used))
check "the record has more than there is" eventually answers admit "$params" 'd["result"]["answer"] == "reject"'
run "$PROCTOR" submit --job never "$TMP/big.yaml"
check "a job that never fits is refused" test "$status" -ne 0
like "with the reason" "$stderr" 'expected to need [0-9]+ MB, more than the [0-9]+ MB that jobs may use here'
eat_file 51 variant >"$TMP/variant.yaml"
run "$PROCTOR" submit --job variant "$TMP/variant.yaml"
check "nor one like it, with files of that size" test "$status" -ne 0
like "for the same reason" "$stderr" 'expected to need [0-9]+ MB, more than the [0-9]+ MB that jobs may use here'
json "a bad size is refused" "$(ask job.submit '{"file": "sheets: []", "workdir": "/", "input_bytes": -1}')" 'd["error"]["code"] == -32602'
json "it does not wait" "$("$PROCTOR" jobs --json)" 'not any(j["job_id"] == "never" and j["status"] == "queued" for j in d)'

finish
