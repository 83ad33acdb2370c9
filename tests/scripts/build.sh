#!/bin/bash
# The program can be built and installed where what its tests need is missing; the tests cannot. The
# installed one is built with static libraries, and without those that are missing.
# Missing is played by a pkg-config that does not find it.
. "$(dirname "$0")/../tap.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
real=$(type -P pkg-config)

cat >"$TMP/pkg-config" <<END
#!/bin/bash
case "\$*" in
*cmocka*) [ -e "$TMP/found" ] || exit 1 ;;
*libuv-static*) [ ! -e "$TMP/no-static" ] || exit 1 ;;
*--libs*yaml*) [ ! -e "$TMP/no-static" ] || { echo "-L$TMP/lib -lshared_yaml"; exit; } ;;
esac
exec "$real" "\$@"
END
printf "[binaries]\npkgconfig = '%s'\npkg-config = '%s'\ncmake = '/nonexistent/cmake'\n" \
	"$TMP/pkg-config" "$TMP/pkg-config" >"$TMP/native.ini"
chmod +x "$TMP/pkg-config"

configure() { # BUILD-DIR [OPTION...]
	meson setup "$TMP/$1" "$root" --native-file "$TMP/native.ini" "${@:2}"
}

tests_in() { # BUILD-DIR
	meson introspect --tests "$TMP/$1" | grep -o '"proctor:[a-z]*"' | sort -u
}

check "without cmocka a build is set up" configure plain
like "the program is in it" "$(meson introspect --targets "$TMP/plain")" '"name": "proctor"'
like "other tests are in it" "$(tests_in plain)" scripts
unlike "unit tests are not" "$(tests_in plain)" unit

run_said=$(cd "$TMP" && "$root/tests/run" plain:unit 2>&1)
is "the runner does not take that for a pass" $? 2
like "and says so" "$run_said" "no tests in suite 'unit'"

said=$(configure strict -Dtests=enabled 2>&1)
is "where tests are asked for it fails" $? 1
like "and says what is missing" "$said" 'ERROR.*cmocka'

check "no tests at all can be asked for" configure none -Dtests=disabled
is "and there are none" "$(tests_in none)" ""

if "$real" --exists cmocka; then
	touch "$TMP/found"
	check "what was missing is there now" meson configure "$TMP/plain" -Dtests=enabled
	check "and it is looked for again" ninja -C "$TMP/plain" build.ninja
	like "then there are unit tests" "$(tests_in plain)" unit
else
	skip "unit tests come when cmocka does" "it is not installed"
fi

# ---- what make install installs ----

# linked_in BUILD-DIR TARGET: what the linker is given.
linked_in() {
	ninja -C "$TMP/$1" -t commands "$2" | tail -n 1
}

read -ra release <<<"$(sed -n 's/^RELEASE_OPTIONS := //p' "$root/Makefile")"
is "make install strips" "$(printf '%s\n' "${release[@]}" | grep -c -e -Dstrip=true)" 1
check "it is set up" configure release "${release[@]}"
program=$(linked_in release proctor)
if [ -e "$(cc -print-file-name=libsqlite3.a)" ] && [ -e "$(cc -print-file-name=libuv_a.a)" ]; then
	like "the program has a static library" "$program" 'libsqlite3\.a'
	like "and one whose package has another name" "$program" 'libuv_a\.a'
else
	skip "the program has static libraries" "none are installed here"
fi
unlike "shared libraries have none, whose code may not be fit for them" \
	"$(linked_in release libproctor.so.0.1.0)$(linked_in release libproctor_sqlite.so)" '/lib[a-z0-9_-]*\.a'
like "but shared ones" "$(linked_in release libproctor.so.0.1.0)" '-ljansson|libjansson\.so'
compiled=$(ninja -C "$TMP/release" -t commands proctor.p/src_cli_main.c.o | tail -n 1)
like "it is optimised" "$compiled" ' -O2 '
unlike "without debug information" "$compiled" ' -g '

mkdir "$TMP/lib"
ln -s "$(cc -print-file-name=libyaml.so)" "$TMP/lib/libshared_yaml.so"
touch "$TMP/no-static"
check "it is set up where static libraries are missing" configure mixed "${release[@]}"
program=$(linked_in mixed proctor)
like "with shared ones in their place" "$program" '-luv .*(-lshared_yaml|libshared_yaml\.so)'
unlike "and none of the missing" "$program" 'libyaml\.a|libuv_a'

finish
