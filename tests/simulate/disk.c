#include "disk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTOR 512
#define FILES_MAX 4096
#define HANDLES_MAX 256

struct pending_write {
	size_t at, n;
	uint8_t *bytes;
};

struct bytes {
	uint8_t *data;
	size_t n, cap;
};

struct file {
	struct bytes seen, disk;
	size_t reserved;
	struct pending_write *writes; /* since the last sync */
	size_t n_writes, cap_writes;
	const struct actor *lock;
	char name[64];
	bool is_named, is_named_on_disk;
};

struct disk {
	struct dice *dice;
	struct file *files[FILES_MAX];
	size_t n_files;
	struct {
		struct file *file;
		const struct actor *actor;
	} handles[HANDLES_MAX];
	size_t room;
	unsigned sync_fails_one_in;
};

/* splitmix64 */
uint64_t dice_roll(struct dice *dice)
{
	uint64_t z = dice->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

bool dice_chance(struct dice *dice, unsigned one_in)
{
	return one_in > 0 && dice_roll(dice) % one_in == 0;
}

size_t dice_below(struct dice *dice, size_t n)
{
	return n ? (size_t)(dice_roll(dice) % n) : 0;
}

struct disk *disk_new(struct dice *dice)
{
	struct disk *disk = calloc(1, sizeof(*disk));

	assert(disk);
	disk->dice = dice;
	disk->room = SIZE_MAX;
	return disk;
}

static void forget_writes(struct file *f)
{
	for (size_t i = 0; i < f->n_writes; i++)
		free(f->writes[i].bytes);
	f->n_writes = 0;
}

void disk_free(struct disk *disk)
{
	for (size_t i = 0; i < disk->n_files; i++) {
		forget_writes(disk->files[i]);
		free(disk->files[i]->writes);
		free(disk->files[i]->seen.data);
		free(disk->files[i]->disk.data);
		free(disk->files[i]);
	}
	free(disk);
}

static void put(struct bytes *b, size_t at, const uint8_t *bytes, size_t n)
{
	if (at + n > b->cap) {
		b->cap = 2 * (at + n);
		b->data = realloc(b->data, b->cap);
		assert(b->data);
	}
	if (at > b->n)
		memset(b->data + b->n, 0, at - b->n);
	if (n > 0)
		memcpy(b->data + at, bytes, n);
	if (at + n > b->n)
		b->n = at + n;
}

static void copy(struct bytes *to, const struct bytes *from)
{
	to->n = 0;
	put(to, 0, from->data, from->n);
}

/* ---- what a process may do ---- */

/* Each call is a moment at which it may be killed, and others may run. */
static bool enter(struct actor *actor)
{
	if (actor->is_dead)
		return false;
	if (actor->between)
		actor->between(actor->ctx);
	if (!actor->is_dead && dice_chance(actor->disk->dice, actor->kill_one_in)) {
		actor->is_dead = true;
		disk_end(actor->disk, actor);
	}
	return !actor->is_dead;
}

static struct file *find(struct disk *disk, const char *name)
{
	for (size_t i = 0; i < disk->n_files; i++)
		if (disk->files[i]->is_named && strcmp(disk->files[i]->name, name) == 0)
			return disk->files[i];
	return NULL;
}

static int add_handle(struct actor *actor, struct file *file)
{
	for (int i = 0; i < HANDLES_MAX; i++)
		if (!actor->disk->handles[i].file) {
			actor->disk->handles[i].file = file;
			actor->disk->handles[i].actor = actor;
			return i;
		}
	assert(!"a process leaks files");
	return -EMFILE;
}

static size_t used(const struct disk *disk)
{
	size_t n = 0;

	for (size_t i = 0; i < disk->n_files; i++) {
		const struct file *f = disk->files[i];

		if (f->is_named)
			n += f->seen.n > f->reserved ? f->seen.n : f->reserved;
	}
	return n;
}

static int sim_create(void *ctx, const char *name)
{
	struct actor *actor = ctx;
	struct disk *disk = actor->disk;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	if (find(disk, name))
		return -EEXIST;
	if (used(disk) >= disk->room)
		return -ENOSPC;
	assert(disk->n_files < FILES_MAX);
	f = calloc(1, sizeof(*f));
	assert(f && strlen(name) < sizeof(f->name));
	snprintf(f->name, sizeof(f->name), "%s", name);
	f->is_named = true;
	disk->files[disk->n_files++] = f;
	return add_handle(actor, f);
}

static int sim_open(void *ctx, const char *name)
{
	struct actor *actor = ctx;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = find(actor->disk, name);
	return f ? add_handle(actor, f) : -ENOENT;
}

static void sim_close(void *ctx, int file)
{
	struct actor *actor = ctx;
	struct file *f = actor->disk->handles[file].file;

	if (actor->is_dead)
		return; /* disk_end() has closed it */
	assert(f && actor->disk->handles[file].actor == actor);
	if (f->lock == actor)
		f->lock = NULL;
	actor->disk->handles[file].file = NULL;
}

static ssize_t sim_pread(void *ctx, int file, void *ret, size_t n, uint64_t at)
{
	struct actor *actor = ctx;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = actor->disk->handles[file].file;
	if (at >= f->seen.n)
		return 0;
	if (n > f->seen.n - at)
		n = f->seen.n - at;
	if (n > 1 && dice_chance(actor->disk->dice, 4))
		n = 1 + dice_below(actor->disk->dice, n);
	memcpy(ret, f->seen.data + at, n);
	return (ssize_t)n;
}

static ssize_t sim_pwrite(void *ctx, int file, const void *bytes, size_t n, uint64_t at)
{
	struct actor *actor = ctx;
	struct disk *disk = actor->disk;
	struct pending_write *w;
	struct file *f;
	size_t end, have;

	if (!enter(actor))
		return -EIO;
	f = disk->handles[file].file;
	end = (size_t)at + n;
	have = f->seen.n > f->reserved ? f->seen.n : f->reserved;
	if (end > have && used(disk) + (end - have) > disk->room) {
		size_t room = disk->room > used(disk) ? disk->room - used(disk) : 0;

		if (have + room <= at)
			return -ENOSPC;
		n = have + room - (size_t)at;
	} else if (n > 1 && dice_chance(disk->dice, 8)) {
		n = 1 + dice_below(disk->dice, n);
	}
	put(&f->seen, (size_t)at, bytes, n);
	if (f->n_writes == f->cap_writes) {
		f->cap_writes = f->cap_writes ? 2 * f->cap_writes : 8;
		f->writes = realloc(f->writes, f->cap_writes * sizeof(*f->writes));
		assert(f->writes);
	}
	w = &f->writes[f->n_writes++];
	*w = (struct pending_write){ (size_t)at, n, malloc(n) };
	assert(w->bytes);
	memcpy(w->bytes, bytes, n);
	return (ssize_t)n;
}

static int sim_reserve(void *ctx, int file, size_t n)
{
	struct actor *actor = ctx;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = actor->disk->handles[file].file;
	if (used(actor->disk) + n > actor->disk->room)
		return -ENOSPC;
	f->reserved = n;
	put(&f->seen, n, NULL, 0);
	return 0;
}

/* A write reaches the disk by sectors, each of which is whole. */
static void land(struct disk *disk, struct file *f, const struct pending_write *w, bool is_torn)
{
	for (size_t at = w->at; at < w->at + w->n;) {
		size_t end = (at / SECTOR + 1) * SECTOR;

		if (end > w->at + w->n)
			end = w->at + w->n;
		if (!is_torn || dice_chance(disk->dice, 2))
			put(&f->disk, at, w->bytes + (at - w->at), end - at);
		at = end;
	}
}

/* Any of them, in any order. */
static void land_some(struct disk *disk, struct file *f)
{
	for (size_t i = f->n_writes; i > 1; i--) {
		size_t j = dice_below(disk->dice, i);
		struct pending_write w = f->writes[i - 1];

		f->writes[i - 1] = f->writes[j];
		f->writes[j] = w;
	}
	for (size_t i = 0; i < f->n_writes; i++)
		if (dice_chance(disk->dice, 2))
			land(disk, f, &f->writes[i], dice_chance(disk->dice, 2));
}

static int sim_sync(void *ctx, int file)
{
	struct actor *actor = ctx;
	struct disk *disk = actor->disk;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = disk->handles[file].file;
	if (dice_chance(disk->dice, disk->sync_fails_one_in)) {
		land_some(disk, f);
		forget_writes(f);
		return -EIO;
	}
	for (size_t i = 0; i < f->n_writes; i++)
		land(disk, f, &f->writes[i], false);
	forget_writes(f);
	return 0;
}

static int sim_sync_folder(void *ctx)
{
	struct actor *actor = ctx;
	struct disk *disk = actor->disk;

	if (!enter(actor))
		return -EIO;
	if (dice_chance(disk->dice, disk->sync_fails_one_in))
		return -EIO;
	for (size_t i = 0; i < disk->n_files; i++)
		disk->files[i]->is_named_on_disk = disk->files[i]->is_named;
	return 0;
}

static int sim_remove(void *ctx, const char *name)
{
	struct actor *actor = ctx;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = find(actor->disk, name);
	if (!f)
		return -ENOENT;
	f->is_named = false;
	return 0;
}

static int sim_list(void *ctx, log_name_fn *fn, void *fn_ctx)
{
	struct actor *actor = ctx;
	int r = 0;

	if (!enter(actor))
		return -EIO;
	for (size_t i = 0; i < actor->disk->n_files && r == 0; i++) {
		const struct file *f = actor->disk->files[i];

		if (f->is_named)
			r = fn(fn_ctx, f->name);
	}
	return r;
}

static int sim_lock(void *ctx, int file)
{
	struct actor *actor = ctx;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = actor->disk->handles[file].file;
	if (f->lock && f->lock != actor)
		return -EWOULDBLOCK;
	f->lock = actor;
	return f->is_named ? 0 : -ENOENT;
}

static int sim_is_locked(void *ctx, int file)
{
	struct actor *actor = ctx;
	struct file *f;

	if (!enter(actor))
		return -EIO;
	f = actor->disk->handles[file].file;
	return f->lock && f->lock != actor;
}

/* The clock may have jumped. */
static double sim_age(void *ctx, int file)
{
	struct actor *actor = ctx;

	(void)file;
	return dice_chance(actor->disk->dice, 2) ? 1e9 : -1e9;
}

struct log_fs disk_fs(struct actor *actor)
{
	return (struct log_fs){
		.ctx = actor,
		.create = sim_create,
		.open = sim_open,
		.close = sim_close,
		.pread = sim_pread,
		.pwrite = sim_pwrite,
		.reserve = sim_reserve,
		.sync = sim_sync,
		.sync_folder = sim_sync_folder,
		.remove = sim_remove,
		.list = sim_list,
		.lock = sim_lock,
		.is_locked = sim_is_locked,
		.age_seconds = sim_age,
	};
}

/* ---- what happens to it ---- */

void disk_end(struct disk *disk, struct actor *actor)
{
	for (size_t i = 0; i < HANDLES_MAX; i++)
		if (disk->handles[i].file && disk->handles[i].actor == actor) {
			if (disk->handles[i].file->lock == actor)
				disk->handles[i].file->lock = NULL;
			disk->handles[i].file = NULL;
		}
}

void disk_cut_power(struct disk *disk)
{
	for (size_t i = 0; i < disk->n_files; i++) {
		struct file *f = disk->files[i];

		land_some(disk, f);
		forget_writes(f);
		copy(&f->seen, &f->disk);
		f->lock = NULL;
		if (f->is_named != f->is_named_on_disk && dice_chance(disk->dice, 2))
			f->is_named_on_disk = f->is_named;
		f->is_named = f->is_named_on_disk;
	}
	memset(disk->handles, 0, sizeof(disk->handles));
}

void disk_set_room(struct disk *disk, size_t bytes)
{
	disk->room = bytes == SIZE_MAX ? bytes : used(disk) + bytes;
}

void disk_set_sync_failures(struct disk *disk, unsigned one_in)
{
	disk->sync_fails_one_in = one_in;
}

bool disk_holds_lock(struct disk *disk, const struct actor *actor)
{
	for (size_t i = 0; i < disk->n_files; i++)
		if (disk->files[i]->lock == actor)
			return true;
	return false;
}

size_t disk_count_files(struct disk *disk)
{
	size_t n = 0;

	for (size_t i = 0; i < disk->n_files; i++)
		n += disk->files[i]->is_named;
	return n;
}
