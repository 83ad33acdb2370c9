#include "store_fixture.h"

#include <fcntl.h>

#include "recorder/phase_box.h"
#include "store_writer.h"

static void append(const char *text, size_t n)
{
	int fd = open(getenv(PHASE_BOX_VARIABLE), O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	close(fd);
}

static void append_line(const char *params)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "{\"method\":\"phase\",\"params\":%s}\n", params);

	append(line, (size_t)n);
}

struct place {
	struct store *store;
	int64_t attempt_id;
};

static void store_changes(void *ctx, const struct phase_change *items, size_t n, uint64_t n_lost)
{
	const struct place *place = ctx;
	struct err err = ERR_INIT;

	for (size_t i = 0; i < n; i++) {
		struct phase_mark mark = { .attempt_id = place->attempt_id,
					   .is_exit = items[i].is_exit,
					   .phase = items[i].phase };

		must(store_mark_phases(place->store, &mark, 1, &err), &err);
	}
	if (n_lost > 0)
		must(store_add_lost_marks(place->store, place->attempt_id, n_lost, &err), &err);
}

static void empty(struct phase_box *box, struct store *store, const struct attempt *a)
{
	struct place place = { store, a->id };
	int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	phase_box_read(box, root_fd, store_changes, &place);
	close(root_fd);
}

static void begin(struct fixture *f, struct phase_box *box, struct store **ret_store,
		  struct attempt *ret)
{
	struct err err = ERR_INIT;

	*ret_store = must_open(f->db, STORE_WRITE);
	*ret = make_attempt("a");
	must(store_begin_attempt(*ret_store, ret, &err), &err);
	phase_box_open(box);
	assert_true(box->fd >= 0);
}

static void test_markers_are_phases(void **state)
{
	struct phase_box box = PHASE_BOX_INIT;
	CLEANUP(attempt_release) struct attempt read;
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct attempt a;
	struct err err = ERR_INIT;

	begin(*state, &box, &store, &a);
	append_line("{\"enter\":\"fit\",\"pid\":7,\"at\":1700000001.5}");
	append_line("{\"enter\":\"step\",\"pid\":7,\"at\":1700000002}");
	append("{\"method\":\"phase\",", 18);
	empty(&box, store, &a); /* the half line waits */
	append("\"params\":{\"exit\":\"step\",\"pid\":7,\"at\":1700000003}}\n", 50);
	empty(&box, store, &a);
	empty(&box, store, &a);
	attempt_init(&read);
	must(store_read_attempt(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.n_phases, 2);
	assert_string_equal(read.phases[1].path, "fit/step");
	assert_int_equal(read.phases[0].entered_wall_ns, UINT64_C(1700000001500000000));
	assert_int_equal(read.phases[1].left_wall_ns, UINT64_C(1700000003000000000));
	assert_false(u64_known(read.phases[0].left_wall_ns));
	phase_box_close(&box);
}

/* A job writes what it likes: it is counted, and what comes after it is taken. */
static void test_what_is_no_marker(void **state)
{
	static char huge[200000];
	struct phase_box box = PHASE_BOX_INIT;
	CLEANUP(attempt_release) struct attempt read;
	CLEANUP(store_cleanup) struct store *store = NULL;
	struct attempt a;
	struct err err = ERR_INIT;
	int n_lost = 0;

	begin(*state, &box, &store, &a);
	append("\n[]\n{}\nx\0y\n[[[[[[[[", 19);
	append("\n", 1);
	append_line("{\"enter\":\"a\\nb\",\"pid\":7}");
	append_line("{\"enter\":\"no pid\"}");
	append_line("{\"enter\":\"a\",\"pid\":-7}");
	append_line("{\"lost\":3}");
	memset(huge, 'x', sizeof(huge));
	huge[sizeof(huge) - 1] = '\n';
	append(huge, sizeof(huge));
	append_line("{\"enter\":\"good\",\"pid\":7,\"at\":1e9}");
	for (int i = 0; i < 2000; i++)
		append_line("{\"exit\":\"nothing\",\"pid\":7}");
	append_line("{\"enter\":\"last\",\"pid\":7}");
	empty(&box, store, &a);
	attempt_init(&read);
	must(store_read_attempt(store, "a", 0, &read, &err), &err);
	assert_int_equal(read.n_phases, 2);
	assert_string_equal(read.phases[0].path, "good");
	assert_string_equal(read.phases[1].path, "good/last");
	assert_int_equal(read.details.n_unknowns, 1);
	assert_string_equal(read.details.unknowns[0].what, "phases");
	/* Five lines, three with params, what they say is lost, and at least one that is huge. */
	assert_int_equal(sscanf(read.details.unknowns[0].why, "about %d markers", &n_lost), 1);
	assert_true(n_lost >= 5 + 3 + 3 + 1);
	phase_box_close(&box);
}

#define STORE_TEST(test_) cmocka_unit_test_setup_teardown(test_, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(test_markers_are_phases),
		STORE_TEST(test_what_is_no_marker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
