# The front door. meson and ninja do the work, in build/ (and build-asan/,
# build-fuzz/ for the instrumented ones, build-release/ for the installed one).
# Whatever a target needs is installed on the way: see scripts/packages.txt.

PREFIX ?= /usr/local
DESTDIR ?=
SECONDS ?= 60
SEEDS ?= 10000
FIRST ?= 1

# How the installed programs are built. Debian's static libraries, where they are installed, halve the time
# to start: docs/performance.md. A warning of a newer compiler is no reason not to install.
RELEASE_OPTIONS := -Doptimization=2 -Ddebug=false -Dstrip=true -Dprefer_static=true -Dtests=disabled -Dwerror=false

# The tour's last sheet fails on purpose, with this status, and proctor run passes it on.
TOUR_STATUS := 3

.PHONY: all setup setup-build setup-test run test lint bench fuzz fuzz-all simulate kill release install uninstall deb clean help

all: build/build.ninja ## builds build/proctor, build/libproctor.so and build/libproctor_sqlite.so
	@ninja -C build programs

setup: setup-test ## installs the Debian packages that are missing

run: all ## profiles the example job and shows its report
	@status=0; PROCTOR_HOME='$(CURDIR)/build/tour-home' \
		build/proctor run -f examples/tour.yaml --report || status=$$?; \
	if [ $$status -ne $(TOUR_STATUS) ]; then \
		echo "make run: the tour ended with status $$status, not $(TOUR_STATUS)" >&2; exit 1; \
	fi

test: setup-test build/tests-enabled build-asan/tests-enabled ## everything: lint, unit, fuzz corpora, integration
	@ninja -C build
	@ninja -C build-asan unit-and-fuzz
	@tests/run build:integration,lint,scripts,unit build-asan:unit,fuzz # the longest first

lint: setup-test build/tests-enabled ## warnings, include ranks, format, cppcheck, shellcheck, size
	@ninja -C build
	@tests/run build:lint

bench: build/build.ninja ## measures proctor beside its floor and its peers
	@ninja -C build
	@tests/bench/run build

fuzz: build-fuzz/build.ninja ## TARGET=name [SECONDS=60]: looks for input that breaks a parser
	@[ -n '$(TARGET)' ] || { echo "make fuzz: TARGET is one of:" $$(ls tests/fuzz/corpus) >&2; exit 2; }
	@ninja -C build-fuzz 'tests/fuzz/fuzz_$(TARGET)'
	@mkdir -p 'build-fuzz/corpus/$(TARGET)'
	'build-fuzz/tests/fuzz/fuzz_$(TARGET)' -max_total_time=$(SECONDS) -artifact_prefix=build-fuzz/ \
		'build-fuzz/corpus/$(TARGET)' 'tests/fuzz/corpus/$(TARGET)'

fuzz-all: build-fuzz/build.ninja ## [SECONDS=60]: the same for each target; what breaks one stays in its corpus
	@ninja -C build-fuzz
	@broken=; for target in $$(ls tests/fuzz/corpus); do \
		mkdir -p "build-fuzz/corpus/$$target"; \
		"build-fuzz/tests/fuzz/fuzz_$$target" -max_total_time=$(SECONDS) -timeout=20 -verbosity=0 \
			-artifact_prefix="tests/fuzz/corpus/$$target/" \
			"build-fuzz/corpus/$$target" "tests/fuzz/corpus/$$target" || broken="$$broken $$target"; \
	done; [ -z "$$broken" ] || { echo "make fuzz-all: broken:$$broken" >&2; exit 1; }

simulate: build/tests-enabled ## [SEEDS=10000] [FIRST=1]: the log on a disk that fails, a seed at a time
	@ninja -C build tests/simulate/simulate
	@build/tests/simulate/simulate $(FIRST) $(SEEDS)

kill: setup-test all ## [JOBS=1200] [RUNS=10000] [AT_ONCE=10]: SIGKILL for runners and daemons, and many runs at once
	@PROCTOR='$(CURDIR)/build/proctor' JOBS=$(or $(JOBS),1200) RUNS=$(or $(RUNS),10000) AT_ONCE=$(or $(AT_ONCE),10) \
		tests/integration/67-kill.sh

release: build-release/build.ninja ## builds what install installs, in build-release/
	@ninja -C build-release programs

install: build-release/build.ninja ## [PREFIX=/usr/local] [DESTDIR=]: program, libraries, Python module, systemd units, man page, completion, documents
	@meson configure build-release -Dprefix='$(PREFIX)'
	@ninja -C build-release programs
	@meson install -C build-release --no-rebuild --quiet $(if $(DESTDIR),--destdir "$$(realpath -m '$(DESTDIR)')")

uninstall: build-release/build.ninja ## [PREFIX=/usr/local] [DESTDIR=]: removes what install has put there
	@meson configure build-release -Dprefix='$(PREFIX)'
	@ninja -C build-release build.ninja >/dev/null
	@scripts/uninstall build-release $(if $(DESTDIR),"$$(realpath -m '$(DESTDIR)')")

deb: build-release/build.ninja ## makes a Debian package in build-release/, and prints its path
	@meson configure build-release -Dprefix=/usr
	@ninja -C build-release programs >&2
	@scripts/make-deb build-release build-release

clean: ## removes all that was built
	rm -rf build build-asan build-fuzz build-release

help: ## says this
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

setup-build:
	@scripts/setup build

setup-test: setup-build
	@scripts/setup test

# A build may have been set up before what the unit tests need was there. From here on meson
# refuses to go on without it. If it is still not there, the program must build all the same.
build/tests-enabled build-asan/tests-enabled: %/tests-enabled: | setup-test %/build.ninja
	@ninja -C $* build.ninja >/dev/null # a folder of an older checkout learns the new options
	@meson configure $* -Dtests=enabled
	@ninja -C $* build.ninja || { \
		meson configure $* -Dtests=auto; \
		echo "make: what the tests need is missing: see [test] in scripts/packages.txt" >&2; exit 1; \
	}
	@touch $@

build/build.ninja: | setup-build
	@meson setup build

build-release/build.ninja: | setup-build
	@meson setup build-release $(RELEASE_OPTIONS)

build-asan/build.ninja: | setup-build
	@meson setup build-asan -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false

build-fuzz/build.ninja:
	@scripts/setup build fuzz
	@CC=clang CXX=clang++ meson setup build-fuzz -Dfuzz=true -Dwerror=false \
		-Db_sanitize=address,undefined -Db_lundef=false
