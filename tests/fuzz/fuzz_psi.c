#include "fuzz_text.h"

#include "base/unknown.h"
#include "sources/proc_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size);
	struct psi psi;

	psi_parse(text, &psi);
	if (u64_known(psi.some.total_us) && !f64_known(psi.some.avg10))
		abort();
	free(text);
	return 0;
}
