#!/bin/bash
# proctor ranks: telemetry of many ranks is checked, merged and analysed, in every format, and
# what is wrong with it is told with file and line.
. "$(dirname "$0")/lib.sh"
golden=$SOURCE_ROOT/tests/golden

# make_job FILE LEADER LEAD_SECONDS: 8 ranks at 1 Hz on two hosts; all rise, one of them before.
make_job() {
	python3 - "$@" <<'PYTHON'
import json, random, sys
path, leader, lead = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
random.seed(7)
def record(rank, at, kind, used, metadata):
    return {"schema_version": 2, "timestamp_ns": 1700000000000000000 + int(at * 1e9), "event_type": kind,
            "collector": "made.up", "sampling_interval_ms": 1000, "pid": 100 + rank, "host": f"n{rank // 4}",
            "job_id": "<job> & co", "rank": rank, "local_rank": rank % 4, "world_size": 8, "device_id": rank % 4,
            "allocator_allocated_bytes": int(used * .7), "allocator_reserved_bytes": int(used * .9),
            "allocator_active_bytes": None, "allocator_inactive_bytes": None, "allocator_change_bytes": 0,
            "device_used_bytes": int(used), "device_free_bytes": None, "device_total_bytes": None,
            "context": None, "metadata": metadata, "session_id": "s"}
def scope(rank, at, action, name, sequence):
    return record(rank, at, "phase_" + action, 0, {"phase_scope": {
        "action": action, "name": name, "path": ["train", name], "scope_id": f"{name}{rank}", "thread_id": 1,
        "thread_name": "main", "sequence": sequence, "attributes": {}}})
events = []
for rank in range(8):
    start = random.uniform(0, 12)
    onset = 35 + (0 if rank == leader else lead)
    events.append(scope(rank, start, "enter", "warm-up", 1))
    events.append(scope(rank, 30, "exit", "warm-up", 2))
    events.append(scope(rank, 30, "enter", "<b>leak</b>", 3))
    at = start
    while at < 60:
        used = 2e9 + random.gauss(0, 2e7) + max(0, at - onset) * 2e8
        events.append(record(rank, at, "sample", used, {}))
        at += 1
with open(path, "w") as out:
    for e in events:
        out.write(json.dumps(e) + "\n")
PYTHON
}

# ---- what there is ----
run "$PROCTOR" ranks --help
is "help is no error" "$status/$stderr" 0/
for action in analyze merge validate; do
	like "it lists $action" "$stdout" "^  $action "
	run "$PROCTOR" ranks $action --help
	is "$action has help" "$status" 0
	run "$PROCTOR" ranks $action
	is "$action wants files" "$status/$stdout/$(wc -l <"$TMP/stderr")" 2//1
	run "$PROCTOR" ranks $action "$TMP/none"
	is "$action: a file that is not there" "$status/$stdout/$(wc -l <"$TMP/stderr")" 2//1
	like "is named" "$stderr" 'none: No such file'
	run "$PROCTOR" ranks $action --frobnicate x
	is "$action: an unknown option" "$status/$(wc -l <"$TMP/stderr")" 2/1
	run "$PROCTOR" ranks --help
done
run "$PROCTOR" ranks
is "ranks wants an action" "$status/$stdout/$(wc -l <"$TMP/stderr")" 2//1
run "$PROCTOR" ranks analyse x
like "a near miss is helped" "$stderr" "did you mean 'analyze'"
run "$PROCTOR" ranks analyze --format pdf x
is "an unknown format" "$status/$(wc -l <"$TMP/stderr")" 2/1
run "$PROCTOR" ranks analyze --clock-error soon x
is "a bad clock error" "$status/$(wc -l <"$TMP/stderr")" 2/1

# ---- validate ----
check "every golden record is judged as the reference does" python3 - "$PROCTOR" "$golden/telemetry" "$TMP" <<'PYTHON'
import glob, json, subprocess, sys
proctor, golden, tmp = sys.argv[1:]
n = 0
for path in sorted(glob.glob(golden + "/*.json")):
    case = json.load(open(path))
    if case["exceeds_int64"]:
        continue
    with open(tmp + "/one.jsonl", "wb") as out:
        out.write(bytes.fromhex(case["line_hex"]) + b"\n")
    p = subprocess.run([proctor, "ranks", "validate", "--json", tmp + "/one.jsonl"], capture_output=True)
    got, want = json.loads(p.stdout), case["load_session"]
    assert (got["valid"], got["invalid"]) == (int(want["valid"]), int(not want["valid"])), (path, got)
    assert p.returncode == (0 if want["valid"] else 2), path
    if not want["valid"]:
        [error] = got["errors"]
        assert error["file"] == tmp + "/one.jsonl" and error["line"] == 1, error
        if case["single_fault"]:
            assert error["reason"] == want["reason"], (path, error)
    n += 1
assert n >= 39
PYTHON
make_job "$TMP/job.jsonl" 5 3
records=$(wc -l <"$TMP/job.jsonl")
run "$PROCTOR" ranks validate "$TMP/job.jsonl"
is "a whole file" "$status/$stdout" "0/$records valid, 0 invalid"
sed '3s/"rank": 0/"rank": 9/; 5s/.*/{/' "$TMP/job.jsonl" >"$TMP/bad.jsonl"
run "$PROCTOR" ranks validate "$TMP/bad.jsonl" "$TMP/job.jsonl"
is "faults are an error" "$status/$stderr" 2/
like "each in a line" "$stdout" "bad.jsonl':3: .*rank_not_below_world_size"
like "and all" "$stdout" "bad.jsonl':5: .*bad_json"
like "counted" "$stdout" "^$((2 * records - 2)) valid, 2 invalid$"
run "$PROCTOR" ranks validate --json "$TMP/bad.jsonl"
json "the same for programs" "$stdout" '(d["valid"] > 300 and d["invalid"] == 2 and [e["line"] for e in d["errors"]] == [3, 5])'

json "and names the field" "$stdout" '(d["errors"][0]["field"] == "rank" and "field" not in d["errors"][1])'
run "$PROCTOR" ranks validate --json "$TMP/job.jsonl" "$TMP/none"
json "a file that cannot be read has no line" "$stdout" \
	"(d['errors'] == [{'file': '$TMP/none', 'line': None, 'reason': 'unreadable'}])"

# ---- two jobs ----
sed 's/"<job> & co"/"other-1"/' "$TMP/job.jsonl" | head -n 50 >"$TMP/other.jsonl"
run "$PROCTOR" ranks analyze --json "$TMP/job.jsonl" "$TMP/other.jsonl"
json "what is left out is named" "$stdout" \
	'([j["job_id"] for j in d["left_out_jobs"]] == ["other-1"] and 0 < d["left_out_jobs"][0]["samples"] < 50)'
run "$PROCTOR" ranks analyze "$TMP/job.jsonl" "$TMP/other.jsonl"
like "also for people" "$(tr -s ' \n' ' ' <<<"$stdout")" "left out are other-1 \([0-9]+ samples\)\..*--job ID"
run "$PROCTOR" ranks merge "$TMP/job.jsonl" "$TMP/other.jsonl"
like "and by merge" "$stderr" "left out are other-1 \([0-9]+ samples\)"

# ---- one job in many forms ----
mkdir -p "$TMP/folder/sub"
python3 - "$TMP" <<'PYTHON'
import csv, gzip, json, sys
tmp = sys.argv[1]
records = [json.loads(l) for l in open(tmp + "/job.jsonl")]
json.dump(records, open(tmp + "/array.json", "w"), indent=1)
json.dump({"made": "up", "events": records}, open(tmp + "/events.json", "w"))
gzip.open(tmp + "/job.jsonl.gz", "wt").writelines(open(tmp + "/job.jsonl"))
with open(tmp + "/job.csv", "w", newline="") as out:
    w = csv.DictWriter(out, list(records[0]))
    w.writeheader()
    w.writerows({**r, "metadata": json.dumps(r["metadata"])} for r in records)
for rank in range(8):
    with open(f"{tmp}/folder/{'sub/' if rank % 2 else ''}rank{rank}.jsonl", "w") as out:
        out.writelines(json.dumps(r) + "\n" for r in records if r["rank"] == rank)
PYTHON
"$PROCTOR" ranks analyze --json "$TMP/job.jsonl" >"$TMP/want.json"
forget='{k: v for k, v in d.items() if k not in ("input", "rank_sample_counts")}'
want=$(json_eval "$(cat "$TMP/want.json")" "$forget")
for form in array.json events.json job.jsonl.gz job.csv folder; do
	run "$PROCTOR" ranks analyze --json "$TMP/$form"
	is "$form gives the same" "$(json_eval "$stdout" "$forget")" "$want"
done
is "so does standard input" "$(json_eval "$("$PROCTOR" ranks analyze --json - <"$TMP/job.jsonl")" "$forget")" "$want"
if command -v zstd >/dev/null; then
	zstd -q "$TMP/job.jsonl" -o "$TMP/job.jsonl.zst"
	is "and zstd" "$(json_eval "$("$PROCTOR" ranks analyze --json "$TMP/job.jsonl.zst")" "$forget")" "$want"
else
	skip "and zstd" "no zstd(1) here"
fi

# ---- the finding ----
json "the leader is named" "$(cat "$TMP/want.json")" '(d["finding"]["verdict"] == "named" and d["finding"]["rank"] == 5 and d["finding"]["probability"] >= 0.9)'
json "with its onset" "$(cat "$TMP/want.json")" '(abs(d["finding"]["onset_ns"] - 1700000035000000000) < 5e8 and
	d["finding"]["onset_interval_ns"][0] <= d["finding"]["onset_ns"] <= d["finding"]["onset_interval_ns"][1])'
json "and phase" "$(cat "$TMP/want.json")" '(d["finding"]["phase_attribution"]["phase_path"] == "train / <b>leak</b>")'
json "all candidates are listed" "$(cat "$TMP/want.json")" '(sorted(c["rank"] for c in d["finding"]["candidates"]) == list(range(8)))'
json "the keys of the reference are there" "$(cat "$TMP/want.json")" '({"job_id", "world_size", "participating_ranks", "missing_ranks", "rank_sample_counts", "alignment_offsets_ns",
	 "cluster_onset_timestamp_ns", "first_cause_suspects", "notes"} <= set(d) and
	all(isinstance(n, str) for n in d["notes"]) and len(d["notes"]) == len(d["note_codes"]))'
json "each rank has its row" "$(cat "$TMP/want.json")" '(len(d["ranks"]) == 8 and all(r["peak_used_bytes"] >= r["last_used_bytes"] for r in d["ranks"]))'
json "peaks add up to more than any moment has" "$(cat "$TMP/want.json")" '(0 < d["memory"]["same_instant_peak_bytes"] <= d["memory"]["sum_of_peaks_bytes"])'
make_job "$TMP/together.jsonl" 5 0
run "$PROCTOR" ranks analyze --json "$TMP/together.jsonl"
json "nobody is named when all rise together" "$stdout" '(d["finding"]["verdict"] == "none" and d["finding"]["rank"] is None)'
make_job "$TMP/close.jsonl" 5 0.6
run "$PROCTOR" ranks analyze --json --clock-error 2000 "$TMP/close.jsonl"
json "nor when the clocks are too far off" "$stdout" '(d["finding"]["verdict"] != "named" and d["finding"]["clocks"]["error_ns"] == 2000000000)'
grep -v '"rank": 2,' "$TMP/job.jsonl" >"$TMP/missing.jsonl"
run "$PROCTOR" ranks analyze --json "$TMP/missing.jsonl"
json "a missing rank is told" "$stdout" '(d["missing_ranks"] == [2] and "missing_ranks" in d["note_codes"] and "no record" in d["finding"]["reason"])'

# Even rises, of which one begins with a larger step in its second sample: it is one rise all the same.
python3 - "$TMP" <<'PYTHON'
import json, sys
MIB, DT = 1 << 20, 0.5
def memory(begin, steps):
    value, k = 14 * MIB, 0
    for i in range(80):
        t = i * DT + 0.379
        if t >= begin:
            value += steps[min(k, len(steps) - 1)] * MIB
            k += 1
        yield t, value
def write(name, ranks):
    with open(sys.argv[1] + "/" + name, "w") as out:
        for rank, samples in ranks.items():
            for t, value in samples:
                out.write(json.dumps({
                    "schema_version": 2, "timestamp_ns": 1794779052000000000 + int(t * 1e9), "event_type": "sample",
                    "collector": "x", "sampling_interval_ms": 500, "pid": 100 + rank, "host": "h", "device_id": 0,
                    "job_id": "J", "rank": rank, "local_rank": rank, "world_size": 4,
                    "allocator_allocated_bytes": value, "allocator_reserved_bytes": value, "allocator_change_bytes": 0,
                    "allocator_active_bytes": None, "allocator_inactive_bytes": None, "device_free_bytes": None,
                    "device_total_bytes": None, "context": None, "device_used_bytes": value,
                    "metadata": {"boot_id": "b"}}) + "\n")
late = {rank: list(memory(13.6, [4])) for rank in (2, 3)}
write("uneven.jsonl", {0: memory(12.0, [4, 8, 4]), 1: memory(12.6, [4]), **late})
write("lost.jsonl", {rank: memory(13.6, [4]) for rank in (0, 2, 3)})
PYTHON
check "an array may be cut anywhere in its last record" python3 - "$PROCTOR" "$TMP" <<'PYTHON'
import json, subprocess, sys
proctor, tmp = sys.argv[1:]
records = [line.strip() for line in open(tmp + "/uneven.jsonl")][:3]
text = "[" + ", ".join(records)
begin = len(text) - len(records[-1])
bad = []
for cut in range(begin + 1, len(text), 7):
    with open(tmp + "/cut.json", "w") as out:
        out.write(text[:cut])
    done = subprocess.run([proctor, "ranks", "validate", "--json", tmp + "/cut.json"], capture_output=True, text=True)
    if json.loads(done.stdout)["valid"] != 2 or done.returncode != 0:
        bad.append((cut - begin, text[cut - 20:cut], done.stdout))
print(*bad[:3], sep="\n")
sys.exit(bool(bad))
PYTHON
run "$PROCTOR" ranks analyze --json "$TMP/uneven.jsonl"
json "a rise that begins with a small part is one" "$stdout" \
	'[(c["rank"], c["shape"]) for c in d["finding"]["candidates"]][0] == (0, "ramp") and d["finding"]["candidates"][0]["onset_interval_ns"][1] < 1794779064400000000'
run "$PROCTOR" ranks analyze --json "$TMP/lost.jsonl"
json "who rose together may have followed one without a record" "$stdout" \
	'd["finding"]["verdict"] == "cannot_tell" and d["finding"]["reason_code"] == "ranks_not_recorded"'

# ---- for people ----
run "$PROCTOR" ranks analyze "$TMP/job.jsonl"
is "text" "$status/$stderr" 0/
like "begins with the culprit" "$(tr -s ' \n' ' ' <<<"$stdout")" 'CULPRIT rank 5 \(n1, pid 105\): first, by [0-9.]+ s, \+[0-9.]+ MB/s since .* \(90 %: .* to .*\), phase '\''train / <b>leak</b>'\''; 7 of the other 7 follow\.'
like "has a row per rank" "$stdout" '^ +7 +5[0-9] '
run "$PROCTOR" ranks analyze --format md "$TMP/job.jsonl"
like "Markdown" "$stdout" '^\*\*CULPRIT rank 5 .*\*\*: '
like "escaped" "$stdout" 'job \\<job\\> \\& co'
run "$PROCTOR" ranks analyze --format html -o "$TMP/page.html" "$TMP/job.jsonl"
is "HTML to a file" "$status/$stdout/$stderr" 0//
check "one page that needs nothing else, everything escaped" python3 - "$TMP/page.html" <<'PYTHON'
import re, sys
from html.parser import HTMLParser
text = open(sys.argv[1], encoding="utf-8").read()
class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags = [], []
    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "line", "rect", "polyline"):
            self.open.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
    def handle_endtag(self, tag):
        if tag not in ("rect", "line", "polyline"):
            assert self.open.pop() == tag, tag
page = Page()
page.feed(text)
assert page.open == [], page.open
names = [t for t, _ in page.tags]
assert "svg" in names and names.count("polyline") == 8 and "script" not in names and "strong" in names
assert "<b>leak" not in text and "&lt;b&gt;leak" in text and "&lt;job&gt; &amp; co" in text
onsets = [a for t, a in page.tags if a.get("class") == "onset"]
assert len(onsets) == 8 and sum(a["stroke"] == "#c22" for a in onsets) == 1
assert any(a.get("class") == "phase" for _, a in page.tags)
for _, attrs in page.tags:
    assert not {"src", "href", "onload"} & set(attrs), attrs
assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
PYTHON

# ---- merge ----
for number in 001 005 029 038 058; do
	check "the merged time line of golden case $number" python3 - "$PROCTOR" "$golden/crossrank/$number" <<'PYTHON'
import csv, io, json, subprocess, sys
proctor, case = sys.argv[1:]
want = json.load(open(case + ".expected.json"))
lines = subprocess.run([proctor, "ranks", "merge", case + ".in.jsonl"], capture_output=True, check=True).stdout
got = [json.loads(l) for l in lines.splitlines()]
assert [list(g.values()) for g in got] == want["timeline"]
assert all(list(g) == want["timeline_columns"] for g in got)
text = subprocess.run([proctor, "ranks", "merge", "--csv", case + ".in.jsonl"], capture_output=True, check=True).stdout
rows = list(csv.reader(io.StringIO(text.decode())))
assert rows[0] == want["timeline_columns"]
assert [[int(v) for v in r] for r in rows[1:]] == want["timeline"]
PYTHON
done
"$PROCTOR" ranks merge "$TMP/job.jsonl" | head -n 1 >/dev/null
is "nobody reads on, and nothing hangs" "${PIPESTATUS[1]}" 0

# ---- damage ----
run "$PROCTOR" ranks analyze --json "$TMP/bad.jsonl"
is "invalid records are refused" "$status/$stdout" 2/
like "with file and line" "$stderr" "bad.jsonl':3: .*rank_not_below"
run "$PROCTOR" ranks analyze --json --skip-invalid "$TMP/bad.jsonl"
is "unless they are to be skipped" "$status" 0
json "and counted" "$stdout" 'd["input"]["invalid"] == 2 and d["finding"]["rank"] == 5'
printf '{"a":1}\n' >"$TMP/not_one.jsonl"
run "$PROCTOR" ranks analyze --skip-invalid "$TMP/not_one.jsonl"
is "but not where none is left" "$status/$stdout" 2/
run "$PROCTOR" ranks merge --skip-invalid "$TMP/not_one.jsonl"
is "nor by merge" "$status/$stdout" 2/
head -c -30 "$TMP/job.jsonl" >"$TMP/cut.jsonl"
run "$PROCTOR" ranks analyze --json "$TMP/cut.jsonl"
is "a file that was cut off is analysed" "$status" 0
json "without its last record" "$stdout" "d['input']['cut_off'] == 1 and d['input']['valid'] == $records - 1"
like "which is said" "$stderr" "cut.jsonl':$records: .*only this record is lost"
run "$PROCTOR" ranks validate "$TMP/cut.jsonl"
is "and not called valid" "$status" 2
head -c 1000 "$TMP/job.jsonl.gz" >"$TMP/cut.jsonl.gz"
run "$PROCTOR" ranks analyze --json "$TMP/cut.jsonl.gz"
is "nor does a cut gzip lose the rest" "$status" 0
mkdir "$TMP/no-telemetry"
: >"$TMP/no-telemetry/readme.txt"
run "$PROCTOR" ranks validate "$TMP/no-telemetry"
is "a folder with nothing to read is a mistake" "$status/$stdout" 2/
like "which is told" "$stderr" "no file in the folder .*no-telemetry"
head -c 4096 /dev/zero >>"$TMP/job.jsonl.gz"
run "$PROCTOR" ranks validate --json "$TMP/job.jsonl.gz"
json "zeros behind a gzip file are no fault" "$stdout" 'd["invalid"] == 0'
run "$PROCTOR" ranks validate --json "$TMP/cut.jsonl.gz"
json "a cut gzip file is one fault" "$stdout" '[e["reason"] for e in d["errors"]] == ["bad_compression"]'
run "$PROCTOR" ranks validate --json "$TMP/none.jsonl" "$TMP/job.jsonl"
is "a file that is not there is a fault" "$status" 2
json "among others, which are still checked" "$stdout" "(d['errors'][0]['reason'] == 'unreadable' and d['valid'] == $records)"
: >"$TMP/empty.jsonl"
: >"$TMP/empty.csv"
printf 'a,b\n1,2\n3,4\n' >"$TMP/heading.csv"
for action in analyze merge validate; do
	run "$PROCTOR" ranks $action "$TMP/empty.jsonl" "$TMP/empty.csv"
	is "$action: no record at all is bad input" "$status" 2
	like "which is said" "$stderr" "no record in any of the 2 files"
	run "$PROCTOR" ranks $action "$TMP/heading.csv"
	is "$action: so is a heading of another table" "$status" 2
	like "told once, for its line" "$stdout$stderr" "heading.csv':1: .*\(bad_heading\)"
done
run "$PROCTOR" ranks analyze --json "$TMP/empty.jsonl"
is "but a program is answered that there is none" "$status" 0
json "in a summary like any other" "$stdout" \
	'd["note_codes"] == ["no_events", "no_sample_events"] and d["world_size"] == 0 and d["finding"]["verdict"] == "cannot_tell"'
like "and a person is told" "$stderr" "no record in the file"
run "$PROCTOR" ranks analyze --json "$TMP/empty.jsonl" "$TMP/job.jsonl"
is "an empty file among others is a warning" "$status/$stderr" "0/proctor: warning: 1 of 2 files: no record in '$TMP/empty.jsonl'"
json "and is counted" "$stdout" 'd["input"]["empty_files"] == 1'

# ---- a CSV that was cut inside its last number ----
"$PROCTOR" ranks merge --csv "$TMP/job.jsonl" >"$TMP/merged.csv"
sed '$ s/$/123/' "$TMP/merged.csv" | head -c -2 >"$TMP/cut.csv"
run "$PROCTOR" ranks validate --json "$TMP/cut.csv"
json "a row without its end is left out" "$stdout" \
	"(d['errors'] == [{'file': '$TMP/cut.csv', 'line': $(wc -l <"$TMP/merged.csv"), 'reason': 'cut_csv'}])"
run "$PROCTOR" ranks merge --csv "$TMP/cut.csv"
is "and no more" "$status/$stdout" "0/$(head -n -1 "$TMP/merged.csv")"
like "which is told" "$stderr" "only this record is lost"

# ---- what was merged is read again ----
"$PROCTOR" ranks merge "$TMP/job.jsonl" >"$TMP/merged.jsonl"
for form in csv jsonl; do
	csv=()
	[ $form = csv ] && csv=(--csv)
	run "$PROCTOR" ranks merge "${csv[@]}" "$TMP/merged.$form"
	is "a merged $form stays as it is" "$status/$stdout" "0/$(cat "$TMP/merged.$form")"
	run "$PROCTOR" ranks validate "$TMP/merged.$form"
	is "and is valid" "$status" 0
done
run "$PROCTOR" ranks merge "$TMP/job.jsonl" "$TMP/job.jsonl"
is "samples that are given twice are printed once" "$stdout" "$(cat "$TMP/merged.jsonl")"
like "and counted" "$stderr" "$(wc -l <"$TMP/merged.jsonl") samples were given more than once"
for form in csv jsonl; do
	csv=()
	[ $form = csv ] && csv=(--csv)
	run "$PROCTOR" ranks merge "${csv[@]}" "$TMP/job.jsonl" "$TMP/merged.$form"
	is "also beside what was merged of them, $form" "$stdout" "$(cat "$TMP/merged.$form")"
done
python3 - "$TMP/job.jsonl" >"$TMP/devices.jsonl" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    if e["event_type"] == "sample" and e["rank"] < 2:
        for device, used in ((-1, 7), (0, 7), (1, 9)):
            e.update(device_id=device, device_used_bytes=used)
            print(json.dumps(e))
PYTHON
for form in csv jsonl; do
	csv=()
	[ $form = csv ] && csv=(--csv)
	"$PROCTOR" ranks merge "${csv[@]}" "$TMP/devices.jsonl" >"$TMP/devices_merged.$form" 2>"$TMP/devices.err"
	is "samples of several devices are all printed, $form" "$(grep -c '[0-9]' "$TMP/devices_merged.$form")$(cat "$TMP/devices.err")" \
		"$(wc -l <"$TMP/devices.jsonl")"
	run "$PROCTOR" ranks merge "${csv[@]}" "$TMP/devices.jsonl" "$TMP/devices_merged.$form" "$TMP/devices.jsonl"
	is "and once where they are given three times, $form" "$stdout" "$(cat "$TMP/devices_merged.$form")"
	like "which is told, $form" "$stderr" "$(($(wc -l <"$TMP/devices.jsonl") * 2)) samples were given more than once"
	run "$PROCTOR" ranks merge "${csv[@]}" "$TMP/devices_merged.$form"
	is "and stay as they are, $form" "$stdout$stderr" "$(cat "$TMP/devices_merged.$form")"
done
run "$PROCTOR" ranks analyze --json --clock-error 1 "$TMP/merged.jsonl"
json "a merged time line has the same answer" "$stdout" "d['finding']['rank'] == 5"

# ---- sentences ----
make_job "$TMP/together.jsonl" 5 0
run "$PROCTOR" ranks analyze --json "$TMP/together.jsonl"
json "what all share is bounded by what would have shown" "$stdout" \
	"(d['finding']['reason_code'] == 'shared_by_all' and 0 < d['finding']['lead_below_ns'] <= 2500000000 and 'none leads by more than' in d['finding']['reason'])"
run "$PROCTOR" ranks analyze "$TMP/job.jsonl"
like "what is assumed of clocks stands with the answer" "$(tr -s ' \n' ' ' <<<"$stdout")" \
	"^.*CULPRIT rank 5 .*if the clocks of the hosts are right to 10 ms, which is assumed.* Who rose"
run "$PROCTOR" ranks analyze --json "$TMP/job.jsonl"
json "also for programs" "$stdout" "('which is assumed' in d['finding']['reason'] and d['finding']['given_back_ns'] is None)"
python3 - "$TMP/job.jsonl" >"$TMP/spike.jsonl" <<'PYTHON'
import json, sys
for line in open(sys.argv[1]):
    e = json.loads(line)
    at = (e["timestamp_ns"] - 1700000000000000000) / 1e9
    if e["event_type"] == "sample":
        e["device_used_bytes"] = 2000000000 + (1500000000 if e["rank"] == 5 and 30 < at < 40 else 0)
        e["allocator_allocated_bytes"] = e["allocator_reserved_bytes"] = e["device_used_bytes"]
    print(json.dumps(e))
PYTHON
run "$PROCTOR" ranks analyze "$TMP/spike.jsonl"
like "what was given back is said to be" "$(tr -s ' \n' ' ' <<<"$stdout")" "^.*TRANSIENT rank 5 \(n1, pid 105\): .*rank 5 rose, of 8 ranks, by 1.4 GB. Most of what it gained was given back [0-9.]+ s later, while it went on: that passed\."
printf '%s\n' '{"timestamp": 1, "memory_mb": 5, "rank": 3, "world_size": 2147483648}' >"$TMP/world.jsonl"
run "$PROCTOR" ranks analyze --json "$TMP/world.jsonl"
json "a huge world is counted, not listed" "$stdout" '(len(d["missing_ranks"]) == 10000 and d["missing_ranks_count"] == 2147483647)'
run "$PROCTOR" ranks analyze "$TMP/world.jsonl"
like "for people a few are" "$(tr -s ' \n' ' ' <<<"$stdout")" "of these ranks: 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and 2147483631 more\."
python3 - >"$TMP/300.jsonl" <<'PYTHON'
for rank in range(300):
    for second in range(40):
        mb = 1000 + max(0, second - (20 if rank == 297 else 23)) * 50 + (rank * 7 + second * 3) % 5
        print('{"timestamp": %d, "memory_mb": %d, "rank": %d, "world_size": 300, "host": "h"}' % (second, mb, rank))
PYTHON
run "$PROCTOR" ranks analyze "$TMP/300.jsonl"
is "a table of many ranks says how many it leaves out" "$(grep -c '^  44 more ranks are in the JSON\.$' <<<"$stdout")" 2
mkdir "$TMP/many"
for i in $(seq 1 2000); do
	printf '{"timestamp": %d, "memory_mb": 5, "rank": %d, "world_size": 2}\n' "$i" $((i % 2)) >"$TMP/many/$i.jsonl"
done
run bash -c "ulimit -n 64; '$PROCTOR' ranks validate '$TMP/many'"
is "thousands of files, one at a time" "$status/$stdout" "0/2000 valid, 0 invalid"

finish
