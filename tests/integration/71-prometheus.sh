#!/bin/bash
# The host and its jobs as Prometheus reads them: its own client library parses what we print.
. "$(dirname "$0")/lib.sh"

# parsed FILE: every sample of the text as "name{labels} value", a line each.
parsed() {
	/usr/bin/python3 -c '
import sys
from prometheus_client.parser import text_string_to_metric_families as families
for family in families(open(sys.argv[1]).read()):
    if not family.documentation or family.type not in ("gauge", "counter"):
        sys.exit(f"{family.name}: type {family.type}, help {family.documentation!r}")
    for s in family.samples:
        print(s.name, " ".join(f"{k}={v}" for k, v in sorted(s.labels.items())), s.value)' "$1"
}

# within METRIC LEAST MOST: of the job, in what was parsed last.
within() {
	awk -v name="$1" -v least="$2" -v most="$3" '
		$1 == name { found = $3 >= least && $3 <= most }
		END { exit !found }' "$TMP/stdout"
}

run "$PROCTOR" export prometheus
is "without a record the host is there" "$status/$stderr" 0/
cp "$TMP/stdout" "$TMP/host"
run parsed "$TMP/host"
is "and it parses" "$status/$stderr" 0/
like "memory as the kernel has it" "$stdout" \
	"proctor_memory_total_bytes  $(($(awk '/^MemTotal/ { print $2 }' /proc/meminfo) * 1024))[.]0"
unlike "no job runs" "$stdout" proctor_job_

"$PROCTOR" run --job p/1 --interval 0.5 -- python3 -c '
import os, sys
held = bytearray(64 << 20)
while os.path.exists(sys.argv[1]): pass' "$TMP" 2>/dev/null &
pid=$!
touch "$TMP/proctor.prom"
chmod 644 "$TMP/proctor.prom"
uses_much() { # others may take all of the machine for a while
	"$PROCTOR" export prometheus -o "$TMP/proctor.prom" || return
	run parsed "$TMP/proctor.prom"
	within proctor_job_rss_bytes 67108864 134217728 && within proctor_job_cpu_cores 0.001 1.2
}
eventually uses_much
parsed=$stdout
cp "$TMP/proctor.prom" "$TMP/job.prom"
is "to a file, whose rights stay" "$(stat -c %a "$TMP/proctor.prom")" 644
is "and nothing is left beside it" "$(find "$TMP" -name 'proctor.prom*' | wc -l)" 1
rm -f "$TMP/new.prom"
(umask 022 && "$PROCTOR" export prometheus -o "$TMP/new.prom")
is "a new file can be read by the node exporter" "$(stat -c %a "$TMP/new.prom")" 644
(umask 077 && "$PROCTOR" export prometheus -o "$TMP/own.prom")
is "unless the umask says otherwise" "$(stat -c %a "$TMP/own.prom")" 600
run "$PROCTOR" export prometheus -o "$TMP/proctor.prom"
is "with nothing to say" "$status/$stdout$stderr" 0/
stdout=$parsed
echo "$parsed" >"$TMP/stdout"
like "a job runs" "$stdout" 'proctor_running_jobs  1.0'
like "with its process" "$stdout" 'proctor_job_processes job_id=p/1 1.0'
check "that holds what it took" within proctor_job_rss_bytes 67108864 134217728
check "and a core, or what is left of one" within proctor_job_cpu_cores 0.001 1.2
# test_report_prometheus compares the rest of the page.
grep -v gpu "$TMP/job.prom" >"$TMP/page.prom"
if [ -e /proc/pressure/io ]; then
	is "the metrics are those of docs/metrics.md" "$(python3 "$INTEGRATION/page_fields.py" metrics \
		"$SOURCE_ROOT/docs/metrics.md" Host "Running jobs" -- "$TMP/page.prom" 2>&1)" ""
else
	skip "the metrics are those of docs/metrics.md" "this kernel has no PSI"
fi
kill "$pid"
wait "$pid"

for words in "evil" "-o ''" "--job p/1"; do
	eval "run \"\$PROCTOR\" export prometheus $words"
	is "export prometheus $words: bad usage, in one line" \
		"$status/$stdout/$(wc -l <"$TMP/stderr")" 2//1
done
finish
