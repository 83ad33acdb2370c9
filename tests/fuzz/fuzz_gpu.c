#include "fuzz_text.h"

#include "sources/gpu/gpu.h"

/* Whatever is taken for a device or a process has a uuid, or words in its place. */
static void parse_line(const char *line)
{
	struct smi_device device;
	struct smi_process process;

	if (smi_parse_device(line, &device) && !device.uuid[0])
		abort();
	if (smi_parse_process(line, &process) && !process.uuid[0])
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	double values[SMI_FIELDS];
	struct drm_client client;
	char slot[DRM_SLOT_BYTES], *rest = NULL;

	(void)smi_parse_line(text, strlen(text), values);
	(void)drm_parse_client(text, &client);
	(void)drm_find_value(text, "PCI_SLOT_NAME=", slot);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		parse_line(line);
	free(text);
	return 0;
}
