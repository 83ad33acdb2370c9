#include "detect/running.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/unknown.h"

static uint64_t hash_text(uint64_t h, const char *text)
{
	return text ? hash_bytes(h, text, strlen(text) + 1) : h;
}

static uint64_t hash_process(enum anomaly_type type, const struct proc_key *key)
{
	static const int kind = OF_PROCESS;
	uint64_t h = hash_bytes(HASH_INIT, &type, sizeof(type));

	h = hash_bytes(h, &kind, sizeof(kind));
	h = hash_bytes(h, &key->pid, sizeof(key->pid));
	return hash_bytes(h, &key->start_ticks, sizeof(key->start_ticks));
}

/* What it is called by: the same whoever looks, and however often the host was booted. */
static uint64_t hash_name(enum anomaly_type type, const struct subject *who, const char *boot_id)
{
	uint64_t h = hash_bytes(HASH_INIT, &type, sizeof(type));

	h = hash_bytes(h, &who->kind, sizeof(who->kind));
	switch (who->kind) {
	case OF_PROCESS:
		h = hash_process(type, &who->key);
		/* A pid alone may be of another job by now. */
		return u64_known(who->key.start_ticks) ? h : hash_text(h, who->job_id);
	case OF_JOB:
		return hash_text(h, who->job_id);
	case OF_CGROUP: /* one job after the other may be in it */
		h = hash_bytes(h, &who->cgroup, sizeof(who->cgroup));
		return hash_text(h, who->job_id);
	case OF_GPU:
		return hash_bytes(hash_text(h, boot_id), &who->gpu, sizeof(who->gpu));
	case OF_HOST:
		break;
	}
	return hash_text(h, boot_id);
}

static uint64_t add_attempt(uint64_t h, int64_t attempt_id)
{
	return hash_bytes(h, &attempt_id, sizeof(attempt_id));
}

uint64_t episode_hash(enum anomaly_type type, const struct subject *who, const char *boot_id)
{
	uint64_t h = hash_name(type, who, boot_id);

	if (who->kind == OF_PROCESS && u64_known(who->key.start_ticks))
		return h;
	return add_attempt(h, who->attempt_id);
}

void episode_write_name(struct episode *e, const struct subject *who, const char *boot_id)
{
	const char *type = anomaly_type_name(e->worst.type);
	unsigned long long began = e->began_wall_ns;

	if (who->kind == OF_PROCESS && u64_known(who->key.start_ticks))
		snprintf(e->name, sizeof(e->name), "%s/%d.%llu/%llu", type, (int)who->key.pid,
			 (unsigned long long)who->key.start_ticks, began);
	else
		snprintf(e->name, sizeof(e->name), "%s/%016llx/%llu.%lld", type,
			 (unsigned long long)hash_name(e->worst.type, who, boot_id), began,
			 (long long)who->attempt_id);
}

#define HASH_DIGITS 16

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The middle part of the name of what is of no process with a known start. */
static int read_middle(const char *name, uint64_t *ret)
{
	const char *text = strchr(name, '/');
	uint64_t h = 0;
	int i;

	for (i = 0; text && i < HASH_DIGITS && digit(text[1 + i]) >= 0; i++)
		h = h << 4 | (uint64_t)digit(text[1 + i]);
	if (i < HASH_DIGITS || text[1 + i] != '/')
		return -EINVAL;
	*ret = h;
	return 0;
}

/* One whose start is unknown is told by its job as well, and so is what is of that as a whole. */
bool episode_is_of_process(const struct episode *e)
{
	const bool has_start = u64_known(e->worst.start_ticks);
	char middle[48];

	snprintf(middle, sizeof(middle), "/%lld.%llu/", (long long)e->worst.pid,
		 (unsigned long long)e->worst.start_ticks);
	return e->worst.has_pid && (!has_start || strstr(e->name, middle) != NULL);
}

bool episode_is_of(const struct episode *e, const char *job_id, int64_t attempt_id)
{
	return e->worst.job_id && job_id && e->attempt_id == attempt_id &&
	       strcmp(e->worst.job_id, job_id) == 0;
}

/* Whoever wrote the row may be anybody. */
static bool makes_sense(const struct episode *e)
{
	const char *type = anomaly_type_name(e->worst.type);
	const size_t n = strlen(type);

	if (strncmp(e->name, type, n) != 0 || e->name[n] != '/')
		return false;
	return !e->worst.has_pid || (e->worst.pid > 0 && (pid_t)e->worst.pid == e->worst.pid);
}

int episode_read_hash(const struct episode *e, uint64_t *ret)
{
	const struct proc_key key = { (pid_t)e->worst.pid, e->worst.start_ticks };
	uint64_t h;

	if (!makes_sense(e))
		return -EINVAL;
	if (episode_is_of_process(e) && u64_known(key.start_ticks)) {
		*ret = hash_process(e->worst.type, &key);
		return 0;
	}
	if (read_middle(e->name, &h) < 0)
		return -EINVAL;
	*ret = add_attempt(h, e->attempt_id);
	return 0;
}
