#!/bin/bash
# The man page and the bash completion know the verbs and options that --help
# knows, no more and no fewer.
. "$(dirname "$0")/lib.sh"
page=$SOURCE_ROOT/man/proctor.1

without_common() { # of those that argp adds to every verb
	grep -vx -e --help -e --usage
}

# What "proctor --help" lists: two spaces, the verb, and more spaces before what it does.
verbs_of_help() {
	"$PROCTOR" --help </dev/null | sed -nE 's/^  ([a-z]+)  +[^ ].*/\1/p' | sort
}

# argp's option lines: "  -f, --file=FILE   Read ..." and "      --json   ...".
options_of_help() { # VERB
	"$PROCTOR" "$1" --help </dev/null | sed -nE 's/^ {2,6}(-., )?(--[a-z-]+).*/\2/p' |
		without_common | sort -u
}

# In the page the verbs are the subsections of VERBS.
verbs_of_page() {
	awk '/^\.SH/ { inside = $2 == "VERBS" } inside && /^\.SS/ { print $2 }' "$page" | sort
}

# The line after .TP is the option with its value.
options_of_page() { # VERB
	awk -v verb="$1" '
		/^\.S[HS]/ { inside = $1 == ".SS" && $2 == verb }
		inside && tagged { print }
		{ tagged = $1 == ".TP" }' "$page" |
		sed 's/\\-/-/g' | grep -oE -- '--[a-z-]+' | sort -u
}

# What pressing TAB after these words offers.
complete_words() { # WORD...
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_proctor
	printf '%s\n' "${COMPREPLY[@]}"
}

. "$SOURCE_ROOT/completions/proctor.bash"

verbs=$(verbs_of_help)
check "--help lists verbs" [ -n "$verbs" ]
is "the man page has these verbs" "$(verbs_of_page)" "$verbs"
is "the completion has these verbs" "$(complete_words proctor '' | grep -v '^-' | sort)" "$verbs"

for verb in $verbs; do
	options=$(options_of_help "$verb")
	like "$verb: --help lists options" "$options" '^--'
	is "$verb: the man page has its options" "$(options_of_page "$verb")" "$options"
	is "$verb: the completion has its options" \
		"$(complete_words proctor "$verb" -- | without_common | sort)" "$options"
done

is "a value is completed" "$(complete_words proctor report --format = j)" json
is "a command is completed after --" "$(complete_words proctor run -- printen | head -n 1)" printenv

version=$("$PROCTOR" --version </dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
like "the man page is of this version" "$(grep '^\.TH' "$page")" "proctor ${version//./\\.}[^0-9.]"
is "the page has no mistake in its markup" "$(groff -man -ww -Tascii -z "$page" 2>&1)" ""

finish
