#!/bin/bash
# scripts/lint-includes passes a good tree and finds each kind of breach in a bad one.
. "$(dirname "$0")/../tap.sh"
lint=$(cd "$(dirname "$0")/../.." && pwd)/scripts/lint-includes
tree=$TMP/tree

put() { # FILE LINE...
	local file=$tree/$1
	shift
	mkdir -p "$(dirname "$file")"
	printf '%s\n' "$@" >"$file"
}

put_header() { # FOLDER NAME LINE...
	local folder=$1 name=$2 guard
	guard=PROCTOR_${folder^^}_${name^^}_H
	shift 2
	put "src/$folder/$name.h" "#ifndef $guard" "#define $guard" "$@" '#endif'
}

# A small tree with nothing wrong.
good_tree() {
	rm -rf "$tree"
	put_header base buf
	put_header model job '#include "base/buf.h"'
	put_header store store '#include "model/job.h"'
	put_header store rows
	put_header jobs jobs '#include "model/job.h"'
	put_header daemon daemon '#include "store/store.h"' '#include "jobs/jobs.h"'
	put src/base/buf.c '#include "base/buf.h"' '#include <stdio.h>' '#include <uv.h>'
	put src/base/meson.build "files('buf.c')"
	put src/store/store.c '#include "store/store.h"' '#include <sqlite3.h>' \
		'#include <linux/types.h>' '#include "base/buf.h"' '#include "store/rows.h"' \
		'/* #include "jobs/jobs.h" */'
	put src/store/read.c '#include "store/store.h"' '#include <stdio.h>'
	put src/store/meson.build "files('read.c', 'store.c')"
	put src/cli/main.c '#include "daemon/daemon.h"' '#include "base/buf.h"'
	put meson.build "executable('src/cli/main.c')"
	put tests/unit/test_base_buf.c '#include <cmocka.h>' '#include "store/rows.h"'
	put tests/unit/meson.build "names = ['base_buf']"
}

# finds NAME REGEX: in the tree as it is now.
finds() {
	local said status
	said=$("$lint" "$tree")
	status=$?
	if [ $status -eq 1 ] && [ "$(wc -l <<<"$said")" -eq 1 ]; then
		like "$1" "$said" "$2"
	else
		not_ok "$1" "status $status, and not exactly one fault:" "$said"
	fi
	good_tree
}

good_tree
check "a good tree passes" "$lint" "$tree"
is "and nothing is said" "$("$lint" "$tree")" ""

put src/store/store.c '#include "store/store.h"' '#include "jobs/jobs.h"'
finds "a sibling" '^src/store/store.c:2: .*siblings'

put_header model job '#include "store/store.h"'
finds "a higher rank" '^src/model/job.h:3: .*model/ is below store/'

put src/cli/main.c '#include "store/rows.h"'
finds "another folder's inner header" '^src/cli/main.c:1: .*only "store/store.h"'

put src/cli/main.c '#include "base/gone.h"'
finds "a header that is not there" '^src/cli/main.c:1: .*does not exist'

put src/store/store.c '#include "store/store.h"' '#include "rows.h"'
finds "a header without its folder" '^src/store/store.c:2: .*folder/file.h'

put src/cli/main.c '#include <sqlite3.h>'
finds "a library outside its fence" '^src/cli/main.c:1: <sqlite3.h> is fenced into store'

put src/cli/main.c '  #  include<curl/curl.h>'
finds "a library that nobody fenced" '^src/cli/main.c:1: <curl/curl.h> is neither'

put src/store/store.c '#include <stdio.h>' '#include "store/store.h"'
finds "the own header not first" '^src/store/store.c:1: .*comes first'

put src/cli/main.c '#include "base/buf.h"' '#include <stdio.h>'
finds "the system's headers after ours" '^src/cli/main.c:2: <stdio.h> comes before'

put src/store/rows.h '#pragma once'
finds "a guard with another name" '^src/store/rows.h:1: .*PROCTOR_STORE_ROWS_H'

put src/base/lost.c 'int lost;'
finds "a source file that is not built" '^src/base/lost.c:1: no meson.build'

put tests/unit/test_base_lost.c 'int lost;'
finds "a test that is not run" '^tests/unit/test_base_lost.c:1: no meson.build'

put src/base/meson.build "# 'buf.c'"
finds "a file that is only commented on" '^src/base/buf.c:1: no meson.build'

put src/odd/odd.c 'int odd;'
put src/odd/meson.build "files('odd.c')"
finds "a folder without a rank" '^src/odd/odd.c:1: src/odd/ has no rank'

mkdir "$TMP/empty"
"$lint" "$TMP/empty" 2>/dev/null
is "a tree without sources is bad usage, not a pass" $? 2

finish
