#include <string.h>

#include "base/num.h"
#include "base/unknown.h"
#include "sources/gpu_drm.h"

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

bool drm_parse_slot(const char *text, char ret[DRM_SLOT_BYTES])
{
	for (const char *line = text; line; line = next_line(line)) {
		const char *value = value_of(line, "PCI_SLOT_NAME=");

		if (value)
			return copy_slot(value, ret);
	}
	return false;
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

/* What of it is really there; else all of it, which is what older kernels know. */
static bool is_vram(const char *line, const char *key)
{
	size_t n = strlen(key);

	return strncmp(line, key, n) == 0 && strncmp(line + n, "vram", 4) == 0;
}

static uint64_t memory_of_line(const char *line)
{
	const char *colon = strchr(line, ':');

	return colon ? parse_size(colon + 1 + strspn(colon + 1, " \t")) : U64_UNKNOWN;
}

/* "drm-engine-gfx:\t123 ns", but not "drm-engine-capacity-gfx: 2". */
static bool parse_engine(const char *line, uint64_t *ret)
{
	const char *colon;

	if (strncmp(line, "drm-engine-", 11) != 0 || strncmp(line + 11, "capacity-", 9) == 0)
		return false;
	colon = strchr(line, ':');
	if (!colon)
		return false;
	colon += 1 + strspn(colon + 1, " \t");
	return num_scan_u64(&colon, ret) == 0;
}

/* Added up over all regions of the device's own memory. */
static void add_memory(uint64_t *sum, uint64_t bytes)
{
	if (u64_known(bytes))
		*sum = u64_known(*sum) ? u64_add(*sum, bytes) : bytes;
}

bool drm_parse_client(const char *text, struct drm_client *ret)
{
	uint64_t resident = U64_UNKNOWN, total = U64_UNKNOWN, memory = U64_UNKNOWN;
	size_t n_engines = 0;
	bool has_slot = false, has_id = false;

	for (size_t i = 0; i < DRM_MAX_ENGINES; i++)
		ret->engine_ns[i] = U64_UNKNOWN;
	for (const char *line = text; line; line = next_line(line)) {
		const char *value;

		if ((value = value_of(line, "drm-pdev:")))
			has_slot = copy_slot(value, ret->slot);
		else if ((value = value_of(line, "drm-client-id:")))
			has_id = num_scan_u64(&value, &ret->id) == 0;
		else if (is_vram(line, "drm-resident-"))
			add_memory(&resident, memory_of_line(line));
		else if (is_vram(line, "drm-total-"))
			add_memory(&total, memory_of_line(line));
		else if (is_vram(line, "drm-memory-"))
			add_memory(&memory, memory_of_line(line));
		else if (n_engines < DRM_MAX_ENGINES &&
			 parse_engine(line, &ret->engine_ns[n_engines]))
			n_engines++;
	}
	ret->memory_bytes = u64_known(resident) ? resident : u64_known(memory) ? memory : total;
	return has_slot && has_id;
}
