#!/bin/bash
# The page of root's daemon: each user sees there what the socket answers this user, and a link or a
# cookie is of no use to another.
export OWN_MOUNTS=wanted
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/users.sh"

port=$((40000 + $$ % 10000))
cp "$INTEGRATION/web_client.py" "$TMP"
chmod 755 "$TMP/web_client.py"
start_daemon "interval_seconds: 0.3
access:
  read_group: readers
web:
  listen: 127.0.0.1:$port"
if [ "$(status_of 'd["web_error"] or ""')" != "" ]; then
	skip "the page" "this proctor was built without it"
	finish
fi

# web USER ARG...: asks the page as this user, with the cookie $cookie; sets code and body.
web() {
	local user=$1 answer
	shift
	answer=$(as "$user" env COOKIE="$cookie" python3 "$TMP/web_client.py" $port "$@" 2>&1)
	code=${answer%%$'\n'*}
	body=${answer#*$'\n'}
}
# login USER: sets cookie and session.
login() {
	cookie=""
	web "$1" login "$(as "$1" "$PROCTOR" web --print)"
	cookie=${body%%$'\n'*} session=${body#*$'\n'}
}
names='sorted(j["job_id"] for j in d)'

"$PROCTOR" run -q --job roots -- sleep 300 &
as alice "$PROCTOR" run -q --job hers -- sleep 301 &
is "both jobs run" "$(becomes "hers:4001 roots:0" listed root)" "hers:4001 roots:0"

login alice
json "a session is its user's" "$session" 'd["uid"] == 4001 and d["user"] == "alice"'
hers=$cookie
web alice get /api/job.list
json "who sees their own jobs" "$body" "$names == ['hers']"
web alice get /api/daemon.top
json "and processes" "$body" '{p["command"] for p in d["processes"]} <= {"sleep 301"}'
web alice get "/api/job.report?job_id=roots"
is "and no report of another's" "$code" 404
web alice get "/api/job.series?job_id=roots&metric=rss"
is "nor what it used" "$code" 404
web alice get /api/learn.patterns
is "nor what was learned of all" "$code" 403
web alice post "/api/job.cancel?job_id=roots" "X-Proctor-Action: $(json_eval "$session" 'd["action_token"]')"
is "nor cancels it" "$code" 404

web bob get /api/job.list
is "another user with this cookie is refused" "$code" 401
web bob get /events
is "also events" "$code" 401
cookie=""
link=$(as alice "$PROCTOR" web --print)
web bob login "$link"
is "and one with this user's link" "$code" 403
login bob
web bob get /api/job.list
json "whose own session is empty" "$body" 'd == []'
login carol
web carol get /api/job.list
json "the group that may read sees all" "$body" "$names == ['hers', 'roots']"
login root
web root get /api/job.list
json "as root does" "$body" "$names == ['hers', 'roots']"
login carol
web carol post "/api/job.cancel?job_id=hers" "X-Proctor-Action: $(json_eval "$session" 'd["action_token"]')"
is "who may read may not cancel" "$code" 403

cookie=$hers
kill -9 "$(daemon_pid)"
check "the next daemon starts" eventually "$PROCTOR" start
back() {
	web alice get /api/job.list
	[ "$(json_eval "$body" "$names")" = "['hers']" ]
}
check "and the session sees the same" eventually back
web bob get /api/job.list
is "and is still no other's" "$code" 401
finish
