#!/bin/bash
# The page in a browser: real jobs of a real daemon, as a user sees them. WEB_PICTURES: a folder for the pictures.
. "$(dirname "$0")/lib.sh"

# Debian's Python has the module.
python=/usr/bin/python3
if ! command -v chromium chromedriver >/dev/null || ! $python -c 'import selenium' 2>/dev/null; then
	skip "the page in a browser" "chromium, chromium-driver or python3-selenium is missing"
	finish
fi
port=$((30000 + $$ % 10000))
start_daemon "interval_seconds: 0.5
web:
  listen: 127.0.0.1:$port
anomaly:
  memory_leak_window_seconds: 10
  memory_leak_floor_mb: 16"
if [ "$(status_of 'd["web_error"] or ""')" != "" ]; then
	skip "the page in a browser" "this proctor was built without it"
	finish
fi

cat >"$TMP/steps.yaml" <<END
job_id: steps
sheets:
  - name: first
    run: $(gate step)
  - name: second
    run: $(gate end)
END
cat >"$TMP/leak.py" <<'END'
import os, sys, time
held = []
while os.path.exists(sys.argv[1]) and len(held) < 600:
    held.append(bytearray(3 << 20))
    time.sleep(0.5)
END
mkdir "$TMP/web"
sed -i "s#$TMP/passed.step#$TMP/web/passed.step#" "$TMP/steps.yaml"
"$PROCTOR" run -q --job ended -- sh -c 'exit 7 # <img src=x onerror=alert(1)>'
"$PROCTOR" run -q --job ended -- sleep 1
printf 'job_id: ranks\nsheets:\n  - name: all\n    ranks: 3\n    run: sleep 3\n' >"$TMP/ranks.yaml"
"$PROCTOR" run -q -f "$TMP/ranks.yaml"
"$PROCTOR" run -q -f "$TMP/steps.yaml" &
"$PROCTOR" run -q --job leaky -- python3 "$TMP/leak.py" "$TMP/web" &
leaks() { "$PROCTOR" anomalies --job leaky --json 2>/dev/null | grep -q memory_leak; }
check "there is a leak" eventually leaks

while read -r result name; do
	case $result in
	ok) ok "$name" ;;
	*) not_ok "${name#ok }" "$name" ;;
	esac
done < <(timeout 600 $python "$INTEGRATION/web_browser.py" "$PROCTOR" "$("$PROCTOR" web --print)" "$TMP/web" 2>"$TMP/browser.err")
is "the browser had no trouble" "$(cat "$TMP/browser.err")" ""
[ -z "${WEB_PICTURES:-}" ] || cp "$TMP"/web/*.png "$WEB_PICTURES"
finish
