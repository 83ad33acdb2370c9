#include "model/estimate.h"

#include "base/unknown.h"

void estimate_init(struct estimate *e)
{
	*e = (struct estimate){
		.peak_rss_mb = F64_UNKNOWN,
		.peak_coverage = F64_UNKNOWN,
		.cpu_seconds = F64_UNKNOWN,
		.cpu_high_seconds = F64_UNKNOWN,
		.cpu_coverage = F64_UNKNOWN,
		.wall_seconds = F64_UNKNOWN,
	};
}
