#!/bin/bash
# What is installed can be removed again, and goes into a Debian package.
. "$(dirname "$0")/lib.sh"
: "${PROCTOR_BUILD:?is set by the test runner: the folder to install from}"

is "the module has the version of the program" \
	"proctor $(PYTHONPATH=$SOURCE_ROOT/python python3 -c 'import proctor; print(proctor.__version__)')" \
	"$("$PROCTOR" --version)"

# ---- uninstall ----
check "it is installed" meson install -C "$PROCTOR_BUILD" --no-rebuild --quiet --destdir "$TMP/dest"
modules=$(find "$TMP/dest" -path '*-packages/proctor' -type d)
mkdir "$modules/__pycache__" # as Python makes it
touch "$modules/__pycache__/x.pyc" "$(dirname "$modules")/other.py"
check "and removed" "$SOURCE_ROOT/scripts/uninstall" "$PROCTOR_BUILD" "$TMP/dest"
is "nothing of it is left" "$(find "$TMP/dest" ! -type d -printf '%f\n')" other.py
is "nor a folder of its name" "$(find "$TMP/dest" -name proctor)" ""
check "to remove it twice does no harm" "$SOURCE_ROOT/scripts/uninstall" "$PROCTOR_BUILD" "$TMP/dest"

# ---- a Debian package ----
if ! command -v dpkg-deb >/dev/null || ! command -v dpkg-shlibdeps >/dev/null; then
	skip "a Debian package" "dpkg-dev is not installed"
	finish
fi
run "$SOURCE_ROOT/scripts/make-deb" "$PROCTOR_BUILD" "$TMP/out"
is "a package is made" "$status/$(ls "$TMP/out")" "0/$(basename "$stdout")"
package=$stdout
field() {
	dpkg-deb -f "$package" "$1"
}
is "of this version" "proctor $(field Version)" "$("$PROCTOR" --version)"
is "for this machine" "$(field Architecture)" "$(dpkg --print-architecture)"
like "it depends on what the programs are linked with" "$(field Depends)" 'libc6 \(.*libjansson4'
contents=$(dpkg-deb -c "$package")
for file in bin/proctor lib/libproctor_sqlite.so 'lib/[^ ]*/libproctor\.so\.0\.[^ ]*' \
	lib/python3/dist-packages/proctor/__init__.py lib/systemd/system/proctor.service \
	share/bash-completion/completions/proctor share/doc/proctor/copyright \
	share/man/man1/proctor.1.gz include/proctor/proctor.h; do
	like "it has $file" "$contents" "root/root .*/$file( |\$)"
done
unlike "and nothing that Python compiled" "$contents" __pycache__
check "it can be unpacked" dpkg-deb -x "$package" "$TMP/root"
program=$(find "$TMP/root" -path '*/bin/proctor')
is "and its program runs" "$("$program" --version)" "$("$PROCTOR" --version)"
like "pkg-config names the folder of the module" \
	"$(cat "$(find "$TMP/root" -name libproctor.pc)")" '^pythondir=.*/lib/python3/dist-packages$'
check "its scripts are scripts" sh -c 'dpkg-deb -e "$1" "$2" && sh -n "$2/postinst" && sh -n "$2/prerm"' \
	sh "$package" "$TMP/control"
finish
