#!/bin/bash
# The units are installed where they belong, systemd takes them as they are, and they keep
# their promises: what starts, stops and confines the daemon. Nothing is started here.
. "$(dirname "$0")/../tap.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
unit=$root/systemd/proctor.service.in

value() { # KEY: of the service; the last one wins, as for systemd
	sed -n "s/^$1=//p" "$unit" | tail -n 1
}

# ---- installing ----

units_in() { # BUILD-DIR: where they would be installed
	meson introspect --installed "$1" |
		python3 -c 'import json, sys; print(*json.load(sys.stdin).values(), sep="\n")' |
		grep -E 'proctor\.(service|socket)$' | sort
}

change() { # OPTION
	meson configure "$TMP/build" "$1" && ninja -C "$TMP/build" build.ninja
}

check "a build is set up" meson setup "$TMP/build" "$root" -Dtests=disabled -Dprefix=/opt/p
is "the units go below the prefix" "$(units_in "$TMP/build")" "/opt/p/lib/systemd/system/proctor.service
/opt/p/lib/systemd/system/proctor.socket"
like "and start the program that is there" "$(cat "$TMP/build/proctor.service")" \
	'^ExecStart=/opt/p/bin/proctor start --foreground$'
unlike "nothing is left to fill in" "$(cat "$TMP/build/proctor.service")" '@[a-z]+@'
check "another place can be named" change -Dsystemd_unit_dir=/etc/units
like "and they go there" "$(units_in "$TMP/build")" '^/etc/units/proctor\.socket$'
check "or none" change -Dsystemd_unit_dir=none
is "and they go nowhere" "$(units_in "$TMP/build")" ""

# ---- what systemd says of them ----

# Files with these names, whose program is there.
mkdir "$TMP/bin" "$TMP/units"
printf '#!/bin/sh\n' >"$TMP/bin/proctor"
chmod +x "$TMP/bin/proctor"
sed "s|@bindir@|$TMP/bin|" "$unit" >"$TMP/units/proctor.service"
cp "$root/systemd/proctor.socket" "$TMP/units"

if type systemd-analyze >/dev/null 2>&1; then
	for name in proctor.service proctor.socket; do
		is "systemd has nothing to say against $name" \
			"$(systemd-analyze verify --man=no "$TMP/units/$name" 2>&1)" ""
	done
	# 10 is as bare as a service can be, 0 as confined.
	check "the service is confined" systemd-analyze security --no-pager --offline=true \
		--threshold=30 "$TMP/units/proctor.service"
	score=$(systemd-analyze security --no-pager --offline=true "$TMP/units/proctor.service" |
		grep -oE 'proctor.service: [0-9.]+' | cut -d' ' -f2)
	like "the documentation has what is left" "$(cat "$root/docs/contracts.md")" \
		"gives the unit ${score/./\\.} of 10"
else
	for name in "proctor.service is verified" "proctor.socket is verified" "the service is confined" \
		"the documentation has what is left"; do
		skip "$name" "there is no systemd-analyze here"
	done
fi

# ---- promises ----

is "it says when it is ready" "$(value Type)" notify
like "it is watched" "$(value WatchdogSec)" '^[1-9]'
# shellcheck disable=SC2016 # systemd's variable, not ours
like "a reload is SIGHUP" "$(value ExecReload)" '^/bin/kill -HUP \$MAINPID$'
is "a bad configuration is not tried again and again" "$(value RestartPreventExitStatus)" 2
is "it cannot write where it likes" "$(value ProtectSystem)" strict
is "it gains no rights" "$(value NoNewPrivileges)" yes
is "the socket of the other unit outlives it" "$(value RuntimeDirectoryPreserve)" yes
is "both mean the same socket" "$(sed -n 's/^ListenStream=//p' "$root/systemd/proctor.socket")" \
	"/run/$(value RuntimeDirectory)/proctor.sock"
# None of this could be taken off by a job, so none of them may be a child of the daemon.
like "jobs are started by the manager" "$(cat "$unit")" '^Environment="PROCTOR_LAUNCHER=systemd-run .* --"$'
while read -r word; do
	like "each capability is explained: $word" "$(grep '^#' "$unit")" "^# $word  "
	like "and in the documentation" "$(cat "$root/docs/contracts.md")" "^\\|.*\`$word\`.*\\|.*\\|$"
done < <(value CapabilityBoundingSet | tr ' ' '\n')

finish
