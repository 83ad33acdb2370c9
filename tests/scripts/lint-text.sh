#!/bin/bash
# scripts/lint-text finds each kind of breach, and leaves test data alone.
. "$(dirname "$0")/../tap.sh"
lint=$(cd "$(dirname "$0")/../.." && pwd)/scripts/lint-text
tree=$TMP/tree
mkdir -p "$tree/tests/golden" "$tree/build"

printf 'fine\n\tand /homework/too\nsee /home/ada/notes\n' >"$tree/good.md"
: >"$tree/empty"
printf '\0\1binary \n' >"$tree/picture"
printf 'as captured \n' >"$tree/tests/golden/data"
printf 'built \n' >"$tree/build/log"
check "a good tree passes" "$lint" "$tree"

found() { # NAME CONTENT WANTED
	# shellcheck disable=SC2059 # the content is a format, for its escapes
	printf "$2" >"$tree/bad file.md"
	is "$1" "$("$lint" "$tree")" "bad file.md:$3"
	"$lint" "$tree" >/dev/null
	is "$1: status 1" $? 1
}

found "white space at a line's end" 'one\ntwo \n' "2: white space at the end of the line"
found "a carriage return" 'one\r\n' "1: white space at the end of the line"
found "somebody's home" 'see /ho''me/joe/notes\n' "1: a path of one machine"
found "a path at the line's beginning" '/ho''me/joe\n' "1: a path of one machine"
found "no newline at the end" 'one\ntwo' "1: no newline at the end of the file"

finish
