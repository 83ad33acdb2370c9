#!/bin/bash
# docs/output.md has the fields of the JSON output, with their types, no more and no fewer.
. "$(dirname "$0")/lib.sh"
page=$SOURCE_ROOT/docs/output.md

# same NAME SECTION FILE...: the section of the page, and what was printed.
same() {
	local name=$1
	shift
	is "$name" "$(python3 "$INTEGRATION/page_fields.py" json "$page" "$@" 2>&1)" ""
}

# Opens nearly as many files as it may, between two phases, until pass NAME.
cat >"$TMP/work.py" <<'END'
import os, resource, subprocess, sys, time
proctor, passed = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
subprocess.run([proctor, "phase", "enter", "load"], check=True)
held = bytearray(20 << 20)
subprocess.run([proctor, "phase", "exit", "load"], check=True)
subprocess.run(["sh", "-c", "kill -TERM $$"])
if os.environ.get("RANK", "0") == "0":
    files = []
    while len(os.listdir("/proc/self/fd")) < 62:
        files.append(open("/dev/null"))
while os.path.exists(os.path.dirname(passed)) and not os.path.exists(passed):
    os.stat("/")
    time.sleep(0.01)
END

cat >"$TMP/job.yaml" <<END
job_id: fields
sheets:
  - name: work
    ranks: 2
    run: [python3, $TMP/work.py, $PROCTOR, $TMP/passed.work]
  - name: fail
    run: exit 3
    retries: 1
END

has_anomaly() { # JOB
	"$PROCTOR" anomalies --job "$1" --json 2>/dev/null | grep -q '"open_files":\[{'
}

# ---- report and run ----

"$PROCTOR" run -q --interval 0.2 --syscalls=auto --output "$TMP/run.json" -f "$TMP/job.yaml" &
pid=$!
check "something is wrong with it" eventually has_anomaly fields
run "$PROCTOR" report fields --json
cp "$TMP/stdout" "$TMP/running.json"
run "$PROCTOR" jobs --json
cp "$TMP/stdout" "$TMP/jobs-running.json"
pass work
wait "$pid"
is "the job ends as it should" "$?" 3
run "$PROCTOR" report fields --json
cp "$TMP/stdout" "$TMP/report.json"

for _ in 1 2 3; do
	"$PROCTOR" run -q --job like -- sh -c 'sleep 0.2'
done
run "$PROCTOR" report like --json
cp "$TMP/stdout" "$TMP/like.json"
"$PROCTOR" run -q --job killed --output "$TMP/killed.json" -- sh -c 'kill -9 $$'

# Of a tree that something else started the daemon knows what the host was doing.
mkdir -p "$PROCTOR_HOME"
cat >"$PROCTOR_HOME/proctor.yaml" <<END
interval_seconds: 0.5
limits:
  max_concurrent_jobs: 1
  max_daemon_cpu_percent: 100
END
start_daemon
python3 "$TMP/work.py" true "$TMP/passed.attached" &
pid=$!
check "a tree is attached" "$PROCTOR" attach --pid "$pid" --job attached
check "something is wrong with it, too" eventually has_anomaly attached
run "$PROCTOR" report attached --json
cp "$TMP/stdout" "$TMP/attached.json"

unseen=(--unseen 'anomalies[].evidence.culprit.seconds' --unseen 'processes[].failed_calls[]')
if ! grep -q '"syscalls":\[{' "$TMP/report.json"; then
	skip "system calls are in the page" "nothing counts them here"
	unseen+=(--unseen 'syscalls[]' --unseen 'processes[].syscalls[]')
fi
grep -qs '"top_syscalls":\[{' "$TMP"/{report,attached}.json ||
	unseen+=(--unseen 'anomalies[].evidence.culprit.top_syscalls[]')
same "report and run have the fields of the page" "report --json" "${unseen[@]}" \
	"$TMP"/{run,running,report,like,killed,attached}.json

# ---- jobs ----

printf 'job_id: first\nsheets:\n  - run: %s\n' "'$(gate first)'" >"$TMP/first.yaml"
printf 'job_id: second\nsheets:\n  - run: "true"\n' >"$TMP/second.yaml"
"$PROCTOR" submit "$TMP/first.yaml" >/dev/null
"$PROCTOR" submit "$TMP/second.yaml" >/dev/null
waits() {
	"$PROCTOR" jobs --json >"$TMP/jobs.json" 2>/dev/null && grep -q '"why_queued":"' "$TMP/jobs.json"
}
check "one job waits for another" eventually waits
same "jobs has the fields of the page" "jobs --json" "$TMP"/{jobs-running,jobs}.json
pass first
pass attached
run "$PROCTOR" wait second --json
echo "[$stdout]" >"$TMP/wait.json"
same "and wait" "jobs --json" "$TMP/wait.json"
wait "$pid"

# ---- what compares is no comparison with nothing ----

cat >"$TMP/page.md" <<'END'
## jobs --json

Found in: `[]`

| field | type | unit | null | meaning |
|---|---|---|---|---|
| `job_id` | integer | | never | a wrong type |
| `outcome` | text | | never | it is null while the job runs |
| `no_such_field` | text | | never | nothing prints this |
END
is "a wrong page is found wrong" "$(python3 "$INTEGRATION/page_fields.py" json "$TMP/page.md" "jobs --json" "$TMP/jobs-running.json" |
	grep -cE 'job_id is no integer|outcome is null|no_such_field is in the page|uid is not in the page')" 4

finish
