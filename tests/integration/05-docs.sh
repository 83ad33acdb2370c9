#!/bin/bash
# The man page and the bash completion know the verbs and options that --help
# knows, no more and no fewer, and what the page shows works as it stands there.
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

# The lines between .nf and .fi of a section, without markup.
sample_of_page() { # SECTION
	awk -v section="$1" '
		/^\.SH/ { inside = substr($0, 5) == section }
		/^\.fi/ { shown = 0 }
		inside && shown && !/^\./ { print }
		/^\.nf/ { shown = 1 }' "$page" | sed "s/\\\\-/-/g; s/\\\\(aq/'/g"
}

# A key that is not known makes proctor list those that are.
keys_of_config() { # MAPPING
	echo "$1" >"$PROCTOR_HOME/proctor.yaml"
	"$PROCTOR" snapshot </dev/null 2>&1 | sed -n 's/.*; known are //p' | tr -d ' ' | tr ',' '\n'
	rm "$PROCTOR_HOME/proctor.yaml"
}

# The line after .TP is the key.
keys_of_page() {
	awk '
		/^\.SH/ { inside = $2 == "CONFIGURATION" }
		inside && tagged { print $2 }
		{ tagged = $1 == ".TP" }' "$page"
}

# What the samples call, besides proctor, is played by commands that do nothing.
set_stage() {
	local name
	mkdir -p "$TMP/stage/bin" "$TMP/stage/model"
	ln -s "$(realpath "$PROCTOR")" "$TMP/stage/bin/proctor"
	for name in bin/make bin/curl bin/tar bin/python3 nightly.sh publish; do
		printf '#!/bin/sh\ncat >/dev/null\n' >"$TMP/stage/$name"
		chmod +x "$TMP/stage/$name"
	done
}

on_stage() { # COMMAND [ARG...]
	(cd "$TMP/stage" && PATH=$TMP/stage/bin:$PATH "$@")
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
is "an export's kind is completed" "$(complete_words proctor export c)" csv
is "a command is completed after --" "$(complete_words proctor run -- printen | head -n 1)" printenv

mkdir -p "$PROCTOR_HOME"
keys=$(keys_of_config 'zzz: 1' && keys_of_config 'retention: {zzz: 1}')
like "the configuration has keys" "$keys" '^retention'
is "the man page has its keys" "$(keys_of_page | sort)" "$(sort <<<"$keys")"

set_stage
examples=$(sample_of_page EXAMPLES)
like "the page has examples" "$examples" '^proctor run'
while IFS= read -r example; do
	check "example: $example" on_stage sh -c "$example"
done <<<"$examples"
check "the example's file is written" [ -s "$TMP/stage/nightly.json" ]

sample_of_page "JOB FILES" >"$TMP/stage/job.yaml"
like "the page has a job file" "$(cat "$TMP/stage/job.yaml")" '^sheets:'
check "its job file runs" on_stage proctor run --quiet -f job.yaml

version=$("$PROCTOR" --version </dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)
like "the man page is of this version" "$(grep '^\.TH' "$page")" "proctor ${version//./\\.}[^0-9.]"
is "the page has no mistake in its markup" "$(groff -man -ww -Tascii -z "$page" 2>&1)" ""

finish
