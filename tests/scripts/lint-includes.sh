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

put_header() { # FOLDER[/PART] NAME LINE...
	local folder=$1 name=$2
	shift 2
	put "src/$folder/$name.h" '#pragma once' "$@"
}

# A small tree with nothing wrong.
good_tree() {
	rm -rf "$tree"
	put_header base buf
	put_header model job '#include "base/buf.h"'
	put_header store store '#include "model/job.h"'
	put_header store rows
	put_header jobs jobs '#include "model/job.h"'
	put_header store/fold fold '#include "store/rows.h"'
	put_header store/fold bits
	put_header store/retain retain
	put_header query query '#include "store/store.h"'
	put_header tui tui '#include "query/query.h"'
	put_header daemon daemon '#include "store/store.h"' '#include "jobs/jobs.h"' '#include "query/query.h"'
	put src/base/buf.c '#include "base/buf.h"' '#include <stdio.h>' '#include <uv.h>'
	put src/base/meson.build "files('buf.c')"
	put src/store/store.c '#include "store/store.h"' '#include <sqlite3.h>' \
		'#include <linux/types.h>' '#include "base/buf.h"' '#include "store/rows.h"' \
		'/* #include "jobs/jobs.h" */'
	put src/store/read.c '#include "store/store.h"' '#include <stdio.h>' '#include "store/fold/fold.h"'
	put src/store/fold/fold.c '#include "store/fold/fold.h"' '#include <sqlite3.h>' \
		'#include "base/buf.h"' '#include "store/fold/bits.h"' '#include "store/retain/retain.h"'
	put src/store/fold/load.c '#include "store/store.h"' '#include <stdio.h>'
	put src/store/retain/retain.c '#include "store/retain/retain.h"'
	put src/store/retain/load.c '#include "store/retain/retain.h"'
	put src/store/retain/meson.build "files('load.c', 'retain.c')"
	put src/store/meson.build "files('read.c', 'store.c', 'fold/fold.c', 'fold/load.c')" "subdir('retain')"
	put src/cli/main.c '#include "daemon/daemon.h"' '#include "base/buf.h"' '#include "store/fold/fold.h"'
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
finds "a higher rank" '^src/model/job.h:2: .*model/ is below store/'

put src/cli/main.c '#include "store/rows.h"'
finds "another folder's inner header" '^src/cli/main.c:1: .*only "store/store.h"'

put src/cli/main.c '#include "store/fold/bits.h"'
finds "another folder's part's inner header" '^src/cli/main.c:1: .*only "store/fold/fold.h"'

put src/store/retain/load.c '#include "store/fold/bits.h"'
finds "another part's inner header" '^src/store/retain/load.c:1: .*from outside store/fold/ only "store/fold/fold.h"'

put src/store/read.c '#include "store/store.h"' '#include "store/fold/bits.h"'
finds "a part's inner header from its folder" '^src/store/read.c:2: .*only "store/fold/fold.h"'

put src/jobs/jobs.h '#pragma once' '#include "store/fold/fold.h"'
finds "a sibling's part" '^src/jobs/jobs.h:2: .*siblings'

put_header store/fold fold '#include "query/query.h"'
finds "a higher rank, from a part" '^src/store/fold/fold.h:2: .*store/ is below query/'

put_header query query '#include "tui/tui.h"'
finds "query/ lies below those that it reads for" '^src/query/query.h:2: .*query/ is below tui/'

put_header tui tui '#include "daemon/daemon.h"'
finds "daemon/ lies above tui/" '^src/tui/tui.h:2: .*tui/ is below daemon/'

put src/cli/main.c '#include "base/gone.h"'
finds "a header that is not there" '^src/cli/main.c:1: .*does not exist'

put src/store/store.c '#include "store/store.h"' '#include "rows.h"'
finds "a header without its folder" '^src/store/store.c:2: .*folder/file.h'

put src/store/fold/fold.c '#include "store/fold/fold.h"' '#include "fold/bits.h"'
finds "a part's header without its folder" '^src/store/fold/fold.c:2: .*folder/part/file.h'

put src/cli/main.c '#include <sqlite3.h>'
finds "a library outside its fence" '^src/cli/main.c:1: <sqlite3.h> is fenced into store'

put src/cli/main.c '  #  include<curl/curl.h>'
finds "a library that nobody fenced" '^src/cli/main.c:1: <curl/curl.h> is neither'

put src/store/store.c '#include <stdio.h>' '#include "store/store.h"'
finds "the own header not first" '^src/store/store.c:1: .*comes first'

put src/store/fold/fold.c '#include "store/store.h"'
finds "the own header of a part's file not first" '^src/store/fold/fold.c:1: "store/fold/fold.h" comes first'

put src/cli/main.c '#include "base/buf.h"' '#include <stdio.h>'
finds "the system's headers after ours" '^src/cli/main.c:2: <stdio.h> comes before'

put src/store/rows.h '#include "base/buf.h"'
finds "a header that can be included twice" '^src/store/rows.h:1: .*#pragma once'

put src/base/lost.c 'int lost;'
finds "a source file that is not built" '^src/base/lost.c:1: no meson.build'

put src/store/fold/store.c 'int lost;'
finds "a file of a part that has the name of one that is built" '^src/store/fold/store.c:1: no meson.build'

put src/store/retain/meson.build "files('retain.c')"
finds "a file that only another part lists by this name" '^src/store/retain/load.c:1: no meson.build'

put tests/unit/test_base_lost.c 'int lost;'
finds "a test that is not run" '^tests/unit/test_base_lost.c:1: no meson.build'

put src/base/meson.build "# 'buf.c'"
finds "a file that is only commented on" '^src/base/buf.c:1: no meson.build'

put src/odd/odd.c 'int odd;'
put src/odd/meson.build "files('odd.c')"
finds "a folder without a rank" '^src/odd/odd.c:1: src/odd/ has no rank'

put src/store/fold/deep/deep.c 'int deep;'
put src/store/fold/deep/meson.build "files('deep.c')"
finds "a part of a part" '^src/store/fold/deep/deep.c:1: .*too deep'

mkdir "$TMP/empty"
"$lint" "$TMP/empty" 2>/dev/null
is "a tree without sources is bad usage, not a pass" $? 2

finish
