#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/macros.h"
#include "daemon/methods/methods.h"
#include "daemon/service_work.h"

/* A client that has asked for an analysis. */
struct learn_call {
	struct service *service;
	struct rpc_call *call;
	uint64_t num; /* of the analysis that answers it */
	struct learn_call *next;
};

static void forget_call(void *ctx)
{
	struct learn_call *waiting = ctx;

	LIST_REMOVE(waiting->service->clients.learn_calls, waiting, next);
	free(waiting);
}

static void on_analysis(void *ctx, uint64_t num, const struct learning *l, const struct err *err)
{
	struct service *s = ctx;
	struct learn_call *next;

	for (struct learn_call *waiting = s->clients.learn_calls; waiting; waiting = next) {
		struct rpc_call *call = waiting->call;

		next = waiting->next;
		if (waiting->num > num)
			continue;
		forget_call(waiting);
		if (!l) {
			rpc_call_fail(call, -EIO, err);
			continue;
		}
		learning_write_json(rpc_call_result(call), l);
		rpc_call_answer(call);
	}
}

/* What is about jobs of all users is for those who see all of them. */
static void on_news(void *ctx, const struct pattern *pattern, uint64_t uid)
{
	CLEANUP(buf_release) struct buf out = BUF_INIT;
	struct service *s = ctx;
	struct json j;

	json_init(&j, &out);
	belief_write_json(&j, pattern);
	service_publish(s, TOPIC_PATTERN, clock_wall_ns(), uid, &out);
}

int service_begin_learning(struct service *s, struct err *err)
{
	const struct config_correlation *c = &s->settings.config->correlation;
	const struct learner_options options = {
		.loop = s->loop,
		.db = s->settings.options->paths->db,
		.listener = { .on_news = on_news, .on_analysis = on_analysis, .ctx = s },
		.interval_minutes = (unsigned)c->interval_minutes,
		.min_jobs = (size_t)c->min_sample_size,
	};

	s->learner = learner_new(&options);
	s->aside = aside_new(s->loop, s->settings.options->paths->db, service_check_alive);
	s->starting.submitter =
		aside_new(s->loop, s->settings.options->paths->db, service_check_alive);
	return s->learner && s->aside && s->starting.submitter
		       ? 0
		       : err_set(err, -ENOMEM, "no memory left to begin");
}

/* ---- an analysis at once ---- */

int method_correlate(void *ctx, struct rpc_call *call, struct err *err)
{
	struct service *s = ctx;
	struct learn_call *waiting;
	int r = rpc_call_read(call, NULL, 0, NULL, err);

	if (r < 0)
		return r;
	waiting = malloc(sizeof(*waiting));
	if (!waiting)
		return err_set(err, -ENOMEM, "no memory left to wait");
	*waiting =
		(struct learn_call){ .service = s, .call = call, .next = s->clients.learn_calls };
	s->clients.learn_calls = waiting;
	rpc_call_defer(call, forget_call, waiting);
	waiting->num = learner_analyze_now(s->learner);
	return 0;
}
