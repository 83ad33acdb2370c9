#!/bin/bash
# The Python package: pip installs it, mypy checks it, its models are the reference implementation's, its
# readers give the same with a daemon and without, its clients bear what daemons do, and what its
# documents show works.
. "$(dirname "$0")/lib.sh"
bad_daemon=$SOURCE_ROOT/tests/integration/bad_daemon.py
fake=
mkdir -p "$PROCTOR_HOME" "$TMP/bin"
ln -s "$(realpath "$PROCTOR")" "$TMP/bin/proctor"
PATH=$TMP/bin:$PATH
export PYTHONDONTWRITEBYTECODE=1

clean_up() {
	[ -z "$fake" ] || kill "$fake" 2>/dev/null
	"$PROCTOR" stop --jobs >/dev/null 2>&1
	rm -rf "$TMP"
}
trap '[ "$BASHPID" != $$ ] || clean_up' EXIT

start_fake() { # HOW
	[ -z "$fake" ] || { kill "$fake" && wait "$fake"; } 2>/dev/null
	rm -f "$socket"
	"$bad_daemon" "$1" "$socket" "$TMP/record" >/dev/null 2>&1 &
	fake=$!
	eventually test -S "$socket"
}

# py NAME CODE: passes if the program ends by itself and without an exception. Its lines are in main(), which
# is a coroutine: Python names what was never awaited on stderr, which has to stay empty.
py() {
	local said status code
	code=$(sed 's/^/\t/' <<<"$2")
	said=$(timeout 120 "$python" -W error -c "import asyncio, datetime, json, os, signal, subprocess, sys, time
import proctor
from proctor import models, ranks
async def main():
$code
asyncio.run(main())" 2>&1 </dev/null)
	status=$?
	if [ $status -eq 0 ] && [ -z "$said" ]; then
		ok "$1"
	else
		not_ok "$1" "status $status" "$said"
	fi
}

# ---- what is installed ----

# Debian's Python has Debian's setuptools. It builds in the folder that it is given: a copy.
cp -r "$SOURCE_ROOT/python" "$TMP/python"
python=python3
if /usr/bin/python3 -c 'import setuptools, wheel, venv' 2>/dev/null &&
	/usr/bin/python3 -m venv --system-site-packages "$TMP/venv" >/dev/null 2>&1; then
	check "pip installs it without a network" "$TMP/venv/bin/pip" install --quiet --no-build-isolation \
		--no-index --disable-pip-version-check "$TMP/python"
	python=$TMP/venv/bin/python
else
	skip "pip installs it without a network" "this machine lacks python3-venv, python3-setuptools or python3-wheel"
	export PYTHONPATH=$TMP/python
fi
rm -r "$TMP/python/build" 2>/dev/null
cd "$TMP" || exit 1
is "its version is that of the program" "$("$python" -c 'import proctor; print(proctor.__version__)')" \
	"$("$PROCTOR" --version </dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)"
is "it is whole" "$(cd "$("$python" -c 'import os, proctor; print(os.path.dirname(proctor.__file__))')" && printf '%s\n' *.py *.typed)" \
	"$(cd "$SOURCE_ROOT/python/proctor" && printf '%s\n' *.py *.typed)"
is "meson installs the same files" "$(sed -n "s/^ *'proctor\/\(.*\)',$/\1/p" "$SOURCE_ROOT/python/meson.build" | sort)" \
	"$(cd "$SOURCE_ROOT/python/proctor" && printf '%s\n' *.py *.typed | sort)"
py "programs that mark phases load no more than they need" "
code = 'import sys, proctor; proctor.phase(str()).__enter__(); print({*sys.argv[1:]} & {*sys.modules})'
said = subprocess.check_output([sys.executable, '-c', code, 'asyncio', 'dataclasses'])
assert said == b'set()\\n', said
assert all(hasattr(proctor, name) for name in proctor.__all__)"

cat >"$TMP/user.py" <<'END'
import asyncio
from typing import Optional

import proctor
from proctor import models, ranks


def peak(job_id: str) -> float:
    with proctor.Reader() as reader:
        return max((sample.rss_mb or 0.0 for sample in reader.samples(job_id)), default=0.0)


@proctor.phase("load")
def load(path: str) -> int:
    with proctor.phase("open"):
        return len(path)


async def admitted(client: proctor.AsyncClient) -> bool:
    admission = await proctor.AsyncReader(client).admit()
    async for event in await client.subscribe("job.*"):
        parsed = event.parse()
        if isinstance(parsed, models.JobEvent) and parsed.job_id is not None:
            break
    return admission.answer == "admit" and load("x") == 1


def first(records: list[dict[str, object]]) -> Optional[int]:
    return ranks.analyze(records).finding.rank


asyncio.run(admitted(proctor.AsyncClient()))
END
printf 'import proctor\nproctor.Reader().samples(7)\nproctor.models.GpuMetric(index=0).temperature_c + 1\n' >"$TMP/wrong.py"
if type -P mypy >/dev/null; then
	check "mypy finds nothing in it" mypy --strict --cache-dir="$TMP/mypy" "$TMP/python/proctor"
	strictly=(mypy --strict --no-site-packages --cache-dir="$TMP/mypy")
	export MYPYPATH=$TMP/python
	check "nor in a program that uses it" "${strictly[@]}" "$TMP/user.py"
	run "${strictly[@]}" "$TMP/wrong.py"
	like "it finds what is wrong" "$stdout" 'wrong.py:2: error: .*"samples"'
	like "and that a value may be unknown" "$stdout" 'wrong.py:3: error: .*Unsupported operand types for \+ \("None"'
	unset MYPYPATH
else
	skip "mypy finds nothing in it" "no mypy"
fi

# ---- models ----

py "the models have the reference implementation's fields and defaults" "
import dataclasses, math
REQUIRED, NOW, ITEMS, OBJECT = 'required', 'now', [], {}
TABLE = {
	'ProcessMetric': dict(pid=REQUIRED, ppid=0, command='', state='S', cpu_percent=0.0, rss_mb=0.0, vms_mb=0.0,
		threads=1, open_fds=0, age_seconds=0.0, job_id=None, sheet_num=None, syscall_counts=OBJECT,
		syscall_time_pct=OBJECT),
	'GpuMetric': dict(index=REQUIRED, utilization_pct=0.0, memory_used_mb=0.0, memory_total_mb=0.0,
		temperature_c=0.0),
	'JobProgress': dict(job_id=REQUIRED, total_sheets=1, last_completed_sheet=0, current_sheet=None,
		status='unknown'),
	'SystemSnapshot': dict(timestamp=NOW, daemon_pid=0, system_memory_total_mb=0.0,
		system_memory_available_mb=0.0, system_memory_used_mb=0.0, daemon_rss_mb=0.0, load_avg_1=0.0,
		load_avg_5=0.0, load_avg_15=0.0, processes=ITEMS, gpus=ITEMS, pressure_level='none', running_jobs=0,
		active_sheets=0, zombie_count=0, zombie_pids=ITEMS, job_progress=ITEMS, conductor_uptime_seconds=0.0),
	'ProcessEvent': dict(timestamp=NOW, pid=REQUIRED, event_type=REQUIRED, exit_code=None, signal_num=None,
		job_id=None, sheet_num=None, details=''),
	'Anomaly': dict(timestamp=NOW, anomaly_type=REQUIRED, pid=None, job_id=None, sheet_num=None, description='',
		severity='medium', metric_value=0.0, threshold=0.0),
	'ResourceEstimate': dict(estimated_peak_memory_mb=0.0, estimated_cpu_seconds=0.0, confidence=0.0),
	'JobProfile': dict(job_id=REQUIRED, peak_rss_mb=0.0, total_cpu_seconds=0.0, process_spawn_count=0,
		syscall_hotspots=OBJECT, sheet_metrics=OBJECT, unique_pid_count=0)}
VALUES = dict(pid=7, index=0, job_id='j', event_type='exit', anomaly_type='zombie')
for name, fields in TABLE.items():
	kind = getattr(models, name)
	made = kind(**{k: VALUES[k] for k, v in fields.items() if v == REQUIRED})
	for key, default in fields.items():
		got = getattr(made, key)
		if default == REQUIRED:
			assert got == VALUES[key], (name, key, got)
		elif default == NOW:
			assert abs(got - time.time()) < 60, (name, key, got)
		else:
			assert got == default and type(got) in (type(default), models.AnomalySeverity), (name, key, got)
assert [s.value for s in models.AnomalySeverity] == ['low', 'medium', 'high', 'critical']
assert [t.value for t in models.AnomalyType][:4] == ['memory_spike', 'runaway_process', 'zombie', 'fd_exhaustion']
assert [t.value for t in models.EventType][:5] == ['spawn', 'exit', 'signal', 'kill', 'oom']
RANKS = {
	'RankTimelinePoint': 'rank timestamp_ns aligned_timestamp_ns device_used_bytes allocator_reserved_bytes '
		'allocator_allocated_bytes allocator_change_bytes',
	'CrossRankMergeResult': 'job_id world_size participating_ranks missing_ranks rank_sample_counts '
		'alignment_offsets_ns merged_points notes',
	'FirstCauseSuspect': 'rank first_spike_timestamp_ns aligned_first_spike_timestamp_ns peak_delta_bytes '
		'spike_window_samples lead_over_cluster_onset_ns confidence evidence phase_attribution',
	'FirstCauseAnalysisResult': 'cluster_onset_timestamp_ns suspects notes'}
for name, fields in RANKS.items():
	got = [f.name for f in dataclasses.fields(getattr(ranks, name)) if f.name != 'extra']
	assert got == fields.split(), (name, got)"

is "they know all types of anomalies" \
	"$("$python" -c 'from proctor.models import AnomalyType; print(*sorted(t.value for t in AnomalyType), sep="\n")')" \
	"$(sed -n 's/^\t\[ANOMALY_.*\] = "\(.*\)",$/\1/p' "$SOURCE_ROOT/src/model/anomaly.c" | sort)"
py "unknown is None, whether null or absent, and other keys are kept" "
got = models.ProcessMetric.from_json({'pid': 1, 'rss_mb': None, 'comm': 'sh', 'new_key': [1]})
assert (got.rss_mb, got.cpu_percent, got.threads, got.syscall_counts) == (None,) * 4, got
assert got.extra == {'comm': 'sh', 'new_key': [1]}
gpu = models.GpuMetric.from_json({'index': 0, 'utilization_pct': 101})
assert gpu.utilization_pct == 101.0
anomaly = models.Anomaly.from_json({'timestamp': 1, 'anomaly_type': 'of_tomorrow', 'severity': 'high'})
assert anomaly.anomaly_type.value == 'of_tomorrow' and anomaly.severity is models.AnomalySeverity.HIGH
assert anomaly.to_json()['anomaly_type'] == 'of_tomorrow'
empty = {'timestamp': 1.5, 'processes': []}
assert models.SystemSnapshot.from_json(empty).gpus is None
profile = models.JobProfile.from_json({'job_id': 'j', 'sheet_metrics': {'3': {'peak_rss_mb': 5}}})
assert profile.sheet_metrics[3].peak_rss_mb == 5.0"

py "what cannot be a value is an error that names its place" "
def said(kind, value):
	try:
		kind.from_json(value)
	except proctor.BadData as error:
		assert len(str(error)) < 200, error
		return str(error)
	sys.exit('%r was taken' % (value,))
P, S = models.ProcessMetric, models.SystemSnapshot
assert said(S, {'timestamp': 1, 'processes': [{'pid': 1}, {'pid': 2, 'rss_mb': 'x' * 10**6}]}).startswith(
	'SystemSnapshot.processes[1].rss_mb: this is no number: ')
for value in None, [], 7, 'text', {}, {'pid': None}, {'pid': '1'}, {'pid': 1.5}, {'pid': True}, {'pid': [1]}:
	assert said(P, value).startswith('ProcessMetric'), value
for value in float('nan'), float('inf'), 10**400, {}, [], 'five', False:
	assert said(P, {'pid': 1, 'rss_mb': value}).startswith('ProcessMetric.rss_mb: '), value
for value in [], {'read': 'x'}, {'read': None}, {'read': 1.5}, {1: 1}:
	assert said(P, {'pid': 1, 'syscall_counts': value}).startswith('ProcessMetric.syscall_counts'), value
assert 'there is no timestamp' in said(S, {'processes': []})
assert 'there is no processes' in said(S, {'timestamp': 1})
assert 'sheet_metrics' in said(models.JobProfile, {'job_id': 'j', 'sheet_metrics': {'one': {}}})
for data in None, 7, [], {'timestamp': 'now'}:
	for topic in 'process.exit', 'monitor.anomaly', 'snapshot', 'job.started', 'of.tomorrow':
		try:
			models.parse_event(topic, data)
			sys.exit('%r was taken' % (data,))
		except proctor.BadData:
			pass"

py "the profile of a job is the reference implementation's, of all golden cases" "
import glob
paths = sorted(glob.glob('$SOURCE_ROOT/tests/golden/parsers/*.json'))
cases = []
for path in paths:
	with open(path, encoding='utf-8') as file:
		case = json.load(file)
	cases += [case] if case.get('kind') == 'job_profile' else []
assert len(cases) == 10
for case in cases:
	snapshots = [models.SystemSnapshot.from_json(snapshot) for snapshot in case['snapshots']]
	events = [models.ProcessEvent.from_json(event) for event in case['events']]
	for expected in case['expected']:
		got = models.JobProfile.of(expected['job_id'], snapshots, iter(events)).to_json()
		assert json.dumps(got) == json.dumps(expected['profile']), (case['case'], got)"

# ---- ranks ----

py "the cross-rank analysis is the reference implementation's, of all golden cases" "
import glob
golden = '$SOURCE_ROOT/tests/golden/crossrank'
cases = sorted(glob.glob(golden + '/*.in.jsonl'))
assert len(cases) == 60
for path in cases:
	with open(path, encoding='utf-8') as file:
		records = [json.loads(line) for line in file if line.strip()]
	with open(path.replace('.in.jsonl', '.expected.json'), encoding='utf-8') as file:
		expected = json.load(file)
	wanted = {key: value for key, value in expected['summary'].items() if key != 'notes'}
	merge, first_cause = ranks.analyze_cross_rank_events(record for record in records)
	got = {**merge.to_json(), **first_cause.to_json(), 'first_cause_suspects': first_cause.to_json()['suspects']}
	assert {key: got[key] for key in wanted} == wanted, path
	points = [[getattr(point, name) for name in expected['timeline_columns']] for point in merge.merged_points]
	assert points == expected['timeline'], path
	assert list(ranks.summarize_cross_rank_analysis(records)) == [*wanted, 'notes'], path"
py "it names a culprit, and writes no file" "
import dataclasses
@dataclasses.dataclass
class TelemetryEventV2:
	rank: int
	timestamp_ns: int
	device_used_bytes: int
	schema_version: int = 2
	event_type: str = 'sample'
	collector: str = 'test'
	sampling_interval_ms: int = 1000
	pid: int = 1
	host: str = 'h'
	device_id: int = 0
	job_id: str = 'j'
	world_size: int = 4
	allocator_allocated_bytes: int = 0
	allocator_reserved_bytes: int = 0
	allocator_change_bytes: int = 0
	allocator_active_bytes: object = None
	allocator_inactive_bytes: object = None
	device_free_bytes: object = None
	device_total_bytes: object = None
	context: object = None
	metadata: dict = dataclasses.field(default_factory=dict)
def used(rank, second):
	return (1 << 30) + (rank * 7919 + second * 104729) % 65536 + (second - 100) * (32 << 20) * (rank == 2 and second > 100)
events = [TelemetryEventV2(rank, second * 10**9, used(rank, second), pid=rank + 1)
	for second in range(200) for rank in range(4)]
os.mkdir('$TMP/empty')
os.environ['TMPDIR'] = '$TMP/empty'
for analysis in ranks.analyze(events, clock_error_ms=0.5), await ranks.analyze_async(iter(events)):
	finding = analysis.finding
	assert (finding.verdict, finding.rank, finding.kind) == ('named', 2, 'alone'), finding
	assert finding.probability >= 0.8 and 99 * 10**9 < finding.onset_ns < 103 * 10**9, finding
	assert analysis.merge.world_size == 4 and analysis.raw['ranks']
assert os.listdir('$TMP/empty') == []
odd = [vars(events[0]), {'schema_version': 2, 'rank': -1}]
try:
	ranks.analyze(odd)
	sys.exit('it was taken')
except proctor.BadInput as error:
	assert error.status == 2 and ':2: ' in str(error), error
assert ranks.analyze(odd, skip_invalid=True).raw['input']['invalid'] == 1
for bad in [7], [events], [{'x': object()}], [None]:
	try:
		ranks.analyze(bad)
		sys.exit('it was taken')
	except proctor.BadData:
		pass
assert ranks.analyze([]).finding.verdict == 'cannot_tell'"

# ---- readers ----

cat >"$TMP/job.sh" <<'END'
python3 -c '
import time
held = bytearray(48 << 20)
time.sleep(1)'
END
check "a job is recorded without a daemon" "$PROCTOR" run -q -i 0.2 --job nightly -- sh "$TMP/job.sh"
"$PROCTOR" run -q --job failing -- sh -c 'sleep 0.3; exit 3'
# What both readers have to give, in one file: with a daemon (of this record) and without.
cat >"$TMP/read.py" <<'END'
import dataclasses
import sys

import proctor
from proctor import models


def rows(items):
    return [dataclasses.asdict(item) for item in items]


def read(reader):
    samples = list(reader.samples("nightly"))
    third = samples[2].timestamp
    assert samples and max(s.rss_mb or 0 for s in samples) > 48, samples
    assert {type(s) for s in samples} == {models.Sample}
    assert [s.timestamp for s in samples] == sorted(s.timestamp for s in samples)
    late = [s for s in samples if s.timestamp >= third]
    early = [s for s in samples if s.timestamp <= third]
    assert rows(reader.samples("nightly", since=third)) == rows(late)
    assert rows(reader.samples("nightly", until=third)) == rows(early)
    assert 0 < len(list(reader.samples("nightly", pid=samples[0].pid))) <= len(samples)
    events = list(reader.events("failing"))
    assert isinstance(events[0], models.JobEvent) and events[0].event == "job.started", events[0]
    exits = [e for e in events if isinstance(e, models.ProcessEvent) and e.event_type == models.EventType.EXIT]
    assert 3 in [e.exit_code for e in exits], events
    attempts = list(reader.attempts())
    assert [(a.job_id, a.outcome, a.exit_code) for a in attempts] == [
        ("nightly", "success", 0),
        ("failing", "failure", 3),
    ], attempts
    assert [a.job_id for a in reader.attempts(limit=1)] == ["failing"]
    assert [a.job_id for a in reader.attempts("nightly", latest=True)] == ["nightly"]
    profile = reader.profile("nightly")
    assert profile.peak_rss_mb > 48 and profile.sheet_metrics[1].peak_rss_mb > 48, profile
    snapshots = list(reader.snapshots(since=samples[0].timestamp - 1, job_id="nightly"))
    assert len(snapshots) >= 3 and snapshots[-1].system_memory_total_mb > 0
    now = reader.snapshot()
    assert now.system_memory_total_mb > 0
    correlation = reader.correlate()
    assert correlation.compat == [] and correlation.runs == 2, correlation
    estimate = reader.estimate(["sh", sys.argv[1]])
    assert estimate.estimated_peak_memory_mb > 0 and 0 < estimate.confidence <= 1, estimate
    unknown = reader.estimate({"sheets": [{"run": ["no-such-program"]}]})
    assert unknown.estimated_peak_memory_mb is None, unknown
    assert isinstance(reader.patterns(), list)
    for bad in -1, float("nan"), 1e12:
        try:
            list(reader.samples("nightly", since=bad))
            raise SystemExit("a time was taken")
        except ValueError:
            pass
    try:
        reader.profile("never")
        raise SystemExit("there is one")
    except proctor.Error as error:
        assert "never" in str(error)
    return {
        "samples": rows(samples),
        "events": rows(events),
        "attempts": rows(dataclasses.replace(a, wall_seconds=None) for a in attempts),
        "anomalies": [a.episode for a in reader.anomalies("nightly")],
        "profile": dataclasses.asdict(dataclasses.replace(profile, extra={})),
        "estimate": dataclasses.asdict(estimate),
    }
END
py "without a daemon the readers run the program" "
sys.path.insert(0, '$TMP')
sys.argv[1:] = ['$TMP/job.sh']
import pickle, read
with proctor.Reader() as reader:
	assert isinstance(reader.source, proctor.Program)
	with open('$TMP/without', 'wb') as file:
		pickle.dump(read.read(reader), file)
	try:
		reader.admit()
		sys.exit('there is a daemon')
	except proctor.NoDaemon as error:
		assert str(error) == 'only a daemon answers admit', error
	try:
		ranks.analyze_job('never')
		sys.exit('there is one')
	except proctor.ProgramFailed as error:
		assert error.status == 1 and 'never' in str(error), error
	since = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(minutes=10)
	assert list(reader.samples('nightly', since=since))
async with proctor.AsyncReader() as reader:
	samples = [s async for s in reader.samples('nightly')]
	assert samples and (await reader.snapshot()).timestamp > samples[-1].timestamp"
py "a program that is none, hangs or prints nonsense is a clear error" "
def said(kind, program):
	try:
		proctor.Reader(proctor.Program(program, timeout=0.3)).snapshot()
	except kind as error:
		return str(error)
def script(text):
	with open('$TMP/bin/fake', 'w') as file:
		print('#!/bin/sh\n' + text, file=file)
	os.chmod('$TMP/bin/fake', 0o700)
	return '$TMP/bin/fake'
assert said(proctor.NoProgram, '/no/such') == 'cannot run /no/such: No such file or directory'
assert said(proctor.NoProgram, '$TMP') == 'cannot run $TMP: Permission denied'
assert said(proctor.TimedOut, script('exec sleep 60'))
assert 'is no JSON' in said(proctor.BadAnswer, script('echo proctor'))
assert said(proctor.BadData, script('echo 7'))
assert said(proctor.ProgramFailed, script('echo proctor: it is broken >&2; exit 1')) == 'it is broken'
assert said(proctor.ProgramFailed, script('kill -9 \$\$')) == 'proctor was ended by SIGKILL'
assert said(proctor.BadInput, script('exit 2')) == 'proctor ended with status 2'
program = proctor.Program(script('echo \$\$ >$TMP/pid; exec sleep 60'))
asking = asyncio.ensure_future(proctor.AsyncReader(program).snapshot())
while not os.path.exists('$TMP/pid'):
	await asyncio.sleep(0.05)
asking.cancel()
await asyncio.wait([asking])
assert asking.cancelled()
with open('$TMP/pid') as file:
	assert not os.path.exists('/proc/' + file.read().strip()), 'it runs on'"

start_daemon $'interval_seconds: 0.5\njsonl_path: proctor.jsonl'
py "with a daemon they give the same" "
sys.path.insert(0, '$TMP')
sys.argv[1:] = ['$TMP/job.sh']
import pickle, read
with proctor.Reader() as reader:
	assert isinstance(reader.source, proctor.Client)
	got = read.read(reader)
	assert reader.admit().answer in ('admit', 'delay', 'reject')
	assert reader.admit(command=['sh', '$TMP/job.sh']).estimated_peak_memory_mb > 0
with open('$TMP/without', 'rb') as file:
	wanted = pickle.load(file)
for name in wanted:
	assert got[name] == wanted[name], (name, got[name], wanted[name])
async with proctor.AsyncReader() as reader:
	assert isinstance(reader.source, proctor.AsyncClient)
	samples = [s async for s in reader.samples('nightly')]
	assert [s.timestamp for s in samples] == [s['timestamp'] for s in wanted['samples']]
	assert [a.job_id async for a in reader.attempts()] == ['nightly', 'failing']
	assert [e async for e in reader.events('failing')] and (await reader.admit()).answer
	assert (await reader.profile('failing')).extra['exit_code'] == 3
	assert (await reader.estimate(['sh', '$TMP/job.sh'])).confidence > 0
	assert (await reader.correlate()).runs == 2 and await reader.patterns() == []
	assert len([s async for s in reader.snapshots(since=samples[0].timestamp - 1, job_id='nightly')]) >= 3"

# ---- the asynchronous client ----

py "each line of the snapshot log is a snapshot, and so is each published one" "
async with proctor.AsyncClient() as client, await client.subscribe('snapshot') as snapshots:
	event = await snapshots.get(30)
	snapshot = event.parse()
	assert type(snapshot) is models.SystemSnapshot and snapshot.to_json() == event.data, event
with open('$PROCTOR_HOME/proctor.jsonl', encoding='utf-8') as file:
	lines = [json.loads(line) for line in file]
assert lines
for line in lines:
	assert models.SystemSnapshot.from_json(line).to_json() == line"
py "calls of many tasks share a connection, and so do subscriptions" "
async with proctor.AsyncClient() as client:
	answers = await asyncio.gather(*(client.status() for _ in range(50)), client.top(), client.report('nightly'))
	assert answers[0]['pid'] and answers[-1]['job_id'] == 'nightly'
	subscriptions = [await client.subscribe('job.*') for _ in range(100)]
	processes = await client.subscribe('process.exit')
	slow = await client.subscribe(max_queued=2)
	assert (await client.status())['subscribers'] == 1
	child = await asyncio.create_subprocess_exec('proctor', 'run', '-q', '--job', 'seen', '--', 'sh', '-c', 'sleep 0.1; exit 4')
	topics = [[event.topic, (await events.get(30)).topic] for events in subscriptions for event in [await events.get(30)]]
	assert topics == [['job.started', 'job.failed']] * 100, topics
	parsed = [event.parse() for event in [await processes.get(30), await processes.get(30)]]
	assert sorted(exit.exit_code for exit in parsed) == [0, 4], parsed
	assert {exit.job_id for exit in parsed} == {'seen'}
	first = await slow.get(0)
	assert first.topic == 'lost' and first.lost >= 4, first
	await child.wait()
	subscriptions[0].close()
	assert await subscriptions[0].get(0) is None
	assert [event async for event in subscriptions[0]] == []
	subscriptions[0].close()
	try:
		await client.subscribe('job.nothing')
		sys.exit('it was taken')
	except proctor.InvalidParams:
		pass
	try:
		await client.report('never')
		sys.exit('there is one')
	except proctor.NotFound as error:
		assert error.code == -32001
try:
	await client.status()
	sys.exit('it is open')
except proctor.ConnectionLost:
	pass"
py "what is cancelled leaves the rest as it was" "
async with proctor.AsyncClient() as client:
	job = await client.submit({'sheets': [{'run': 'sleep 60'}]}, job_id='long')
	events = await client.subscribe('job.cancelled')
	waiting = asyncio.ensure_future(client.wait('long'))
	iterating = asyncio.ensure_future(events.get())
	await asyncio.sleep(0.1)
	waiting.cancel()
	iterating.cancel()
	await asyncio.wait([waiting, iterating])
	assert waiting.cancelled() and iterating.cancelled()
	try:
		await client.wait('long', timeout=0.05)
		sys.exit('it is over')
	except proctor.TimedOut:
		pass
	await client.cancel('long')
	assert (await client.wait('long', timeout=60))['outcome'] == 'cancelled'
	assert (await events.get(60)).data['job_id'] == 'long'
	waiting = asyncio.ensure_future(events.get())
	await asyncio.sleep(0)
	await client.close()
	await client.close()
	try:
		await waiting
		sys.exit('it goes on')
	except proctor.ConnectionLost:
		pass"
py "a wait of the synchronous client that times out is a TimedOut" "
with proctor.Client() as client:
	client.submit({'sheets': [{'run': 'sleep 60'}]}, job_id='longer')
	for timeout in 0.01, 0.3:
		try:
			client.wait('longer', timeout=timeout)
			sys.exit('it is over')
		except proctor.TimedOut as error:
			assert str(error)
	client.cancel('longer')
	assert client.wait('longer', timeout=60)['outcome'] == 'cancelled'"
py "subscriptions of one synchronous client are apart" "
with proctor.Client() as client:
	with client.subscribe('job.*') as jobs, client.subscribe('process.*') as processes:
		subprocess.run(['proctor', 'run', '-q', '--job', 'apart', '--', 'true'])
		assert [jobs.get(30).topic, jobs.get(30).topic] == ['job.started', 'job.completed']
		assert processes.get(30).topic == 'process.spawn'
		assert jobs.get(0) is None
	assert processes.get(5) is None and list(jobs) == []"

# ---- a daemon that comes and goes ----

restart='
def restart():
	subprocess.run(["proctor", "stop"], check=True, stdout=subprocess.DEVNULL)
	subprocess.run(["proctor", "start"], check=True, stdout=subprocess.DEVNULL)
def run_one(job):
	subprocess.run(["proctor", "run", "-q", "--job", job, "--", "true"], check=True)'
py "the asynchronous client connects again where that is asked for" "$restart
async with proctor.AsyncClient(reconnect=True) as client, proctor.AsyncClient() as plain:
	events, ended = await client.subscribe('job.started'), await plain.subscribe()
	pid = (await client.status())['pid']
	await asyncio.get_running_loop().run_in_executor(None, restart)
	event = await events.get(60)
	assert event == ('reconnected', None, None, 0), event
	assert event.parse() is None
	assert (await client.status())['pid'] != pid
	await asyncio.get_running_loop().run_in_executor(None, run_one, 'back')
	event = await events.get(60)
	assert event.data['job_id'] == 'back', event
	try:
		while True:
			await asyncio.wait_for(ended.get(), 60)
	except proctor.ConnectionLost:
		pass
	try:
		await plain.status()
		sys.exit('it is there again')
	except proctor.ConnectionLost:
		pass"
py "so does the synchronous one, and calls find the new daemon" "$restart
with proctor.Client(reconnect=True) as client, proctor.Client() as plain:
	events = client.subscribe('job.started')
	pid = client.status()['pid']
	restart()
	event = events.get(60)
	assert event.topic == 'reconnected', event
	run_one('again')
	assert events.get(60).data['job_id'] == 'again'
	assert client.status()['pid'] != pid
	restart()
	assert client.status()['pid'] != pid
	subprocess.run(['proctor', 'stop'], stdout=subprocess.DEVNULL)
	for event in iter(lambda: events.get(0.3), None):
		assert event.topic == 'reconnected', event
	try:
		client.status()
		sys.exit('there is a daemon')
	except proctor.NoDaemon:
		pass
	try:
		plain.status()
		sys.exit('it is open')
	except proctor.ConnectionLost:
		pass
try:
	await proctor.AsyncClient().connect()
	sys.exit('there is a daemon')
except proctor.NoDaemon:
	pass"

# ---- a daemon that is none ----

own_home=$PROCTOR_HOME
export PROCTOR_HOME=$TMP/fake
socket=$PROCTOR_HOME/proctor.sock
mkdir -p "$PROCTOR_HOME"
for how in nothing end garbage text no-object half-line wrong-ids no-result odd-error deep long-number huge-line \
	drip flood flood-of-events never-reads never-accepts; do
	start_fake "$how"
	py "$how: the asynchronous client fails in time" "
for reconnect in False, True:
	try:
		async with proctor.AsyncClient(timeout=0.3, reconnect=reconnect) as client:
			await asyncio.wait_for(client.call('daemon.status', ['x' * 100000]), 60)
		sys.exit('it did not fail')
	except proctor.Error as error:
		assert str(error)"
done
start_fake flood-when-subscribed
py "a flood of events is bounded, and other tasks go on" "
async with proctor.AsyncClient(timeout=0.3) as client:
	events = await client.subscribe(max_queued=100)
	for _ in range(3):
		try:
			await client.status()
			sys.exit('it was answered')
		except proctor.TimedOut:
			pass
	first = await events.get(0)
	assert first.topic == 'lost' and first.lost > 1000, first
	assert len(events._queue._events) <= 100"
start_fake answer-and-event
py "an event that comes with the answer is not lost" "
async with proctor.AsyncClient(timeout=5) as client, await client.subscribe() as events:
	assert (await events.get(5)).topic == 'job.started'
with proctor.Client(timeout=5) as client:
	assert client.subscribe().get(5).topic == 'job.started'"
export PROCTOR_HOME=$own_home

# ---- what the documents show ----

# The blocks of a document in this language, each in a file of its own.
blocks_of() { # LANGUAGE FOLDER
	mkdir -p "$2"
	awk -v want="\`\`\`$1" -v folder="$2" '
		/^```/ { inside = !inside && $0 == want; if (inside) file = sprintf("%s/%02d", folder, ++n); next }
		inside { print >file }' "$SOURCE_ROOT/docs/python.md"
}

start_daemon "interval_seconds: 0.5"
blocks_of python "$TMP/blocks"
check "docs/python.md has examples" [ -s "$TMP/blocks/05" ]
cp "$SOURCE_ROOT/tests/golden/crossrank/001.in.jsonl" "$TMP/telemetry.jsonl"
for block in "$TMP"/blocks/*; do
	check "the example that begins with: $(grep -vE '^(import|from|$)' "$block" | head -n 1)" \
		timeout 60 "$python" -W error "$block"
done
is "Python names in the documents exist" "$(grep -ohE '`(await )?proctor\.[A-Za-z_.]+' \
	"$SOURCE_ROOT/docs/python.md" "$SOURCE_ROOT/docs/migrate.md" | sed 's/.*`//; s/^await //; s/\.$//' | sort -u |
	"$python" -c '
import functools, sys
import proctor
for name in sys.stdin.read().split():
    if name in ("proctor.db", "proctor.jsonl", "proctor.sock", "proctor.yaml"):
        continue
    try:
        functools.reduce(getattr, name.split(".")[1:], proctor)
    except AttributeError:
        print(name)')" ""
verbs=$("$PROCTOR" --help </dev/null | sed -nE 's/^  ([a-z]+)  +[^ ].*/\1/p' | sort)
is "verbs in docs/migrate.md exist" "$(grep -ohE '`proctor [a-z]+' "$SOURCE_ROOT/docs/migrate.md" | cut -d ' ' -f 2 | sort -u | comm -23 - <(echo "$verbs"))" ""

finish
