#include "cli/elsewhere_print.h"

#include <errno.h>

#include "base/json.h"
#include "base/log.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "cli/output.h"

struct printer {
	const struct elsewhere_shape *shape;
	struct output out;
	struct json json;
	uint64_t n_rows;
};

static void add_json(struct printer *p, const struct rpc_value *row)
{
	if (!p->shape->is_list)
		json_init(&p->json, &p->out.buf);
	else if (p->n_rows == 0)
		json_begin_array(&p->json);
	rpc_value_write(row, &p->json);
	if (!p->shape->is_list)
		buf_add_char(&p->out.buf, '\n');
}

static int on_row(void *ctx, const struct rpc_value *row)
{
	struct printer *p = ctx;

	if (p->shape->json) {
		add_json(p, row);
	} else {
		if (p->n_rows == 0)
			p->shape->add_titles(&p->out.buf);
		p->shape->add_line(&p->out.buf, row);
	}
	p->n_rows++;
	return output_pass(&p->out);
}

static void end(struct printer *p)
{
	if (!p->shape->json && p->n_rows == 0)
		log_error("%s", p->shape->none);
	if (!p->shape->json || !p->shape->is_list)
		return;
	if (p->n_rows == 0)
		json_begin_array(&p->json);
	json_end_array(&p->json);
	buf_add_char(&p->out.buf, '\n');
}

int elsewhere_print(enum elsewhere_rows rows, const struct elsewhere_question *question,
		    const struct elsewhere_shape *shape)
{
	struct printer p = { .shape = shape, .out = OUTPUT_INIT };
	struct err err = ERR_INIT;
	int r = output_open(&p.out, NULL, &err);

	json_init(&p.json, &p.out.buf);
	if (r == 0)
		r = elsewhere_read(rows, question, on_row, &p, &err);
	if (r == 0)
		end(&p);
	if (r != -ENOENT)
		r = output_end(&p.out, r, &err);
	output_release(&p.out);
	return r;
}
