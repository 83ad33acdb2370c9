# shellcheck shell=bash
# users.sh - a host with users of its own, for tests of root's daemon: sourced after
#
#	export OWN_MOUNTS=wanted
#	. "$(dirname "$0")/lib.sh"
#
# Skips the whole script where that cannot be had. The users alice (4001, also in the group crew), bob (4002), carol
# (4003, also in readers) and dave (4004, who may not write at home) have their homes below $TMP; /etc, /run and
# /var/lib are the script's own, and PROCTOR_HOME is not set.

# as USER COMMAND [ARG...]: as after a login.
as() {
	local user=$1
	shift
	if [ "$user" = root ]; then
		"$@"
		return
	fi
	(cd "$TMP/$user" && exec setpriv --reuid="$user" --regid="$user" --init-groups \
		env -i HOME="$TMP/$user" PATH="$PATH" LC_ALL="$LC_ALL" PYTHONPATH="$TMP" "$@")
}

# ask_as USER METHOD [PARAMS [EVENTS]]: as ask, of root's daemon.
ask_as() {
	local user=$1
	shift
	as "$user" python3 "$TMP/rpc_client.py" /run/proctor/proctor.sock "$@"
}

# list_of USER EXPRESSION: of the jobs that run or wait and that the daemon shows this user, as d.
list_of() {
	json_eval "$(ask_as "$1" job.list)" "$2"
}

# listed USER: these, as JOB:UID.
listed() {
	list_of "$1" '" ".join(sorted("%s:%s" % (j["job_id"], j["uid"]) for j in d))'
}

make_users() {
	local id=4000 user
	unset PROCTOR_HOME
	chmod 755 "$TMP"
	cp "$PROCTOR" "$INTEGRATION/rpc_client.py" "$TMP" # where they are, others may not look
	chmod 755 "$TMP/proctor" "$TMP/rpc_client.py"
	PROCTOR=$TMP/proctor
	cp -a /etc "$TMP/etc"
	rm -rf "$TMP/etc/proctor"
	mkdir "$TMP/etc/proctor" "$TMP/var"
	for user in alice bob carol dave; do
		id=$((id + 1))
		mkdir "$TMP/$user"
		[ $user = dave ] || chown $id:$id "$TMP/$user"
		echo "$user:x:$id:$id::$TMP/$user:/bin/sh" >>"$TMP/etc/passwd"
		echo "$user:x:$id:" >>"$TMP/etc/group"
	done
	printf '%s\n' readers:x:4100:carol crew:x:4101:alice >>"$TMP/etc/group"
	mount --bind "$TMP/etc" /etc && mount -t tmpfs none /run && mount --bind "$TMP/var" /var/lib
}

if [ "${OWN_MOUNTS:-}" != yes ]; then
	skip "a daemon for all users" "needs root, and a machine that makes mount namespaces"
	finish
fi
make_users || exit 99
