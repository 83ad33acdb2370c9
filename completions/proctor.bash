# Bash completion for proctor(1). tests/integration/05-docs.sh compares it with --help.

declare -gA _proctor_options=(
	[run]="--capture --cgroup --cpus --file --grace --interval --job --json --kill-after --leave-background
		--memory --output --pids --quiet --report --sheet --syscalls --timeout"
	[snapshot]="--all --json"
	[jobs]="--all --json --limit --since"
	[why]="--attempt --json"
	[report]="--attempt --format --json"
	[history]="--csv --job --json --minutes --pid --since --until"
	[events]="--follow --job --json --since --until"
	[anomalies]="--job --json --since --until"
	[detect]="--history --input --job --json --set --until"
	[top]="--history --interval --job --json --trace --until"
	[export]="--attempt --job --output --since --spreadsheet --store --until --what"
	[ranks]="--attempt --clock-error --csv --format --job --json --output --skip-invalid --store"
	[sql]="--csv --json --no-header --schema"
	[correlate]="--input --json --since"
	[patterns]="--json"
	[estimate]="--file --json --sheet"
	[diff]="--json"
	[outcome]="--attempt --note"
	[stack]="--json --kernel"
	[trace]="--duration --max-bytes --output --start-ticks"
	[start]="--foreground"
	[stop]="--jobs"
	[status]="--json"
	[web]="--print"
	[submit]="--job --json"
	[wait]="--attempt --json"
	[cancel]="--attempt --json --queued --user"
	[attach]="--job --json --pid"
	[phase]=""
	[config]="--check --json"
	[doctor]="--json --repair --all"
	[gc]="--dry-run --trust-clock --json"
)

# Prints the ids of recorded jobs that begin with WORD.
_proctor_jobs() { # WORD
	compgen -W "$(proctor jobs --json 2>/dev/null |
		grep -o '"job_id": *"[^"]*"' | sed 's/.*: *"\(.*\)"/\1/')" -- "$1"
}

# Prints what an option's value may be.
_proctor_values() { # OPTION WORD
	case $1 in
	-f | --file | -o | --output | --check | --input) compgen -f -- "$2" ;;
	--format) compgen -W "text json md html" -- "$2" ;;
	--what) compgen -W "samples snapshots events jobs sheets processes" -- "$2" ;;
	-j | --job) _proctor_jobs "$2" ;;
	--syscalls) compgen -W "auto ebpf sampled strace off" -- "$2" ;;
	--pid) compgen -W "$(cd /proc && echo [0-9]*)" -- "$2" ;;
	esac
}

# Prints what can stand at the cursor.
_proctor_candidates() { # VERB WORD-BEFORE WORD
	local values
	values=$(_proctor_values "$2" "$3")
	if [ -n "$values" ]; then
		echo "$values"
	elif [[ $3 == -* ]]; then
		compgen -W "${_proctor_options[$1]-} --help --usage" -- "$3"
	elif [ "$1" = outcome ] && [ "$2" != outcome ]; then
		compgen -W "success failure measured" -- "$3"
	elif [ "$1" = report ] || [ "$1" = diff ] || [ "$1" = outcome ] || [ "$1" = stack ] ||
		[ "$1" = why ]; then
		_proctor_jobs "$3"
	elif [ "$2" = trace ]; then
		compgen -W "$(cd /proc && echo [0-9]*)" -- "$3"
	elif [ "$2" = export ]; then
		compgen -W "csv prometheus telemetry" -- "$3"
	elif [ "$2" = phase ]; then
		compgen -W "enter exit" -- "$3"
	elif [ "$2" = ranks ]; then
		compgen -W "analyze merge validate" -- "$3"
	fi
}

_proctor() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} i

	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "${!_proctor_options[*]} --help --version" -- "$word")
		return
	fi
	# After "--" it is the command's line: a command, then whatever readline offers.
	for ((i = 2; i < COMP_CWORD; i++)); do
		if [ "${COMP_WORDS[i]}" = -- ]; then
			COMPREPLY=()
			[ $i -ne $((COMP_CWORD - 1)) ] || mapfile -t COMPREPLY < <(compgen -c -- "$word")
			return
		fi
	done
	# readline makes three words of "--format=te".
	if [ "$word" = = ]; then
		word=
	elif [ "$before" = = ]; then
		before=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	mapfile -t COMPREPLY < <(_proctor_candidates "${COMP_WORDS[1]}" "$before" "$word")
}

complete -o default -F _proctor proctor
