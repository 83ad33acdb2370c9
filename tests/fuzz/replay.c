/*
 * replay - feeds every file of a folder to a fuzz target, without a fuzzer.
 *
 * One TAP case per file. A target that finds something crashes or aborts, so
 * the case being fed is named before it: the last "# feeding" is the culprit.
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int main(int argc, char **argv)
{
	struct dirent **entries;
	int n;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	n = scandir(argv[1], &entries, is_visible, alphasort);
	if (n <= 0) {
		printf("Bail out! %s: %s\n", argv[1], n < 0 ? strerror(errno) : "no files");
		return 1;
	}
	for (int i = 0; i < n; i++) {
		feed_file(argv[1], entries[i]->d_name, i + 1);
		free(entries[i]);
	}
	free(entries);
	printf("1..%d\n", n);
	return 0;
}
