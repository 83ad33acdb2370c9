#!/bin/bash
# The program can be built and installed where what its tests need is missing; the tests cannot.
# Missing is played by a pkg-config that does not find it.
. "$(dirname "$0")/../tap.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)
real=$(type -P pkg-config)

cat >"$TMP/pkg-config" <<END
#!/bin/bash
case "\$*" in
*cmocka*) [ -e "$TMP/found" ] || exit 1 ;;
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

finish
