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

# "limits.max_processes", and "limits" for each mapping.
keys_of_config() {
	"$PROCTOR" config --json </dev/null | python3 -c '
import json, sys
names = json.load(sys.stdin)["settings"]
print(*sorted(set(names) | {n.split(".")[0] for n in names}), sep="\n")'
}

# The line after .TP is the key; between .RS and .RE it is in the mapping that came last. Those
# whose text begins with * have no effect yet.
keys_of_page() { # [MARKED]
	awk -v marked="${1-}" '
		/^\.SH/ { inside = $2 == "CONFIGURATION" }
		/^\.RS/ { mapping = key "."; mark_all = mark }
		/^\.RE/ { mapping = ""; mark_all = 0 }
		seen { mark = /^\*/ || mark_all; if (!marked || mark) print key; seen = 0 }
		inside && tagged { key = mapping $2; seen = 1 }
		{ tagged = $1 == ".TP" }' "$page"
}

idle_keys() { # and the mappings in which all are
	"$PROCTOR" config --json </dev/null | python3 -c '
import json, sys
settings = json.load(sys.stdin)["settings"]
idle = {n for n, s in settings.items() if not s["has_effect"]}
mappings = {n.split(".")[0] for n in settings if "." in n}
print(*idle, *(m for m in mappings if all(n in idle for n in settings if n.startswith(m + "."))), sep="\n")'
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
	like "$verb: --help tells of it" "$("$PROCTOR" "$verb" --help </dev/null)" "^Usage: proctor $verb"
	is "$verb: the man page has its options" "$(options_of_page "$verb")" "$options"
	is "$verb: the completion has its options" \
		"$(complete_words proctor "$verb" -- | without_common | sort)" "$options"
done

is "a value is completed" "$(complete_words proctor report --format = j)" json
is "an export's kind is completed" "$(complete_words proctor export c)" csv
is "a command is completed after --" "$(complete_words proctor run -- printen | head -n 1)" printenv

mkdir -p "$PROCTOR_HOME"
keys=$(keys_of_config)
like "the configuration has keys" "$keys" '^retention'
is "the man page has its keys" "$(keys_of_page | sort)" "$(sort <<<"$keys")"
is "and marks those without effect" "$(keys_of_page marked | sort)" "$(idle_keys | sort)"

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
