#!/bin/bash
# Other programs talk to the daemon: by the library that is installed, and by the Python module. A
# daemon that is none can neither hang nor break them.
. "$(dirname "$0")/lib.sh"
: "${PROCTOR_BUILD:?is set by the test runner: the folder to install from}"
bad_daemon=$SOURCE_ROOT/tests/integration/bad_daemon.py
socket=$PROCTOR_HOME/proctor.sock
fake=
mkdir -p "$PROCTOR_HOME"

stop_fake() {
	[ -z "$fake" ] || { kill "$fake" && wait "$fake"; } 2>/dev/null
	fake=
	rm -f "$socket"
}

clean_up() {
	stop_fake
	"$PROCTOR" stop 2>/dev/null
	rm -rf "$TMP"
}
trap clean_up EXIT

start_fake() { # HOW
	stop_fake
	"$bad_daemon" "$1" "$socket" "$TMP/record" >/dev/null 2>&1 &
	fake=$!
	wait_until [ -S "$socket" ]
}

# wait_until COMMAND [ARG...]: at most a minute.
wait_until() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" 2>/dev/null && return 0
		sleep 0.1
	done
	return 1
}

# py NAME CODE: passes if the program ends by itself and without an exception.
py() {
	local said status
	said=$(timeout 120 python3 -c "import os, signal, sys, threading, time
import proctor
$2" 2>&1 </dev/null)
	status=$?
	if [ $status -eq 0 ]; then
		ok "$1"
	else
		not_ok "$1" "status $status" "$said"
	fi
}

# ---- what is installed ----

check "it is installed" meson install -C "$PROCTOR_BUILD" --no-rebuild --quiet --destdir "$TMP/dest"
pc=$(find "$TMP/dest" -name libproctor.pc)
like "with a pkg-config file" "$pc" 'lib/.*pkgconfig/libproctor.pc$'
[ -n "$pc" ] || finish
PKG_CONFIG_PATH=$(dirname "$pc")
installed=$TMP/dest$(pkg-config --variable=prefix "$pc")
export PKG_CONFIG_PATH

package() { # [OPTION...]
	pkg-config --define-variable=prefix="$installed" "$@" libproctor
}

# build NAME SOURCE: with nothing but what was installed.
build() {
	local flags
	read -ra flags <<<"$(package --cflags --libs)"
	(cd "$TMP" && cc -std=c99 -D_DEFAULT_SOURCE -D_POSIX_C_SOURCE=200809L -Wall -Wextra -pedantic \
		-Werror -o "$1" "$2" "${flags[@]}")
}

LD_LIBRARY_PATH=$(package --variable=libdir)
PYTHONPATH=$(package --variable=pythondir)
export LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE=1
library=$LD_LIBRARY_PATH/libproctor.so

check "an example is built from it" build subscribe "$EXAMPLES/subscribe.c"
check "another" build call "$EXAMPLES/call.c"
is "its version is that of the program" "$(package --modversion)" \
	"$("$PROCTOR" --version </dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)"
header=$installed/include/proctor/proctor.h
is "the library has the names of the header, and no others" \
	"$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | sed 's,@@PROCTOR_[0-9]*$,,' | sort)" \
	"$(sed 's,/\*.*,,; /^ \*/d; /^typedef/d' "$header" | grep -oE '\bproctor_[a-z_]+\(' | tr -d '(' | sort -u)"
like "it has a version" "$(readelf -d "$library")" 'SONAME.*\[libproctor\.so\.0\]'
unlike "it needs none of the program's libraries" "$(readelf -d "$library" | grep NEEDED)" 'uv|sqlite|yaml'
printf '#include <proctor/proctor.h>\nint main() { return proctor_fd(proctor_new()) == 0; }\n' >"$TMP/one.cc"
if type -P c++ >/dev/null; then
	check "the header is C++ too" c++ -Wall -Wextra -pedantic -Werror -fsyntax-only -I"$installed/include" "$TMP/one.cc"
else
	skip "the header is C++ too" "no C++ compiler"
fi
check "the module is Python 3.8" python3 -c "
import ast, pathlib, sys
for path in pathlib.Path('$PYTHONPATH/proctor').glob('*.py'):
	ast.parse(path.read_text(), feature_version=(3, 8))
import proctor
assert all(hasattr(proctor, name) for name in proctor.__all__)
assert proctor.__file__.startswith('$TMP')"

# ---- no daemon ----

run "$TMP/call" daemon.status
like "without a daemon a program is told" "$status: $stderr" \
	"^1: call: no daemon is running \\(nobody listens on $socket, nor on .*/run/proctor/proctor.sock\\)\$"
py "so is a Python program" "
try:
	proctor.Client()
except proctor.NoDaemon as error:
	assert str(error).startswith('no daemon is running (nobody listens on $socket, nor on '), error
	assert str(error).endswith('/run/proctor/proctor.sock)'), error
else:
	sys.exit('found one')"
py "a phase is nothing then" "
with proctor.phase('load'):
	pass
@proctor.phase('work')
def work(x): return x + 1
assert work(1) == 2"
py "sockets are looked for as the program does" "
os.environ['PROCTOR_HOME'] = '/p'
assert proctor.socket_paths()[0] == '/p/proctor.sock'
del os.environ['PROCTOR_HOME']
if os.geteuid() == 0:
	assert proctor.socket_paths() == ['/run/proctor/proctor.sock']
	os.setresuid(65534, 65534, 65534)
os.environ['XDG_RUNTIME_DIR'] = '/x'
assert proctor.socket_paths() == ['/x/proctor/proctor.sock', '/run/proctor/proctor.sock']
os.environ.update(XDG_RUNTIME_DIR='relative', HOME='/h')
own = '/run/user/%d' % os.geteuid()
if not os.path.isdir(own):
	own = '/h/.local/state'
assert proctor.socket_paths()[0] == own + '/proctor/proctor.sock', proctor.socket_paths()"

# ---- a daemon and a job ----

n_subscribers() {
	"$TMP/call" daemon.status | python3 -c 'import json, sys; print(json.load(sys.stdin)["subscribers"])'
}
has_subscribers() { [ "$(n_subscribers)" -ge "$1" ]; }

run "$PROCTOR" start
is "the daemon starts" "$status" 0
timeout 200 "$TMP/subscribe" 'job.*' 2 >"$TMP/c.out" 2>&1 &
c_client=$!
timeout 200 python3 "$EXAMPLES/watch_jobs.py" 1 >"$TMP/py.out" 2>&1 &
py_client=$!
check "both have subscribed" wait_until has_subscribers 2
check "a job runs" "$PROCTOR" run --quiet --job seen -- sleep 3
wait $c_client
is "the C program has seen all it wanted" $? 0
like "the job began" "$(cat "$TMP/c.out")" '^job\.started \{.*"job_id":"seen"'
like "what runs could be asked in between" "$(cat "$TMP/c.out")" '^jobs \[\{"job_id":"seen"'
like "the job ended" "$(tail -n 1 "$TMP/c.out")" '^job\.completed \{.*"job_id":"seen".*"outcome":"success"'
wait $py_client
is "so has the Python program" $? 0
like "with what was used" "$(cat "$TMP/py.out")" '^seen: success, [0-9.]+ s CPU, [0-9.]+ MB at most$'

report=$("$PROCTOR" report seen --json)
run "$TMP/call" job.report '{"job_id":"seen"}'
json "the report is that of proctor report" "[$report, ${stdout:-0}]" 'd[0] == d[1]'
py "in Python too" "
import json
with proctor.Client() as client:
	assert client.report('seen') == json.loads(r'''$report''')
	assert client.report('seen', attempt=1)['job_id'] == 'seen'"
py "the other calls" "
with proctor.Client() as client:
	assert client.status()['version']
	assert client.top()['system_memory_total_mb'] > 0
	assert client.jobs() == []
	assert client.events(job_id='seen')[-1]['event'] == 'job.completed'
	assert len(client.events(limit=1)) == 1
	assert client.events(since=time.time() + 60) == []
	assert client.admit()['answer'] in ('admit', 'delay', 'reject')
	assert client.estimate(['no-such-command'])['estimated_peak_memory_mb'] is None
	assert client.estimate({'sheets': [{'run': ['no-such-command']}]})['runs'] == 0
	assert client.context()['rss_mb'] > 0"
py "errors have a type, a code and a sentence" "
def failure(function, *args):
	try:
		function(*args)
	except proctor.RpcError as error:
		return type(error), error.code, str(error)
with proctor.Client() as client:
	assert failure(client.report, 'none')[:2] == (proctor.NotFound, -32001)
	assert failure(client.report, 7)[:2] == (proctor.InvalidParams, -32602)
	assert failure(client.call, 'daemon.start')[:2] == (proctor.MethodNotFound, -32601)
	assert 'daemon.start' in failure(client.call, 'daemon.start')[2]
	assert failure(client.subscribe, 'job.nothing')[:2] == (proctor.InvalidParams, -32602)
	assert client.status()"
run "$TMP/call" daemon.start
is "a method that is not there" "$status" 1
like "is a clear error" "$stderr" "^call: no method 'daemon.start'"

"$PROCTOR" run --quiet --job ended -- sleep 60 &
runner=$!
py "a job is seen and cancelled" "
with proctor.Client() as client:
	while [job['job_id'] for job in client.jobs()] != ['ended']:
		time.sleep(0.1)
	client.cancel('ended')"
wait $runner
json "it is over" "$("$PROCTOR" report ended --json)" 'd["outcome"] == "cancelled"'

# ---- events, in Python ----

"$PROCTOR" run --quiet --job other -- sh -c "$(gate other)" &
runner=$!
py "events come one by one, and calls between them" "
with proctor.Client() as client:
	events = client.subscribe('job.*', 'sheet.*')
	while [job['job_id'] for job in client.jobs()] != ['other']:
		time.sleep(0.1)
	open('$TMP/passed.other', 'w').close()
	seen = []
	for event in events:
		assert client.status()['subscribers'] >= 1
		seen.append((event.topic, event.data['job_id'], event.lost))
		if event.topic == 'job.completed':
			break
	assert seen[-1] == ('job.completed', 'other', 0), seen"
pass other # if not even that was reached
wait $runner
py "waiting for none ends" "
with proctor.Client() as client:
	events = client.subscribe('learn.pattern', timeout=0.2)
	assert events.get(0) is None
	assert list(events) == []"
py "a fork leaves the connection to its parent" "
client = proctor.Client()
before = client.status()['pid']
if os.fork() == 0:
	try:
		client.status()
	except proctor.WrongProcess:
		client.close()
		with proctor.Client() as own:
			os._exit(own.status()['pid'] != before)
	os._exit(1)
assert os.wait()[1] == 0
assert client.status()['pid'] == before"
py "threads have a client each" "
failures = []
def ask():
	try:
		with proctor.Client() as client:
			for _ in range(50):
				client.status()
	except Exception as error:
		failures.append(error)
threads = [threading.Thread(target=ask) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures"

# ---- submitting, waiting, phases ----

py "a job is submitted and waited for" "
with proctor.Client() as client:
	job = client.submit({'sheets': [{'run': 'exit 3'}]}, job_id='sent')
	assert job['job_id'] == 'sent', job
	assert client.wait('sent', timeout=50)['exit_code'] == 3
	try:
		client.submit('sheets: [{colour: red}]')
		sys.exit('a bad job file was taken')
	except proctor.InvalidParams:
		pass"
"$PROCTOR" run --quiet --job long -- sleep 60 &
runner=$!
py "who waits in vain, again and again, can still ask" "
with proctor.Client() as client:
	while not client.jobs():
		time.sleep(0.1)
	for _ in range(70):
		try:
			client.wait('long', timeout=0.02)
			sys.exit('it is over')
		except TimeoutError:
			pass
	assert client.status()"
kill $runner
wait $runner
py "who is of no job has no phases" "
with proctor.Client() as client:
	for mark in (client.enter_phase, client.exit_phase):
		try:
			mark('load')
			sys.exit('it was taken')
		except proctor.NotFound:
			pass"
check "a job has" "$PROCTOR" run -q --job phased -- python3 -c "
import proctor
with proctor.Client() as client:
	client.enter_phase('load')
	client.exit_phase('load')"
is "and they are reported" "$(json_eval "$("$PROCTOR" report phased --json)" '[p["name"] for p in d["phases"]]')" "['load']"
# The daemon is stopped when the last phase is left, and goes on while the program ends.
check "a program ends right after its last phase" "$PROCTOR" run -q --job brief -- python3 -c "
import os, signal, subprocess
import proctor
with proctor.phase('to the end'):
	pid = proctor.Client().call('daemon.status')['pid']
	os.kill(pid, signal.SIGSTOP)
	subprocess.Popen(['sh', '-c', 'sleep 0.2; kill -CONT %d' % pid])"
is "that it was left is not lost" "$(json_eval "$("$PROCTOR" report brief --json)" '[(p["name"], p["left"] is not None) for p in d["phases"]]')" "[('to the end', True)]"
daemon=$(json_eval "$("$PROCTOR" status --json)" 'd["pid"]')
stopped="
import os, signal, time
import proctor
pid = proctor.Client().call('daemon.status')['pid']
with proctor.phase('heard'):
	pass
os.kill(pid, signal.SIGSTOP)
while open('/proc/%d/stat' % pid).read().rpartition(')')[2].split()[0] != 'T':
	time.sleep(0.01)" # after a phase that it has heard of
check "nor does a program wait for a daemon that is silent" "$PROCTOR" run -q --job silent -- python3 -c "
$stopped
with proctor.phase('unheard'):
	pass"
kill -CONT "$daemon"
like "what it may not have heard is counted" "$("$PROCTOR" report silent --json)" 'about [2-4] markers of them were lost'
# One that is killed takes with it what it has not read: at the end of a program, and before.
for rest in pass "with proctor.phase('after'): pass"; do
	run "$PROCTOR" run -q --job killed -- python3 -c "
$stopped
for _ in range(20):
	with proctor.phase('unheard'):
		pass
os.kill(pid, signal.SIGKILL)
$rest"
	like "what a daemon took to its grave is counted" "$("$PROCTOR" report killed --json)" \
		'about 4[0-4] markers of them were lost' # it dies when it dies
	check "there is a new one" "$PROCTOR" start
done

# ---- the daemon goes ----

timeout 200 "$TMP/subscribe" '*' >/dev/null 2>"$TMP/stderr" &
c_client=$!
timeout 200 python3 "$EXAMPLES/watch_jobs.py" >/dev/null 2>"$TMP/py.err" &
py_client=$!
check "both have subscribed again" wait_until has_subscribers 2
check "the daemon stops" "$PROCTOR" stop
wait $c_client
is "the C program ends" $? 1
like "and says why" "$(cat "$TMP/stderr")" '^subscribe: the daemon has closed the connection$'
wait $py_client
is "the Python program ends" $? 1
like "and says why, too" "$(cat "$TMP/py.err")" '^watch_jobs.py: the daemon has closed the connection$'

# ---- a daemon that is none ----

for how in nothing end garbage text no-object half-line wrong-ids no-result odd-error deep long-number huge-line \
	drip flood flood-of-events never-reads never-accepts; do
	start_fake "$how"
	run timeout 100 "$TMP/call" -t 300 daemon.status "[\"$(head -c 100000 /dev/zero | tr '\0' x)\"]"
	is "$how: the C client fails" "$status" 1
	like "$how: and says why" "$stderr" '^call: .{10}'
	py "$how: the Python client fails too, and phases do no harm" "
try:
	with proctor.Client(timeout=0.3) as client:
		client.call('daemon.status', ['x' * 100000])
	sys.exit('it did not fail')
except proctor.Error as error:
	assert str(error)
for _ in range(5000):
	with proctor.phase('x' * 200):
		pass"
done
start_fake flood-when-subscribed
py "a flood of events is bounded" "
with proctor.Client(timeout=0.3) as client:
	events = client.subscribe(max_queued=100)
	for _ in range(3):
		try:
			client.status()
			sys.exit('it was answered')
		except proctor.TimedOut:
			pass
	first = events.get(0)
	assert first.topic == 'lost' and first.lost > 1000, first
	assert len(events._queue._events) == 100"

# ---- phases ----

rm -f "$TMP/record"
start_fake record
py "phases are marked" "
with proctor.phase('a'):
	with proctor.phase('b'):
		pass
@proctor.phase('c')
def generate():
	yield 1
	yield 2
assert list(generate()) == [1, 2]
@proctor.phase('d')
async def wait(): return 5
import asyncio
assert asyncio.run(wait()) == 5
@proctor.phase('e')
def fail():
	'''A doc.'''
	raise KeyError('mine')
assert fail.__name__ == 'fail' and fail.__doc__
try:
	fail()
	sys.exit('swallowed')
except KeyError:
	pass
with proctor.phase('x' * 257), proctor.phase(''), proctor.phase(None), proctor.phase('\udc80'):
	pass
def nap():
	with proctor.phase('t'):
		time.sleep(0.01)
threads = [threading.Thread(target=nap) for _ in range(20)]
[t.start() for t in threads]
[t.join() for t in threads]
with proctor.phase('z'):
	pass"
wait_until grep -q '"exit": "z"' "$TMP/record"
is "in their order" "$(grep -oE '"(enter|exit)": "[^t]"' "$TMP/record" | tr -d '":' | paste -sd ,)" \
	"enter a,enter b,exit b,exit a,enter c,exit c,enter d,exit d,enter e,exit e,enter z,exit z"
is "of all threads" "$(grep -c '"t"' "$TMP/record")" 40
is "as JSON that asks for no answer" "$(head -n 1 "$TMP/record" | cut -d ' ' -f 2- | sed -E 's/[0-9]{10}\.[0-9]+/N/')" \
	'{"jsonrpc": "2.0", "method": "phase", "params": {"enter": "a", "at": N}}'

py "more than the kernel keeps is not the end" "
for _ in range(5000):
	with proctor.phase('many'):
		pass
while '\"last\"' not in open('$TMP/record').read():
	with proctor.phase('last'):
		time.sleep(0.1)"

rm -f "$TMP/record"
py "a fork in the middle of a phase" "
with proctor.phase('parent'):
	pid = os.fork()
	with proctor.phase('child' if pid == 0 else 'rest'):
		pass
	print(os.getpid(), file=open('$TMP/' + ('child' if pid == 0 else 'parent'), 'w'))
if pid:
	assert os.waitpid(pid, 0)[1] == 0"
parent=$(cat "$TMP/parent") child=$(cat "$TMP/child")
wait_until grep -q '"exit": "parent"' "$TMP/record"
wait_until grep -q '"exit": "child"' "$TMP/record"
is "each marks its own, by itself" "$(grep phase "$TMP/record" | sed -E 's/ .*"(enter|exit)": "([^"]*)".*/ \1 \2/' | sort)" \
	"$(printf '%s\n' "$parent enter parent" "$parent enter rest" "$parent exit rest" "$parent exit parent" \
		"$child enter child" "$child exit child" | sort)"

rm -f "$TMP/record"
py "a program that closes all its files, and has a daemon that comes and goes, is not harmed" "
import socket
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
with proctor.phase('before'):
	os.closerange(3, 100)
	ends = [socket.socketpair() for _ in range(5)]
with proctor.phase('after'):
	pass
for a, b in ends:
	a.setblocking(False)
	b.setblocking(False)
	for end in a, b:
		try:
			sys.exit('somebody else got %r' % end.recv(100))
		except BlockingIOError:
			pass
while not os.path.exists('$TMP/record') or len(open('$TMP/record').readlines()) < 4:
	time.sleep(0.1)
os.kill($fake, signal.SIGKILL)
while os.path.exists('/proc/$fake/fd/3'):
	time.sleep(0.1)
for _ in range(100):
	with proctor.phase('alone'):
		pass"
stop_fake
is "it has marked what it could" \
	"$(grep -oE '"(enter|exit)": "[a-z]*"' "$TMP/record" | tr -d '":' | sort | paste -sd ,)" \
	"enter after,enter before,exit after,exit before"

finish
