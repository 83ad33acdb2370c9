/*
 * replay - feeds every file of a folder to a fuzz target, without a fuzzer, and then, for some
 * seconds, what chance makes of them.
 *
 * One TAP case per file, and one for the rest. A target that finds something crashes, aborts or
 * hangs. The file being fed is named before it: the last "# feeding" is the culprit. What chance
 * has made is kept in the folder, as found-SEED, and fed with the others from then on.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_BYTES 65536
#define HANG_SECONDS 20

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The whole file in memory of exactly its size, so that ASan sees one byte too many. */
static uint8_t *read_file(const char *path, size_t *ret_size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = NULL;
	long size = -1;

	if (!f)
		return NULL;
	if (fseek(f, 0, SEEK_END) == 0)
		size = ftell(f);
	if (size >= 0 && fseek(f, 0, SEEK_SET) == 0)
		data = malloc(size > 0 ? (size_t)size : 1);
	if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
		free(data);
		data = NULL;
	}
	fclose(f);
	*ret_size = (size_t)size;
	return data;
}

static void feed_file(const char *folder, const char *name, int num)
{
	char path[4096];
	size_t size = 0;
	uint8_t *data;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	printf("# feeding %s\n", path);
	fflush(stdout);
	data = read_file(path, &size);
	if (!data) {
		printf("not ok %d - %s: %s\n", num, name, strerror(errno));
		return;
	}
	LLVMFuzzerTestOneInput(data, size);
	free(data);
	printf("ok %d - %s\n", num, name);
}

static int is_visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* ---- what chance makes of them ---- */

struct input {
	uint8_t *data;
	size_t size;
};

/* Shared with the process that feeds it: it is still there when that has crashed. */
struct fed {
	size_t size;
	uint8_t data[MAX_BYTES];
};

static uint64_t random_state;

/* xorshift */
static size_t random_below(size_t n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return n ? (size_t)(random_state % n) : 0;
}

/* Puts n bytes in at a place, as far as there is room. */
static void insert(struct fed *f, size_t at, const uint8_t *bytes, size_t n)
{
	if (n > MAX_BYTES - f->size)
		n = MAX_BYTES - f->size;
	memmove(f->data + at + n, f->data + at, f->size - at);
	memmove(f->data + at, bytes, n);
	f->size += n;
}

static void mutate(struct fed *f, const struct input *inputs, size_t n_inputs)
{
	static const uint8_t odd[] = { 0,    1,	  0x7f, 0x80, 0xff, '\n', ' ', '"',
				       '\\', '{', '}',	':',  ',',  '-',  '0', '9' };
	size_t at = random_below(f->size + 1), n = 1 + random_below(16);
	const struct input *other = &inputs[random_below(n_inputs)];
	uint8_t piece[64];

	switch (random_below(7)) {
	case 0: /* a bit */
		if (at < f->size)
			f->data[at] ^= (uint8_t)(1u << random_below(8));
		break;
	case 1:
		if (at < f->size)
			f->data[at] = odd[random_below(sizeof(odd))];
		break;
	case 2:
		insert(f, at, &odd[random_below(sizeof(odd))], 1);
		break;
	case 3: /* less of it */
		n = random_below(f->size - at + 1);
		memmove(f->data + at, f->data + at + n, f->size - at - n);
		f->size -= n;
		break;
	case 4: /* some of it twice */
		n = n < f->size - at ? n : f->size - at;
		memcpy(piece, f->data + at, n);
		insert(f, random_below(f->size + 1), piece, n);
		break;
	case 5: /* some of another */
		if (other->size > 0) {
			size_t from = random_below(other->size);

			insert(f, at, other->data + from, 1 + random_below(other->size - from));
		}
		break;
	default:
		f->size = at;
	}
}

static void feed_for(unsigned seconds, struct fed *f, const struct input *inputs, size_t n_inputs)
{
	time_t end = time(NULL) + (time_t)seconds;

	while (time(NULL) < end) {
		for (int i = 0; i < 64; i++) {
			const struct input *from = &inputs[random_below(n_inputs)];
			uint8_t *exact; /* so that ASan sees one byte too many */

			f->size = from->size;
			memcpy(f->data, from->data, from->size);
			for (size_t left = 1 + random_below(6); left > 0; left--)
				mutate(f, inputs, n_inputs);
			exact = malloc(f->size ? f->size : 1);
			if (!exact)
				exit(1);
			memcpy(exact, f->data, f->size);
			alarm(HANG_SECONDS);
			LLVMFuzzerTestOneInput(exact, f->size);
			free(exact);
		}
	}
	alarm(0);
	exit(0);
}

/* Returns whether all went well; else the input is in the folder. */
static int feed_chance(unsigned seconds, const char *folder, const struct input *inputs,
		       size_t n_inputs)
{
	struct fed *f =
		mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	/* The same inputs each time: chance is for "make fuzz-all", and FUZZ_SEED for more here. */
	const char *wanted = getenv("FUZZ_SEED");
	uint64_t seed = wanted ? strtoull(wanted, NULL, 10) : 1;
	char path[4096];
	int status = 0;
	pid_t pid;
	FILE *out;

	if (f == MAP_FAILED)
		return 0;
	printf("# by chance: seed %llu, %u s\n", (unsigned long long)seed, seconds);
	fflush(stdout);
	random_state = seed | 1;
	pid = fork();
	if (pid == 0)
		feed_for(seconds, f, inputs, n_inputs);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 0;
	if (status == 0)
		return 1;
	snprintf(path, sizeof(path), "%s/found-%llu", folder, (unsigned long long)seed);
	out = fopen(path, "wb");
	if (out) {
		fwrite(f->data, 1, f->size, out);
		fclose(out);
	}
	printf("# %s: it ended with status %#x\n", path, (unsigned)status);
	return 0;
}

int main(int argc, char **argv)
{
	struct dirent **entries;
	struct input *inputs;
	unsigned seconds = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	size_t n_inputs = 0;
	int n;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: %s FOLDER [SECONDS]\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &entries, is_visible, alphasort);
	if (n <= 0) {
		printf("Bail out! %s: %s\n", argv[1], n < 0 ? strerror(errno) : "no files");
		return 1;
	}
	inputs = calloc((size_t)n, sizeof(*inputs));
	for (int i = 0; i < n; i++) {
		char path[4096];

		feed_file(argv[1], entries[i]->d_name, i + 1);
		snprintf(path, sizeof(path), "%s/%s", argv[1], entries[i]->d_name);
		if (inputs && seconds > 0)
			inputs[n_inputs].data = read_file(path, &inputs[n_inputs].size);
		if (inputs && inputs[n_inputs].data && inputs[n_inputs].size <= MAX_BYTES)
			n_inputs++;
		free(entries[i]);
	}
	free(entries);
	if (n_inputs > 0) {
		int is_well = feed_chance(seconds, argv[1], inputs, n_inputs);

		printf("%s %d - what chance makes of them\n", is_well ? "ok" : "not ok", ++n);
	}
	while (n_inputs > 0)
		free(inputs[--n_inputs].data);
	free(inputs);
	printf("1..%d\n", n);
	return 0;
}
