#include "store_fixture.h"

#include "store/handle.h"

#define N_JOBS 500
#define TWIN (N_JOBS / 2) /* has the name of the one before it */

struct jobs {
	struct attempt items[N_JOBS];
	const struct attempt *pointers[N_JOBS];
	char names[N_JOBS][16];
	struct tick_record record;
	struct tick_owners owners;
};

/* Their rows go down while their places go up. */
static struct jobs *make_jobs(enum tick_owner owner)
{
	struct jobs *jobs = calloc(1, sizeof(*jobs));

	assert_non_null(jobs);
	for (int i = 0; i < N_JOBS; i++) {
		snprintf(jobs->names[i], sizeof(jobs->names[i]), "job%d", i == TWIN ? i - 1 : i);
		attempt_init(&jobs->items[i]);
		jobs->items[i].job_id = jobs->names[i];
		jobs->items[i].id = 2 * (N_JOBS - i);
		jobs->pointers[i] = &jobs->items[i];
	}
	jobs->record = (struct tick_record){ .attempts = jobs->pointers,
					     .n_attempts = N_JOBS,
					     .owner = owner };
	assert_int_equal(tick_owners_fill(&jobs->owners, &jobs->record), 0);
	return jobs;
}

static void free_jobs(struct jobs *jobs)
{
	tick_owners_release(&jobs->owners);
	free(jobs);
}

static const struct attempt *owner_of(const struct jobs *jobs, const char *job_id, int64_t id)
{
	struct proc_sample p;

	proc_sample_init(&p);
	p.job_id = job_id;
	p.attempt_id = id;
	return tick_owner_of_process(&jobs->owners, &jobs->record, &p);
}

static void test_by_row(void **state)
{
	struct jobs *jobs = make_jobs(TICK_BY_ID);

	(void)state;
	for (int i = 0; i < N_JOBS; i++)
		assert_ptr_equal(owner_of(jobs, "whatever", jobs->items[i].id), &jobs->items[i]);
	assert_null(owner_of(jobs, "job1", 1));
	assert_null(owner_of(jobs, "job1", 2 * N_JOBS + 2));
	assert_null(owner_of(jobs, NULL, jobs->items[1].id)); /* nobody's */
	assert_int_equal(jobs->owners.n, N_JOBS);
	for (size_t i = 1; i < N_JOBS; i++)
		assert_true(jobs->owners.by_id[i].id > jobs->owners.by_id[i - 1].id);
	free_jobs(jobs);
}

static void test_by_address(void **state)
{
	struct jobs *jobs = make_jobs(TICK_BY_ADDRESS);

	(void)state;
	for (int i = 0; i < N_JOBS; i++)
		assert_ptr_equal(owner_of(jobs, jobs->names[i], 0), &jobs->items[i]);
	assert_null(owner_of(jobs, "job1", 0)); /* of the same name, and not the same */
	free_jobs(jobs);
}

static void test_by_name(void **state)
{
	struct jobs *jobs = make_jobs(TICK_BY_NAME);
	char name[16];

	(void)state;
	for (int i = 0; i < N_JOBS; i++) {
		snprintf(name, sizeof(name), "job%d", i);
		if (i != TWIN)
			assert_ptr_equal(owner_of(jobs, name, 0), &jobs->items[i]);
		assert_ptr_equal(owner_of(jobs, jobs->names[i], 0), &jobs->items[i]);
	}
	assert_null(owner_of(jobs, "job", 0));
	assert_null(owner_of(jobs, NULL, 0));
	free_jobs(jobs);
}

/* What a run hears of is its own, whatever it is called. */
static void test_events(void **state)
{
	struct jobs *jobs = make_jobs(TICK_BY_ADDRESS);
	struct proc_event ev = { .job_id = jobs->names[7] };

	(void)state;
	assert_ptr_equal(tick_owner_of_event(&jobs->owners, &jobs->record, &ev), &jobs->items[7]);
	ev.job_id = "another";
	assert_null(tick_owner_of_event(&jobs->owners, &jobs->record, &ev));
	jobs->record.n_attempts = 1;
	assert_int_equal(tick_owners_fill(&jobs->owners, &jobs->record), 0);
	assert_ptr_equal(tick_owner_of_event(&jobs->owners, &jobs->record, &ev), &jobs->items[0]);
	free_jobs(jobs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_row),
		cmocka_unit_test(test_by_address),
		cmocka_unit_test(test_by_name),
		cmocka_unit_test(test_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
