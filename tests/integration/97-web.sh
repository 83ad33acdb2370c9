#!/bin/bash
# The page of the daemon: who gets in, what is refused, and what many or slow clients do to it.
. "$(dirname "$0")/lib.sh"

port=$((20000 + $$ % 10000))
start_daemon "interval_seconds: 0.3
web:
  listen: 127.0.0.1:$port"
if [ "$(status_of 'd["web_error"] or ""')" != "" ]; then
	skip "the page" "this proctor was built without it"
	finish
fi

# web ARG...: asks the page; sets code and body.
web() {
	local answer
	answer=$(python3 "$INTEGRATION/web_client.py" $port "$@" 2>&1)
	code=${answer%%$'\n'*}
	body=${answer#*$'\n'}
}

python3 "$INTEGRATION/web_client.py" $port slow >"$TMP/slow" 2>&1 &
slow_pid=$!

run "$PROCTOR" status
like "status prints the address" "$stdout" "http://127.0.0.1:$port"
"$PROCTOR" run -q --job ended -- true

# ---- who gets in ----

web get /
is "the page itself is for all" "$code" 200
like "and loads its own parts alone" "$body" 'src="/main.js"'
web get /api/job.list
is "nothing comes without a session" "$code" 401
web get /events
is "no events either" "$code" 401
run "$PROCTOR" web --print
link=$stdout
like "a link is printed" "$link" "^http://127.0.0.1:$port/#link=[0-9a-f]{64}$"
web login "${link%?}0x"
is "a token that is none is refused" "$code" 403
web post /session "X-Proctor-Link: ${link##*=}" "Origin: http://evil.example"
is "so is another site that has the token" "$code" 403
web login "$link"
is "the page exchanges it" "$code" 200
COOKIE=${body%%$'\n'*} session=${body#*$'\n'}
export COOKIE
json "for a session of this user" "$session" 'd["uid"] == '"$(id -u)"
web login "$link"
is "the link is valid once" "$code" 403
web get "/api/job.report?job_id=ended"
is "a session may ask" "$code" 200
json "and gets what the socket answers" "$body" 'd["job_id"] == "ended" and d["outcome"] == "success"'
web get "/api/job.report?job_id=none"
is "a job that is not there" "$code" 404
COOKIE="${COOKIE%?}x" web get /api/job.list
is "another cookie is none" "$code" 401

# ---- what a picture needs ----

"$PROCTOR" run -q --interval 0.1 --job grows -- python3 -c '
import time
held = []
for i in range(20):
    held.append(bytearray(2 << 20))
    time.sleep(0.1)'
web get "/api/job.series?job_id=grows&metric=rss&points=5"
series=$body
samples=$("$PROCTOR" history --job grows --json)
json "a series has the largest and least value of the samples" "{\"series\": $series, \"samples\": $samples}" \
	'all(abs(f(v for v in p[key] if v is not None) - f(s["rss_mb"] for s in d["samples"] if s["pid"] == p["pid"])) < 0.01
		for p in d["series"]["processes"] for f, key in ((max, "high"), (min, "low")))'
json "of each process" "{\"series\": $series, \"samples\": $samples}" \
	'{p["pid"] for p in d["series"]["processes"]} == {s["pid"] for s in d["samples"] if s["rss_mb"] is not None}'
json "in as many points as were asked for" "$series" 'd["points"] == 5 and all(p["first"] + len(p["low"]) <= 5 for p in d["processes"])'
web get "/api/job.series?job_id=grows&metric=rss&since_ns=2000000000&until_ns=1000000000"
is "a span that ends before it begins is refused" "$code" 400
web get "/api/job.series?job_id=grows&metric=none"
is "so is a metric that is none" "$code" 400

# ---- other sites ----

for host in evil.example 127.0.0.1.evil.example 10.0.0.1 "localhost:99999" "[::1]x" ""; do
	web get /api/job.list "Host: $host"
	is "the host '$host' is refused" "$([ "$code" = 403 ] || [ "$code" = 400 ] && echo refused)" refused
done
web get /api/job.list "Host: localhost:8080"
is "a tunnel's is not" "$code" 200
web get / "Host: evil.example"
is "not even the page is for another name" "$code" 403
web get /api/job.list "Origin: http://evil.example"
is "another origin is refused" "$code" 403
web get /api/job.list "Sec-Fetch-Site: cross-site"
is "so is a browser that reports another site" "$code" 403
action=$(json_eval "$session" 'd["action_token"]')
web get "/api/job.cancel?job_id=ended"
is "a GET changes nothing" "$code" 405
web post "/api/job.cancel?job_id=ended"
is "a POST without the token neither" "$code" 403
web post "/api/job.cancel?job_id=ended" "X-Proctor-Action: $action" "Origin: http://localhost:$port"
is "nor from another origin" "$code" 403
web post "/api/job.cancel?job_id=ended" "X-Proctor-Action: $action"
is "with the token it is asked" "$code" 404
like "and answered by the daemon" "$body" "over"
web post "/api/job.outcome?job_id=ended&attempt=1&outcome=failure&note=wrong%20numbers" "X-Proctor-Action: $action"
is "an outcome is set" "$code" 200
json "and is the job's" "$("$PROCTOR" report ended --json)" 'd["outcome"] == "failure" and "wrong numbers" in d["reason"]'
web post "/api/job.outcome?job_id=ended&attempt=1&outcome=lost" "X-Proctor-Action: $action"
is "one that is none is refused" "$code" 400
web post "/api/job.outcome?job_id=ended&attempt=1&outcome=measured" "X-Proctor-Action: $action"
json "the measured one comes back" "$("$PROCTOR" report ended --json)" 'd["outcome"] == "success"'

# ---- broken requests ----

for path in /../../../../etc/passwd /%2e%2e/%2e%2e/etc/passwd //etc/passwd /main.js/ /api/ /api/../session; do
	web get "$path"
	is "there is no $path" "$code" 404
done
web get "/api/daemon.stop"
is "what the page does not need is not there" "$code" 404
web get "/api/job.report?job_id=ended&evil=1"
is "nor a parameter" "$code" 400
web get '/api/job.report?job_id=ended%22%7D%0A%7B%22jsonrpc%22'
is "quotes and newlines are text" "$code" 404
web get '/api/job.report?job_id=ended&job_id=ended'
is "a parameter that is there twice" "$code" 400
web get '/api/job.report?job_id=ended&attempt=one'
is "a number that is none" "$code" 400
web raw 'DELETE / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
is "another method" "$code" 405
web raw 'POST /session HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello'
is "a body" "$code" 413
web raw '\x00\xff\xfe\r\n\r\n'
is "no HTTP at all" "$([ "$code" = 400 ] || [ "$code" = none ] && echo refused)" refused
web headers 10485760
is "10 MB of headers" "$([ "$code" = 431 ] || [ "$code" = none ] && echo refused)" refused
web crowd 1000
check "of 1000 connections those that are too many get an answer" test "$code" -ge 500
run "$PROCTOR" status --json
json "the daemon goes on meanwhile" "$stdout" 'd["recording"]'

# ---- events ----

web_events() { python3 "$INTEGRATION/web_client.py" $port events "$@" 2>&1; }
serves() {
	web get /session
	[ "$code" = 200 ]
}
check "and the page is served when they are gone" eventually serves
first=$(web_events 2)
like "events come" "$first" snapshot
id=$(tail -n 1 <<<"$first")
id=${id%% *}
"$PROCTOR" run -q --job between -- true
events=$(web_events 3 "$id")
like "what happened while the page was away is sent" "$events" "job.started"
unlike "and nothing was missed" "$events" missed
like "what nobody has any more is missed" "$(web_events 1 0123456789abcdef-5)" missed

# ---- a daemon that is killed, and another ----

kill -9 "$(daemon_pid)"
check "the next daemon starts" eventually "$PROCTOR" start
check "and knows the session" eventually serves
is "which is for its user's eyes" "$(stat -c %a "$PROCTOR_HOME/web-sessions")" 600
mkdir "$TMP/other"
cp "$PROCTOR_HOME/proctor.yaml" "$TMP/other"
run env PROCTOR_HOME="$TMP/other" "$PROCTOR" start
is "a daemon that finds the address taken starts" "$status" 0
run env PROCTOR_HOME="$TMP/other" "$PROCTOR" status
like "and prints that it serves no page" "$stdout" "page      none: cannot listen on 127.0.0.1:$port"
run env PROCTOR_HOME="$TMP/other" "$PROCTOR" web
is "so there is no link" "$status" 1
env PROCTOR_HOME="$TMP/other" "$PROCTOR" stop >/dev/null 2>&1

wait $slow_pid
is "a client that does not read was dropped" "$(cat "$TMP/slow")" dropped

python3 "$INTEGRATION/web_client.py" $port events 1000000 >/dev/null 2>&1 &
eventually has_subscribers 1
run "$PROCTOR" stop
is "a daemon with an open page stops" "$status" 0
unlike "in order" "$(cat "$PROCTOR_HOME/daemon.log")" "abort|panic|fatal"
printf 'web:\n  enabled: false\n' >"$PROCTOR_HOME/proctor.yaml"
run "$PROCTOR" start
run "$PROCTOR" status --json
json "the page can be turned off" "$stdout" 'd["web_address"] is None and d["web_error"] is None'
finish
