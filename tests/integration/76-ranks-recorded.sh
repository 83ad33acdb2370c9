#!/bin/bash
# Recorded jobs of which it is known whether a rank was made to leak, and which: culprits are named,
# and nearly no other rank is.
here=$(dirname "$0")
: "${PROCTOR:?is set by the test runner: the proctor to test}"
exec python3 "$here/../data/pack_ranks.py" check "$PROCTOR" "$here/../data/ranks-recorded.jsonl.gz"
