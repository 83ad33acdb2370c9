#include "recorder/hold.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "rpc/rpc.h"

#define ASK_AGAIN_MS 1000
#define TIMEOUT_MS 500
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

/* A host that is short of everything may have a daemon that is slow to say so. */
#define PATIENCE_NS (10 * NS_PER_SECOND)

/* What a daemon can say at most; more is not believed. */
#define MAX_DELAY_SECONDS 60

enum word { WORD_ADMIT, WORD_DELAY, WORD_REJECT };

struct answer {
	enum word word;
	uint64_t delay_ns;
	char reason[160]; /* "": none was told */
};

void hold_release(struct hold *h)
{
	rpc_client_close(h->client);
	*h = (struct hold){ 0 };
}

/* ---- asking ---- */

static void write_question(struct buf *out, const char *job_id)
{
	struct json j;

	json_init(&j, out);
	json_begin_object(&j);
	json_key_string(&j, "for", "sheet");
	json_key_string(&j, "job_id", job_id);
	json_end_object(&j);
}

static void read_answer(const struct rpc_value *value, struct answer *ret)
{
	const char *word = rpc_value_string(rpc_value_get(value, "answer"));
	const char *reason = rpc_value_string(rpc_value_get(value, "reason"));
	uint64_t seconds = rpc_value_u64(rpc_value_get(value, "delay_seconds"));

	*ret = (struct answer){ .word = WORD_ADMIT };
	if (word && strcmp(word, "delay") == 0)
		ret->word = WORD_DELAY;
	if (word && strcmp(word, "reject") == 0)
		ret->word = WORD_REJECT;
	if (u64_known(seconds))
		ret->delay_ns =
			(seconds < MAX_DELAY_SECONDS ? seconds : MAX_DELAY_SECONDS) * NS_PER_SECOND;
	snprintf(ret->reason, sizeof(ret->reason), "%s", reason ? reason : "");
}

static int ask(struct hold *h, const char *job_id, struct answer *ret)
{
	const struct rpc_client_options options = { .timeout_ms = TIMEOUT_MS };
	CLEANUP(buf_release) struct buf question = BUF_INIT;
	struct rpc_value *value = NULL;
	int r = h->client ? 0 : rpc_client_open(&options, &h->client, NULL);

	if (r < 0)
		return r;
	write_question(&question, job_id);
	r = rpc_client_call(h->client, "admit", question.data, &value, NULL);
	if (r < 0) {
		h->client = rpc_client_close(h->client);
		return r;
	}
	read_answer(value, ret);
	rpc_value_free(value);
	return 0;
}

/* ---- what follows from it ---- */

/* For the log of the job. */
static void tell_wait(struct hold *h, const struct answer *answer)
{
	if (answer->word == WORD_ADMIT || h->is_told)
		return;
	h->is_told = true;
	log_warning("the next sheet waits: the host is under pressure%s%s",
		    answer->reason[0] ? ": " : "", answer->reason);
}

/* A delay counts from when the sheet could have started, also when the level changes meanwhile. */
static void note_answer(struct hold *h, const struct answer *answer, uint64_t now_ns)
{
	h->is_silent = false;
	tell_wait(h, answer);
	if (answer->word == WORD_ADMIT)
		h->until_boot_ns = now_ns;
	else if (answer->word == WORD_DELAY)
		h->until_boot_ns = h->since_boot_ns + answer->delay_ns;
	else
		h->until_boot_ns = now_ns + answer->delay_ns;
}

static uint64_t ms_until(uint64_t until_ns, uint64_t now_ns)
{
	uint64_t ms = (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;

	return ms < ASK_AGAIN_MS ? ms : ASK_AGAIN_MS;
}

/* The next sheet is asked for anew. */
static void end_wait(struct hold *h)
{
	bool is_silent = h->is_silent;

	hold_release(h);
	h->is_silent = is_silent;
}

static void note_silence(struct hold *h)
{
	if (!h->is_silent)
		log_warning("the daemon does not answer: sheets start without its word");
	h->is_silent = true;
}

uint64_t hold_ask_ms(struct hold *h, const char *job_id)
{
	struct answer answer;
	int r = ask(h, job_id, &answer);
	uint64_t now_ns = clock_boot_ns();

	if (h->since_boot_ns == 0)
		h->since_boot_ns = h->until_boot_ns = now_ns;
	if (r == 0)
		note_answer(h, &answer, now_ns);
	else if (r == -ETIMEDOUT && !h->is_silent && h->until_boot_ns == h->since_boot_ns)
		h->until_boot_ns = h->since_boot_ns + PATIENCE_NS;
	if (now_ns < h->until_boot_ns)
		return ms_until(h->until_boot_ns, now_ns);
	if (r == -ETIMEDOUT)
		note_silence(h);
	end_wait(h);
	return 0;
}
