/*
 * summary - the few lines that "proctor run" ends with, on stderr; plain ASCII but for names.
 */
#ifndef PROCTOR_REPORT_SUMMARY_H
#define PROCTOR_REPORT_SUMMARY_H

#include "base/buf.h"
#include "report/facts.h"

/* Three to six lines, each beginning with "proctor:". -ENOMEM. */
int summary_write(struct buf *out, const struct facts *f);

#endif
