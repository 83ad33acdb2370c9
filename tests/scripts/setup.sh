#!/bin/bash
# scripts/setup does nothing when all is there, installs what is missing, and
# says what to type when it may not. Debian is played by scripts on PATH.
. "$(dirname "$0")/../tap.sh"
export TMP
setup=$(cd "$(dirname "$0")/../.." && pwd)/scripts/setup

mkdir "$TMP/bin"

fake() { # NAME BODY
	printf '#!/bin/bash\n%s\n' "$2" >"$TMP/bin/$1"
	chmod +x "$TMP/bin/$1"
}

# Wrappers, not links: a fake written over a link would be written into the real tool.
for tool in awk cat dirname env grep id true; do
	fake "$tool" "exec $(type -P "$tool") \"\$@\""
done

run_setup() { # GROUP...; sets said, status and calls
	: >"$TMP/calls"
	said=$(PATH=$TMP/bin /bin/bash "$setup" "$@" 2>&1 </dev/null)
	status=$?
	calls=$(cat "$TMP/calls")
}

# The same with a terminal for stdin and stdout, and nobody who types.
run_setup_at_terminal() { # GROUP...
	: >"$TMP/calls"
	said=$(python3 -c 'import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))' \
		env PATH="$TMP/bin" /bin/bash "$setup" "$@" 2>&1 </dev/null | tr -d '\r'
		exit "${PIPESTATUS[0]}")
	status=$?
	calls=$(cat "$TMP/calls")
}

run_setup build
is "without dpkg it goes on" "$status" 0
like "and says what is needed" "$said" "not a Debian system.*meson"

fake dpkg-query 'echo installed'
fake apt-get 'echo "apt-get $*" >>"$TMP/calls"'
run_setup build test
is "all there: status 0" "$status" 0
is "all there: nothing is said" "$said" ""
is "all there: nothing is called" "$calls" ""

fake id 'echo 0'
fake dpkg-query '[ "${@: -1}" != meson ] && [ "${@: -1}" != gcc ] && echo installed'
run_setup build
is "root: only what is missing is installed, without an update" "$calls" \
	"apt-get install -y -q --no-install-recommends gcc meson"

fake apt-get 'echo "apt-get $*" >>"$TMP/calls"
[ "$1" = update ] || grep -q update "$TMP/calls"'
run_setup build
is "root: lists are updated when the install failed, then once more" "$calls" \
	"apt-get install -y -q --no-install-recommends gcc meson
apt-get update -q
apt-get install -y -q --no-install-recommends gcc meson"
is "and then it is well" "$status" 0

fake apt-get 'exit 100'
run_setup build
is "an install that fails is a failure" "$status" 1
like "and it says what to type" "$said" "could not install them: gcc meson
setup: as root, type: apt-get update && apt-get install gcc meson"

fake id 'echo 1000'
fake apt-get 'echo "apt-get $*" >>"$TMP/calls"'
run_setup build
is "an ordinary user without sudo: status 1" "$status" 1
like "it says what to type" "$said" "as root, type: apt-get update && apt-get install gcc meson"
is "and calls nothing" "$calls" ""

fake sudo '[ "$1" != -n ] && echo "sudo $*" >>"$TMP/calls"'
run_setup build
is "sudo that wants a password, and nobody there to type it: status 1" "$status" 1

fake sudo 'echo "ada is not in the sudoers file." >&2; exit 1'
run_setup_at_terminal build
is "a terminal, and a user who may not use sudo: status 1" "$status" 1
like "it says what is missing" "$said" "only root can install them: gcc meson"
like "and what to type" "$said" "as root, type: apt-get update && apt-get install gcc meson"
unlike "and does not pretend to install" "$said" "installing"
is "and calls nothing" "$calls" ""

# Whether it works without a password (-n) is asked first, and does not count as a use.
fake sudo '[ "$1" != -n ] || exit "$(cat "$TMP/asks-password")"
echo "sudo $*" >>"$TMP/calls"; "$@"'
install="env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends gcc meson"
echo 0 >"$TMP/asks-password"
run_setup build
is "sudo that works is used" "$calls" \
	"sudo $install
apt-get install -y -q --no-install-recommends gcc meson"

echo 1 >"$TMP/asks-password"
run_setup_at_terminal build
is "so is sudo that wants a password, at a terminal" "$calls" \
	"sudo env true
sudo $install
apt-get install -y -q --no-install-recommends gcc meson"

fake dpkg-query 'echo installed'
run_setup build nosuch
is "a group that does not exist is bad usage" "$status" 2
like "and is named" "$said" "nosuch"

finish
