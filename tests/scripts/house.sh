#!/bin/bash
# scripts/house measures a small tree rightly, passes it, and finds each kind of breach.
. "$(dirname "$0")/../tap.sh"
house=$(cd "$(dirname "$0")/../.." && pwd)/scripts/house
tree=$TMP/tree

put() { # FILE LINE...
	local file=$tree/$1
	shift
	mkdir -p "$(dirname "$file")"
	printf '%s\n' "$@" >"$file"
}

# Two folders, one with a sub-folder. struct cup has 7 members, wash and dry call each other.
good_tree() {
	rm -rf "$tree"
	put src/base/buf.h 'int buf_size(void);' 'int buf_grow(void);'
	put src/base/buf.c '#include "base/buf.h"' '#define GROWN buf_twice()' '' \
		'/* static int half(void)' '{' '} half() */' '' \
		'static int half(int n);' '' \
		'static int half(int n)' '{' '	return n > 1 ? half(n / 2) : 0;' '}' '' \
		'static int twice(void)' '{' '	return 2;' '}' '' \
		'static int buf_twice(void)' '{' '	return 2;' '}' '' \
		'int buf_size(void)' '{' '	const char *text = "}{ half()";' '' '	return half(*text) + twice() + twice();' '}' '' \
		'int buf_grow(void)' '{' '	return GROWN;' '}'
	put src/sink/sink.h '#include "base/buf.h"' '' \
		'struct cup {' '	int size, weight;' '	int (*fill)(int n, int m);' \
		'	struct {' '		int hand, foot;' '	} left;' \
		'	enum { HOT, COLD } heat;' '	char name[2]; /* a, b; c */' '};' 'int wash(void);' 'int dry(void);'
	put src/sink/wash/wash.c '#include "sink/sink.h"' 'int wash(void)' '{' '	return dry();' '}'
	put src/sink/wash/dry.c '#include "sink/sink.h"' 'int dry(void)' '{' '	return wash() + buf_size();' '}'
	put bpf/tasks.h 'int cup_bytes;'
	put scripts/budgets.txt '# a comment' 'folder base 40 2 30' 'folder sink 30 3 20 # another' \
		'gate lines 70 60' 'gate files 5 5' 'gate flat_folder 2 2' 'gate struct_members 7 7' \
		'gate knot_modules 2 0' 'gate header_cycles 0 0'
}

# finds NAME LINE: the one breach of the tree as it is now.
finds() {
	local printed status
	printed=$("$house" --check "$tree")
	status=$?
	if [ $status -eq 1 ]; then
		is "$1" "$printed" "$2"
	else
		not_ok "$1" "status $status, printed: $printed"
	fi
	good_tree
}

# refuses NAME REGEX ARG...: exit status 2 and a reason.
refuses() {
	local name=$1 regex=$2 printed status
	shift 2
	printed=$("$house" "$@" 2>&1 >/dev/null)
	status=$?
	is "$name: exit status" $status 2
	like "$name: the reason" "$printed" "$regex"
	good_tree
}

good_tree
check "a tree within its budgets passes" "$house" --check "$tree"
is "and nothing is printed" "$("$house" --check "$tree")" ""

measured() { # NAME EXPRESSION: about the figures d
	check "$1" python3 -c '
import json, sys
d = json.loads(sys.argv[1])
value = eval(sys.argv[2])
sys.exit(0 if value is True else f"{value}: {json.dumps(d)}")' "$("$house" --json "$tree")" "$2"
}

measured "lines and files of a folder" 'd["folders"]["base"]["lines"] == 37 and d["folders"]["base"]["files"] == 2'
measured "a sub-folder counts for its folder" 'd["folders"]["sink"]["files"] == 3 and d["parts"]["sink/wash"]["lines"] == 10'
measured "a header and its source are one module" 'd["folders"]["base"]["modules"] == 1'
measured "function sizes" '[d["folders"]["base"][k] for k in
	("functions", "function_median", "function_p95", "function_max")] == [5, 4, 6, 6]'
measured "one caller: not itself, comments, strings, nor a macro" \
	'[d["folders"]["base"][k] for k in ("static_functions", "one_caller", "one_caller_lines")] == [3, 1, 4]'
measured "members of a struct" 'd["structs"] == [{"members": 7, "name": "cup", "file": "sink/sink.h"}]'
measured "a knot by calls" 'd["knots"] == [{"folder": "sink", "modules": ["sink/wash/dry", "sink/wash/wash"]}]'
measured "no cycle of headers" 'd["header_cycles"] == []'

printed=$("$house" "$tree")
like "the table has the sub-folder" "$printed" '^  wash +10 '
like "a gate that is not reached is printed" "$printed" 'modules in a knot +2 -> 0 '

put src/base/buf.h 'int a;' 'int b;' 'int c;' 'int d;' 'int e;' 'int f;'
finds "too many lines" 'src/base: 41 lines, budget 40'
put src/base/more.h ''
put src/sink/sink.h 'int dry(void);'
sed -i 's/gate files 5/gate files 6/' "$tree/scripts/budgets.txt"
sed -i 's/gate flat_folder 2/gate flat_folder 3/' "$tree/scripts/budgets.txt"
finds "too many files" 'src/base: 3 files, budget 2'
put src/odd/odd.c 'int odd;'
sed -i 's/gate files 5/gate files 6/' "$tree/scripts/budgets.txt"
finds "a folder without a budget" 'src/odd: 1 lines, no budget: add it to scripts/budgets.txt'
sed -i 's/gate lines 70/gate lines 59/' "$tree/scripts/budgets.txt"
finds "too many lines in all" 'src: 60 lines, budget 59'
sed -i 's/gate files 5/gate files 4/' "$tree/scripts/budgets.txt"
finds "too many files in all" 'src: 5 files, budget 4'
mv "$tree/src/sink/wash/dry.c" "$tree/src/sink/wash/wash.c" "$tree/src/sink"
finds "a flat folder" 'src/sink: 3 files in one folder, budget 2'
sed -i 's/int size,/int size, depth,/' "$tree/src/sink/sink.h"
finds "a struct that grew" 'struct cup: 8 members of a struct, budget 7'
put src/base/buf.h 'int wash(void);'
sed -i 's/knot_modules 2/knot_modules 1/' "$tree/scripts/budgets.txt"
finds "a knot that grew" 'src/sink: 2 modules in a knot, budget 1'
put src/base/buf.h '#include "sink/sink.h"'
finds "headers that include each other" 'src: 1 cycles of headers, budget 0'
sed -i /header_cycles/d "$tree/scripts/budgets.txt"
finds "a gate that is missing" "src: 0 cycles of headers, no gate: add 'header_cycles' to scripts/budgets.txt"

is "files that name a metric, as a whole word" "$("$house" --metric cup_bytes "$tree")" \
	'bpf/tasks.h
cup_bytes: 1 files'
is "no file names it" "$("$house" --metric cup_byte "$tree")" 'cup_byte: 0 files'

refuses "an unknown option" 'house: --chekc is unknown' --chekc "$tree"
refuses "two modes" 'one option too many' --check --json "$tree"
refuses "no metric" 'wants the name of a metric' --metric
refuses "two roots" 'more than one ROOT' "$tree" "$tree"
mkdir "$TMP/empty"
refuses "a tree without sources" 'no C files' --check "$TMP/empty"
rm "$tree/scripts/budgets.txt"
refuses "no budgets" 'budgets.txt' --check "$tree"
put scripts/budgets.txt 'folder base 40 two 30'
refuses "a budget that is no number" "budgets.txt:1: neither 'folder NAME" --check "$tree"
like "--help names the method" "$("$house" --help)" 'strongly connected'

finish
