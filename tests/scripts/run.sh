#!/bin/bash
# tests/run counts every kind of ending. meson is played by a script that
# answers "introspect --tests" with the entries that add() collected.
. "$(dirname "$0")/../tap.sh"
runner=$(cd "$(dirname "$0")/.." && pwd)/run

mkdir "$TMP/bin" "$TMP/build"
printf '#!/bin/sh\ncat "%s/entries"\necho "]"\n' "$TMP" >"$TMP/bin/meson"
chmod +x "$TMP/bin/meson"
PATH=$TMP/bin:$PATH

start() {
	echo '[' >"$TMP/entries"
	comma=
}

# add NAME PROTOCOL SCRIPT [TIMEOUT]: the script is a file of its own, so quotes are no matter.
add() {
	printf '%s\n' "$3" >"$TMP/$1.sh"
	cat >>"$TMP/entries" <<-END
		$comma {"cmd": ["/bin/sh", "$TMP/$1.sh"], "env": {"FROM_MESON": "yes"}, "name": "$1",
		"workdir": null, "timeout": ${4:-20}, "suite": ["proctor:unit"], "is_parallel": true,
		"priority": 0, "protocol": "$2", "depends": []}
	END
	comma=,
}

run_suite() { # sets said, last, status
	said=$(cd "$TMP" && "$runner" "build:${1:-unit}" 2>&1)
	status=$?
	last=$(tail -n 1 <<<"$said")
}

# Z: ended, though nobody has waited for it yet. Nothing: gone.
ps_state() { # PID
	sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null
}

start
add good tap 'echo 1..2; echo "ok 1 - one"; echo "ok 2 - with a # in it"; echo chatter'
add exits exitcode 'test "$FROM_MESON" = yes'
run_suite
is "TAP cases and exit statuses are counted" "$last" "3 passed, 0 failed"
is "all passed: status 0" "$status" 0
unlike "what a passing program says is not shown" "$said" chatter

start
add bad tap 'echo "ok 1 - one"; echo "not ok 2 - two"; echo "# five is not four"; echo 1..2; exit 1'
run_suite
is "a failed case is counted once, though the program fails too" "$last" "1 passed, 1 failed"
is "one failed: status 1" "$status" 1
like "what a failing program says is shown" "$said" "# five is not four"
like "the failed case is named" "$said" "bad: two"

start
add skips tap 'echo "ok 1 - one # SKIP no such device"; echo "ok 2 - two"; echo 1..2'
add cmocka tap 'echo 1..1; echo "# only root may"; echo "not ok 1 # SKIP test_x"'
add whole exitcode 'echo "not on this kernel"; exit 77'
run_suite
is "skipped cases are counted apart" "$last" "1 passed, 0 failed, 3 skipped"
is "skipped is not failed" "$status" 0
like "a reason in the case is listed" "$said" "skips: one: no such device"
like "a reason in the remark before it is listed" "$said" "cmocka: test_x: only root may"
like "a reason of a whole program is listed" "$said" "whole: not on this kernel"

start
add dies tap 'echo 1..3; echo "ok 1 - one"; kill -SEGV $$'
run_suite
is "a program that dies is a failed case" "$last" "1 passed, 1 failed"
like "how it ended is said" "$said" "1 of 3 cases, killed by SIGSEGV"

start
add early tap 'echo 1..3; echo "ok 1 - one"'
run_suite
is "missing cases are a failed case" "$last" "1 passed, 1 failed"

start
add unplanned tap 'echo "ok 1 - one"; exit 0'
run_suite
is "a program that ends well before its plan is a failed case" "$last" "1 passed, 1 failed"
is "and status 1" "$status" 1
like "and it is said" "$said" "no plan after 1 cases, exit status 0"

start
printf '. "%s/tap.sh"\nok one\nexit 0\nok two\nfinish\n' "$(dirname "$runner")" >"$TMP/script"
add script tap "exec bash $TMP/script"
run_suite
is "so is a script of tap.sh that never comes to finish" "$last" "1 passed, 1 failed"

start
add silent tap 'true'
run_suite
is "a program without a case is a failed case" "$last" "0 passed, 1 failed"

start
add status tap 'echo 1..1; echo "ok 1 - one"; exit 3'
run_suite
is "a bad status after good cases is a failed case" "$last" "1 passed, 1 failed"
like "and it is named" "$said" "exit status 3"

start
add bail tap 'echo "Bail out! the disk is gone"; exit 1'
run_suite
like "a bail-out is shown" "$said" "failed: Bail out! the disk is gone"
is "and is one failed case, as it needs no plan" "$last" "0 passed, 1 failed"

start
add slow tap 'echo "ok 1 - one"; sleep 600 & echo $! >'"$TMP"'/sleeper; wait' 1
run_suite
is "a program that does not end is a failed case" "$last" "1 passed, 1 failed"
like "the limit is said" "$said" "stopped after 1 s"
unlike "what it started is ended too" "$(ps_state "$(cat "$TMP/sleeper")")" '[^ZX]'

start
add groups tap 'echo 1..1; echo "ok 1 - one"; echo 1..1; echo "ok 1 - one"'
run_suite
is "two groups in one program add up" "$last" "2 passed, 0 failed"

start
add missing exitcode 'true'
sed -i 's|/bin/sh|/nowhere/sh|' "$TMP/entries"
run_suite
is "a program that cannot be started is a failed case" "$last" "0 passed, 1 failed"

start
add skipped exitcode 'exit 77'
run_suite
is "nothing but skips: status 1, as nothing was tested" "$status" 1

# ---- a second try ----
start
add races tap 'echo 1..1; echo x >>'"$TMP"'/tries; if [ $(wc -l <'"$TMP"'/tries) = 2 ]
then echo "ok 1 - in time"; else echo "not ok 1 - in time"; echo "# late by 2 s"; fi'
run_suite
is "what passes when it is run again has passed" "$last $status" "1 passed, 0 failed 0"
like "but is listed" "$said" "failed at first, and passed when run again:
  build unit races: in time"
like "with what it said" "$said" "late by 2 s"
run_suite
is "what fails twice has failed, however often it passed before" "$last $status" "0 passed, 1 failed 1"
is "and had one more try, not two" "$(wc -l <"$TMP/tries")" 4
unlike "and is listed as that alone" "$said" "failed at first"
rm "$TMP/tries"
PROCTOR_TEST_ONCE=1 run_suite
is "without a second try when so told" "$last $status" "0 passed, 1 failed 1"
start
for i in $(seq 9); do
	add "broken$i" exitcode 'echo x >>'"$TMP"'/broken; exit 1'
done
run_suite
is "where many fail, nothing is run again" "$last $(wc -l <"$TMP/broken")" "0 passed, 9 failed 9"

# ---- how many side by side ----
# rooms IDLE: whether there is room for one more beside 1, 8, 2 and 7 programs on two cores that had
# nothing to do for so much of the time; and beside 2 just after a look.
rooms() {
	PYTHONDONTWRITEBYTECODE=1 python3 - "$runner" "$1" <<-'END'
		import importlib.machinery, importlib.util, sys
		loader = importlib.machinery.SourceFileLoader("run", sys.argv[1])
		run = importlib.util.module_from_spec(importlib.util.spec_from_loader("run", loader))
		loader.exec_module(run)
		now, idle = [0.0], float(sys.argv[2])
		machine = run.Machine(2, lambda: (idle * 200 * now[0], 200 * now[0]), lambda: now[0])
		def has_room(n_running, later):
		    now[0] += later
		    return machine.has_room(n_running)
		print(*(int(has_room(n, 1)) for n in (1, 8, 2, 7)), int(has_room(2, 0.1)))
	END
}
is "on busy cores there is room for a program each" "$(rooms 0.2)" "1 0 0 0 0"
is "on idle ones for more, but not for all, and not all at once" "$(rooms 0.9)" "1 0 1 1 0"

start
for i in 1 2 3 4 5 6 7 8 9; do
	add "beside$i" exitcode "echo $i >>$TMP/order"
done
add alone exitcode "sleep 0.1; echo alone >>$TMP/order"
sed -i '/"name": "alone"/,$s/"is_parallel": true/"is_parallel": false/' "$TMP/entries"
run_suite
is "who wants the machine alone comes last" "$last $(tail -n 1 "$TMP/order")" "10 passed, 0 failed alone"
like "which took longest is listed, with the CPU time" "$(sed -n '/^slowest, of [0-9]* s of CPU in all:$/,$p' <<<"$said")" \
	'^ +[0-9.]+ s, +[0-9.]+ s of CPU  build unit alone$'

start
add good exitcode 'true'
run_suite nosuch
is "a suite without tests is bad usage" "$status" 2

finish
