#include <stddef.h>
#include <string.h>

#include "base/macros.h"
#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu/drm.h"

/* If the line begins with the key: what is behind it, without the blanks before it. */
static const char *value_of(const char *line, const char *key)
{
	size_t n = strlen(key);

	if (strncmp(line, key, n) != 0)
		return NULL;
	return line + n + strspn(line + n, " \t");
}

static bool copy_slot(const char *value, char ret[DRM_SLOT_BYTES])
{
	size_t n = strcspn(value, " \t\r\n");

	if (n == 0 || n >= DRM_SLOT_BYTES)
		return false;
	memcpy(ret, value, n);
	ret[n] = '\0';
	return true;
}

static const char *next_line(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : NULL;
}

static bool find_value(const char *text, const char *key, char ret[DRM_SLOT_BYTES])
{
	for (const char *line = text; line; line = next_line(line)) {
		const char *value = value_of(line, key);

		if (value)
			return copy_slot(value, ret);
	}
	return false;
}

bool drm_parse_slot(const char *text, char ret[DRM_SLOT_BYTES])
{
	return find_value(text, "PCI_SLOT_NAME=", ret);
}

bool drm_parse_driver(const char *text, char ret[DRM_SLOT_BYTES])
{
	return find_value(text, "DRIVER=", ret);
}

/* "12 KiB", "12 MiB", "12"; U64_UNKNOWN. */
static uint64_t parse_size(const char *value)
{
	static const struct {
		const char *unit;
		unsigned shift;
	} units[] = { { "KiB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
	uint64_t n;

	if (num_scan_u64(&value, &n) < 0)
		return U64_UNKNOWN;
	value += strspn(value, " \t");
	for (size_t i = 0; i < 3; i++)
		if (strncmp(value, units[i].unit, 3) == 0)
			return n <= (UINT64_MAX - 1) >> units[i].shift ? n << units[i].shift
								       : U64_UNKNOWN;
	return *value == '\n' || *value == '\0' ? n : U64_UNKNOWN;
}

static const char *const memory_keys[] = { "drm-resident-", "drm-memory-", "drm-total-" };

/* Regions of the device's own memory: AMD's and Intel's newer driver's, Intel's older one's. */
static bool is_vram(const char *region)
{
	return strncmp(region, "vram", 4) == 0 || strncmp(region, "local", 5) == 0;
}

static uint64_t memory_of_line(const char *line)
{
	const char *colon = strchr(line, ':');

	return colon ? parse_size(colon + 1 + strspn(colon + 1, " \t")) : U64_UNKNOWN;
}

/* ---- engines ---- */

/* Longer keys stand before those that they begin with. */
static const struct {
	const char *key;
	size_t offset;
} engine_keys[] = {
	{ "drm-engine-capacity-", offsetof(struct drm_engine, capacity) },
	{ "drm-engine-", offsetof(struct drm_engine, busy_ns) },
	{ "drm-cycles-", offsetof(struct drm_engine, cycles) },
	{ "drm-total-cycles-", offsetof(struct drm_engine, total_cycles) },
};

/* The one of that name, which may be new; NULL: there is no room. */
static struct drm_engine *find_engine(struct drm_client *c, const char *name, size_t n)
{
	if (n == 0 || n >= DRM_ENGINE_BYTES)
		return NULL;
	for (size_t i = 0; i < DRM_MAX_ENGINES; i++) {
		struct drm_engine *e = &c->engines[i];

		if (e->name[0] == '\0')
			memcpy(e->name, name, n);
		if (strncmp(e->name, name, n) == 0 && e->name[n] == '\0')
			return e;
	}
	return NULL;
}

/* "drm-engine-gfx:\t123 ns". False: the line is of something else. */
static bool parse_engine(const char *line, struct drm_client *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(engine_keys); i++) {
		const char *name = value_of(line, engine_keys[i].key), *value;
		struct drm_engine *engine;
		uint64_t number;

		if (!name)
			continue;
		value = name + strcspn(name, ":\n");
		engine = *value == ':' ? find_engine(ret, name, (size_t)(value - name)) : NULL;
		value += *value == ':';
		value += strspn(value, " \t");
		if (engine && num_scan_u64(&value, &number) == 0)
			memcpy((char *)engine + engine_keys[i].offset, &number, sizeof(number));
		return true;
	}
	return false;
}

/* In the time or in the clock of the engine, whichever its driver counts in. */
static double engine_percent(const struct drm_engine *now, const struct drm_engine *before,
			     double wall_ns)
{
	uint64_t ns = u64_delta(now->busy_ns, before->busy_ns);
	uint64_t cycles = u64_delta(now->cycles, before->cycles);
	uint64_t total = u64_delta(now->total_cycles, before->total_cycles);
	double n = u64_known(now->capacity) && now->capacity > 0 ? (double)now->capacity : 1;

	if (u64_known(ns))
		return (double)ns * 100 / wall_ns / n;
	if (u64_known(cycles) && u64_known(total) && total > 0)
		return (double)cycles * 100 / (double)total / n;
	return F64_UNKNOWN;
}

/* Of the same engine before; one that was not told then had done nothing. */
static struct drm_engine engine_before(const struct drm_client *before, const char *name)
{
	for (size_t i = 0; before && i < DRM_MAX_ENGINES; i++)
		if (strcmp(before->engines[i].name, name) == 0)
			return before->engines[i];
	/* But the engine's own clock began long before. */
	return (struct drm_engine){ .total_cycles = U64_UNKNOWN };
}

static void add_percent(struct drm_use *sum, const char *name, double percent)
{
	size_t i = 0;

	while (i < sum->n && strcmp(sum->engines[i].name, name) != 0)
		i++;
	if (!f64_known(percent) || i == DRM_MAX_ENGINES)
		return;
	if (i == sum->n) {
		memcpy(sum->engines[i].name, name, DRM_ENGINE_BYTES);
		sum->engines[sum->n++].percent = 0;
	}
	sum->engines[i].percent += percent;
}

/* The higher of two, as far as they are known; falls says whether it was the one before. */
static uint64_t highest(uint64_t now, uint64_t before, bool *falls)
{
	if (!u64_known(now) || !u64_known(before) || now >= before)
		return now;
	*falls = true;
	return before;
}

void drm_keep_highest(struct drm_client *now, const struct drm_client *before)
{
	for (size_t i = 0; i < DRM_MAX_ENGINES && now->engines[i].name[0]; i++) {
		struct drm_engine *e = &now->engines[i];
		struct drm_engine old = engine_before(before, e->name);

		e->busy_ns = highest(e->busy_ns, old.busy_ns, &e->has_fallen);
		e->cycles = highest(e->cycles, old.cycles, &e->has_fallen);
	}
}

void drm_add_use(struct drm_use *sum, const struct drm_client *now, const struct drm_client *before,
		 double wall_ns)
{
	for (size_t i = 0; i < DRM_MAX_ENGINES && now->engines[i].name[0]; i++) {
		struct drm_engine old = engine_before(before, now->engines[i].name);

		if (now->engines[i].has_fallen || old.has_fallen)
			sum->is_part = true;
		else
			add_percent(sum, now->engines[i].name,
				    engine_percent(&now->engines[i], &old, wall_ns));
	}
}

double drm_busiest_percent(const struct drm_use *use)
{
	double most = F64_UNKNOWN;

	for (size_t i = 0; i < use->n; i++)
		most = f64_max_known(most, use->engines[i].percent);
	return use->is_part ? F64_UNKNOWN : most;
}

/* ---- a client ---- */

/* Added up over all regions of the device's own memory. */
static void add_memory(uint64_t *sum, uint64_t bytes)
{
	if (u64_known(bytes))
		*sum = u64_known(*sum) ? u64_add(*sum, bytes) : bytes;
}

/* A client that lists regions, but none of the device's, has none of its memory. */
static void parse_memory(const char *line, uint64_t sums[ARRAY_SIZE(memory_keys)])
{
	for (size_t i = 0; i < ARRAY_SIZE(memory_keys); i++) {
		const char *region = value_of(line, memory_keys[i]);

		if (region)
			add_memory(&sums[i], is_vram(region) ? memory_of_line(line) : 0);
	}
}

/* What of it is really there; else all of it, which is what older kernels know. */
static uint64_t best_of(const uint64_t sums[ARRAY_SIZE(memory_keys)])
{
	for (size_t i = 0; i < ARRAY_SIZE(memory_keys); i++)
		if (u64_known(sums[i]))
			return sums[i];
	return U64_UNKNOWN;
}

bool drm_parse_client(const char *text, struct drm_client *ret)
{
	uint64_t sums[ARRAY_SIZE(memory_keys)] = { U64_UNKNOWN, U64_UNKNOWN, U64_UNKNOWN };
	bool has_slot = false, has_id = false;

	for (size_t i = 0; i < DRM_MAX_ENGINES; i++)
		ret->engines[i] = (struct drm_engine){ "",	    U64_UNKNOWN, U64_UNKNOWN,
						       U64_UNKNOWN, U64_UNKNOWN, false };
	for (const char *line = text; line; line = next_line(line)) {
		const char *value;

		if ((value = value_of(line, "drm-pdev:")))
			has_slot = copy_slot(value, ret->slot);
		else if ((value = value_of(line, "drm-client-id:")))
			has_id = num_scan_u64(&value, &ret->id) == 0;
		else if (!parse_engine(line, ret))
			parse_memory(line, sums);
	}
	ret->memory_bytes = best_of(sums);
	return has_slot && has_id;
}
