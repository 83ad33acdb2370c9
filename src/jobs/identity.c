#include "jobs/identity.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/unknown.h"
#include "base/utf8.h"

#define MAX_WORDS 4096

/* Only a command that is too long to be shown whole is told apart by its raw bytes. */
static uint64_t hash_command(uint64_t h, const struct sheet_spec *sheet, const struct mask *mask)
{
	CLEANUP(buf_release) struct buf text = BUF_INIT;
	bool is_cut;
	size_t n = 0;

	mask_argv(mask, sheet->argv, &text);
	h = hash_bytes(h, text.data, text.len + 1);
	is_cut = text.len > COMMAND_MAX_BYTES - UTF8_MAX_BYTES;
	for (; sheet->argv[n]; n++)
		if (is_cut)
			h = hash_bytes(h, sheet->argv[n], strlen(sheet->argv[n]) + 1);
	h = hash_bytes(h, &n, sizeof(n)); /* "a b" is not "a" "b" */
	return hash_bytes(h, &sheet->ranks, sizeof(sheet->ranks));
}

uint64_t job_spec_hash(const struct job_spec *spec, const struct mask *mask)
{
	uint64_t h = HASH_INIT;

	for (size_t i = 0; i < spec->n_sheets; i++)
		h = hash_command(h, &spec->sheets[i], mask);
	return h;
}

/* ---- input ---- */

static const char *file_in(const char *word)
{
	const char *equals = strchr(word, '=');

	return word[0] == '-' && equals ? equals + 1 : word;
}

static void add_file(struct job_input *input, int folder_fd, const char *word)
{
	const char *path = file_in(word);
	struct stat st;

	if (!path[0] || fstatat(folder_fd, path, &st, 0) < 0 || !S_ISREG(st.st_mode))
		return;
	if (!u64_known(input->bytes))
		*input = (struct job_input){ 0, HASH_INIT };
	input->bytes = u64_add(input->bytes, (uint64_t)st.st_size);
	input->hash = hash_bytes(input->hash, path, strlen(path) + 1);
	input->hash = hash_bytes(input->hash, &st.st_size, sizeof(st.st_size));
	input->hash = hash_bytes(input->hash, &st.st_mtim.tv_sec, sizeof(st.st_mtim.tv_sec));
	input->hash = hash_bytes(input->hash, &st.st_mtim.tv_nsec, sizeof(st.st_mtim.tv_nsec));
}

static void add_sheet(struct job_input *input, const struct sheet_spec *sheet)
{
	CLEANUP(close_fd) int folder_fd = -1;

	if (sheet->workdir) {
		folder_fd = open(sheet->workdir, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (folder_fd < 0)
			return;
	}
	for (size_t i = 1; sheet->argv[0] && sheet->argv[i] && i < MAX_WORDS; i++)
		add_file(input, folder_fd < 0 ? AT_FDCWD : folder_fd, sheet->argv[i]);
}

struct job_input job_spec_measure_input(const struct job_spec *spec)
{
	struct job_input input = { U64_UNKNOWN, 0 };

	for (size_t i = 0; i < spec->n_sheets; i++)
		add_sheet(&input, &spec->sheets[i]);
	return input;
}
