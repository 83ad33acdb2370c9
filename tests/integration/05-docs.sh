#!/bin/bash
# The man page and the bash completion know the verbs and options that --help
# knows, no more and no fewer. What the pages and examples show works as it stands there.
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
	unlike "$verb: --help asks nothing" "$("$PROCTOR" "$verb" --help </dev/null)" "^ which "
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

# ---- README and docs/ ----

pages=("$SOURCE_ROOT"/README.md "$SOURCE_ROOT"/docs/*.md)
is "each link of the pages leads somewhere" \
	"$(python3 "$INTEGRATION/page_blocks.py" links "${pages[@]}" 2>&1)" ""

# docs/testing.md is for those who have the source.
is "all pages are installed" "$(grep -oE 'docs/[a-z-]+\.md' "$SOURCE_ROOT/meson.build" | sort)" \
	"$(cd "$SOURCE_ROOT" && find docs -name '*.md' ! -name testing.md | sort)"

for verb in $verbs; do
	options_of_help "$verb" >"$TMP/options.$verb"
done
# Prints the lines whose verb or option --help does not have.
unknown_commands() {
	local page words verb
	while IFS=: read -r page words; do
		[[ $words =~ ^\ [a-z]+: ]] && continue # what it prints
		[[ $words =~ ^\ ([a-z]+(, [a-z]+)*) ]] || continue
		for verb in ${BASH_REMATCH[1]//,/}; do
			[ -e "$TMP/options.$verb" ] || { echo "$page: proctor$words: no verb $verb" && continue; }
			grep -oE -- '--[a-z-]+' <<<"$words" | grep -vxFf "$TMP/options.$verb" |
				sed "s|^|$page: proctor$words: no option |"
		done
	done
}
commands=$(python3 "$INTEGRATION/page_blocks.py" commands "${pages[@]}" 2>&1)
like "the pages show commands" "$commands" '^README.md: run --output'
is "their verbs and options exist" "$(unknown_commands <<<"$commands")" ""
is "and wrong ones would be found" "$(unknown_commands <<<$'x: jobs --no-such-option\nx: no\nx: start, jobs' | wc -l)" 2

# ---- docs/howto.md: each section in a home of its own, below programs that stand for others ----

mkdir "$TMP/howto" "$TMP/programs" "$TMP/sections"
ln -s "$(realpath "$PROCTOR")" "$TMP/programs/proctor"
ln -s "$INTEGRATION"/stand-ins/* "$TMP/programs"
cat >"$TMP/train.py" <<'END'
import time

held = bytearray(20 << 20)
time.sleep(0.5)
END

# run_section NAME: its blocks one after the other.
run_section() {
	local block mark wanted program home=$TMP/sections/$1
	mkdir -p "$home/home"
	ln -s "$EXAMPLES" "$home/examples"
	cp "$TMP/train.py" "$home"
	for block in "$TMP/howto/$1"/*.sh; do
		read -r mark wanted program <"$block"
		if [ "$mark" != "#" ] || { [ -n "$program" ] && ! PATH=$TMP/programs:$PATH type "$program" >/dev/null 2>&1; }; then
			skip "howto: $1" "there is no $program here"
			continue
		fi
		(cd "$home" && HOME=$home PROCTOR_HOME=$home/home PYTHONPATH=$SOURCE_ROOT/python \
			PATH=$TMP/programs:$PATH timeout 60 bash -e -o pipefail "$block" >"$TMP/out" 2>&1 </dev/null)
		status=$?
		if [ "$status" -eq "$wanted" ]; then
			ok "howto: $1"
		else
			not_ok "howto: $1" "status $status, not $wanted, of:" "$(cat "$block" "$TMP/out")"
		fi
	done
	[ ! -S "$home/home/proctor.sock" ] || PROCTOR_HOME=$home/home "$PROCTOR" stop --jobs >/dev/null 2>&1
}

check "the recipes can be read" python3 "$INTEGRATION/page_blocks.py" blocks "$SOURCE_ROOT/docs/howto.md" "$TMP/howto"
for section in "$TMP"/howto/*; do
	run_section "$(basename "$section")"
done
home=$TMP/sections
like "a secret is masked" "$(PROCTOR_HOME=$home/keep-secrets-out-of-the-database/home "$PROCTOR" report secret)" \
	'true --token=\*\*\* --card_pin \*\*\* DB_PASSWORD=\*\*\* LICENCE=\*\*\* https://me:\*\*\*@host/$'
is "the log of a submitted job has its output" \
	"$(cat "$home/submit-jobs-and-read-their-output/home/logs/report.log")" fetched
like "the job of Slurm has a report for each node" \
	"$(cat "$home"/run-a-job-under-slurm/proctor-slurm-4711/node-1/report.md)" '^\*\*SUCCESS'
like "and its ranks are compared" "$(cat "$home"/run-a-job-under-slurm/proctor-slurm-4711/ranks.txt)" \
	'job slurm-4711, [24] of [24] ranks'

# ---- examples/ ----

values_of_config() { # PROCTOR_HOME: "key value" of each setting
	PROCTOR_HOME=$1 "$PROCTOR" config --json </dev/null | python3 -c '
import json, sys
for name, setting in sorted(json.load(sys.stdin)["settings"].items()):
    print(name, json.dumps(setting["value"]))'
}
settings_left_out() { # PROCTOR_HOME: those that its file does not have
	PROCTOR_HOME=$1 "$PROCTOR" config --json </dev/null | python3 -c '
import json, sys
settings = json.load(sys.stdin)["settings"]
print(*(n for n, s in sorted(settings.items()) if s["source"] == "default"), sep="\n")'
}
check "proctor.yaml is accepted" "$PROCTOR" config --check "$EXAMPLES/proctor.yaml"
mkdir "$TMP/defaults" "$TMP/example"
cp "$EXAMPLES/proctor.yaml" "$TMP/example"
is "its values are the defaults" "$(values_of_config "$TMP/example")" "$(values_of_config "$TMP/defaults")"
is "and it has all settings" "$(settings_left_out "$TMP/example")" ""

for script in "$EXAMPLES"/*.sh; do
	check "$(basename "$script") is a script" bash -n "$script"
done
if type systemd-analyze >/dev/null 2>&1; then
	mkdir "$TMP/units"
	for name in proctor-prometheus.service proctor-prometheus.timer proctor-user.service; do
		sed "s|/usr/local/bin|$TMP/programs|" "$EXAMPLES/$name" >"$TMP/units/$name"
		is "systemd accepts $name" "$(systemd-analyze verify --man=no "$TMP/units/$name" 2>&1)" ""
	done
else
	skip "systemd accepts the units" "there is no systemd-analyze here"
fi
sed -n 's/^ExecStart=[^ ]*proctor //p' "$EXAMPLES/proctor-prometheus.service" | sed "s| /var/lib/.*/| $TMP/|" >"$TMP/exec"
check "the timer's command runs" xargs -a "$TMP/exec" "$PROCTOR"
check "and writes its file" grep -q proctor_memory_total_bytes "$TMP/proctor.prom"

# The commands of the pipelines, but for what installs proctor there.
steps_of() { # FILE
	python3 - "$1" <<'END'
import sys, yaml
with open(sys.argv[1]) as f:
    job = yaml.safe_load(f)
if "jobs" in job:
    steps = [s["run"] for s in job["jobs"]["test"]["steps"] if "run" in s and s["name"] != "Install proctor"]
else:
    steps = job["test"]["script"] + job["test"]["after_script"]
print(*steps, sep="\n")
END
}
if python3 -c 'import yaml' 2>/dev/null && type jq >/dev/null 2>&1; then
	for name in github-actions.yml gitlab-ci.yml; do
		mkdir -p "$TMP/ci/$name"
		steps_of "$EXAMPLES/$name" >"$TMP/ci/$name/steps"
		check "$name runs its tests" env -C "$TMP/ci/$name" PATH="$TMP/programs:$PATH" PEAK_MB=2048 \
			GITHUB_STEP_SUMMARY="$TMP/ci/$name/summary.md" PROCTOR_HOME="$TMP/ci/$name/.proctor" bash -e steps
		like "$name keeps a report" "$(cat "$TMP/ci/$name"/{summary.md,.proctor/report.html} 2>/dev/null)" SUCCESS
	done
	check "compose.yaml is YAML" python3 -c 'import sys, yaml; yaml.safe_load(open(sys.argv[1]))["services"]["train"]' \
		"$EXAMPLES/compose.yaml"
else
	skip "the pipelines run" "there is no yaml for Python, or no jq"
fi

finish
