#!/bin/bash
# scripts/lint-shell looks at every script, whatever it is called, and finds mistakes in it.
. "$(dirname "$0")/../tap.sh"
lint=$(cd "$(dirname "$0")/../.." && pwd)/scripts/lint-shell
tree=$TMP/tree

if ! command -v shellcheck >/dev/null; then
	skip "lint-shell finds mistakes" "shellcheck is not installed"
	finish
fi

good_tree() {
	rm -rf "$tree"
	mkdir -p "$tree/scripts" "$tree/build"
	printf '#!/bin/bash\n. "$(dirname "$0")/helpers.sh"\ngreet "$1"\n' >"$tree/scripts/tool"
	printf '# shellcheck shell=bash\ngreet() {\n\techo "$1"\n}\n' >"$tree/scripts/helpers.sh"
	printf 'Such as:\n\n#!/bin/bash\nrm $1\n' >"$tree/manual.md"
	printf '#!/usr/bin/env python3\nprint($not_ours)\n' >"$tree/scripts/snake"
	printf '#!/bin/sh\nrm $1\n' >"$tree/build/made"
}

finds() { # NAME FILE
	printf '#!/bin/bash\nrm $1\n' >"$tree/$2"
	like "$1" "$("$lint" "$tree" 2>&1)" "$2:2:[0-9]+: .*SC2086"
	"$lint" "$tree" >/dev/null 2>&1
	is "$1: status 1" $? 1
	good_tree
}

good_tree
check "a good tree passes" "$lint" "$tree"
finds "a script that only its first line gives away" scripts/other
finds "a script by its name" "one with a space.sh"

mkdir "$TMP/empty"
"$lint" "$TMP/empty" 2>/dev/null
is "a tree without scripts is bad usage, not a pass" $? 2

finish
