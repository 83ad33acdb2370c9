#include <stdint.h>
#include <stdio.h>

#include "base/yaml.h"

/* A bare number would be read as minutes. */
static void write_duration(struct json *j, double seconds)
{
	char text[32];

	snprintf(text, sizeof(text), "%.0fs", seconds);
	json_str(j, text);
}

static void write_strings(struct json *j, const struct yaml_strings *list)
{
	json_begin_array(j);
	for (size_t i = 0; i < list->n; i++)
		json_str(j, list->items[i]);
	json_end_array(j);
}

static void write_pairs(struct json *j, const struct yaml_pairs *pairs)
{
	json_begin_object(j);
	for (size_t i = 0; i < pairs->n; i++)
		json_key_string(j, pairs->items[i].name, pairs->items[i].value);
	json_end_object(j);
}

void yaml_write_value(struct json *j, const struct yaml_field *f, const void *at)
{
	switch (f->kind) {
	case YAML_STRING:
	case YAML_STRING_OR_NONE:
		json_str(j, *(const char *const *)at);
		break;
	case YAML_INT:
		json_i64(j, *(const int *)at);
		break;
	case YAML_U64:
		json_u64(j, *(const uint64_t *)at);
		break;
	case YAML_NUMBER:
		json_f64(j, *(const double *)at);
		break;
	case YAML_DURATION:
		write_duration(j, *(const double *)at);
		break;
	case YAML_BOOL:
		json_bool(j, *(const bool *)at);
		break;
	case YAML_CHOICE:
		json_str(j, f->choices[*(const int *)at]);
		break;
	case YAML_STRINGS:
	case YAML_STRING_OR_STRINGS:
		write_strings(j, at);
		break;
	case YAML_STRING_MAP:
		write_pairs(j, at);
		break;
	case YAML_MAPPING:
	case YAML_MAPPINGS:
		json_none(j);
		break;
	}
}
