#include "model/peaks.h"

#include "base/unknown.h"

void peaks_init(struct peaks *p)
{
	*p = (struct peaks){ .bytes = U64_UNKNOWN, .limit_bytes = U64_UNKNOWN, .all_exact = true };
}

void peaks_add(struct peaks *p, uint64_t bytes, enum evidence evidence)
{
	if (evidence == EVIDENCE_UPPER_BOUND) {
		p->limit_bytes = u64_max_known(p->limit_bytes, bytes);
		return;
	}
	if (evidence != EVIDENCE_EXACT)
		p->all_exact = false;
	if (u64_known(bytes) && (!u64_known(p->bytes) || bytes > p->bytes)) {
		p->bytes = bytes;
		p->evidence = evidence;
	}
}

void peaks_settle(const struct peaks *p, uint64_t *ret_bytes, enum evidence *ret_evidence)
{
	bool limit_decides =
		u64_known(p->limit_bytes) && (!u64_known(p->bytes) || p->limit_bytes > p->bytes);

	*ret_bytes = p->bytes;
	*ret_evidence = p->evidence;
	if (limit_decides && p->all_exact) {
		*ret_bytes = p->limit_bytes;
		*ret_evidence = EVIDENCE_UPPER_BOUND;
	} else if (!u64_known(p->bytes)) {
		*ret_evidence = EVIDENCE_UNKNOWN;
	} else if (p->evidence == EVIDENCE_EXACT && (!p->all_exact || limit_decides)) {
		*ret_evidence = EVIDENCE_LOWER_BOUND;
	}
}
