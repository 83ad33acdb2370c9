#!/bin/bash
# overhead.sh PROCTOR - what "proctor run -- true" takes over a bare "true": one JSON line.
set -eu
command -v hyperfine >/dev/null || {
	echo "overhead: left out, hyperfine is not installed" >&2
	exit 0
}

TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
export PROCTOR_HOME=$TMP/home

hyperfine -N --style none --warmup 10 --runs 200 --export-json "$TMP/times.json" \
	true "$1 run --quiet -- true" >"$TMP/said" 2>&1 || {
	cat "$TMP/said" >&2
	exit 1
}
python3 - "$TMP/times.json" <<'END'
import json, sys
bare, proctor = (r["median"] * 1e3 for r in json.load(open(sys.argv[1]))["results"])
print(json.dumps({"bench": "overhead", "runs": 200, "bare_ms": round(bare, 2),
                  "proctor_run_ms": round(proctor, 2), "over_ms": round(proctor - bare, 2)}))
END
