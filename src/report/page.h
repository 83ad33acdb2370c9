/*
 * page - what the report says, in which order; a writer of doc.h says how it looks.
 *
 * A section that has nothing to say is left out.
 */
#ifndef PROCTOR_REPORT_PAGE_H
#define PROCTOR_REPORT_PAGE_H

#include "model/anomaly.h"
#include "report/doc.h"
#include "report/facts.h"

/* The whole page. -ENOMEM. */
int page_write(struct doc *d, const struct facts *f);

/* Sections in files of their own: page_anomalies.c, page_processes.c. */
void page_add_anomalies(struct doc *d, const struct facts *f);
void page_add_sheets(struct doc *d, const struct facts *f);
void page_add_phases(struct doc *d, const struct facts *f);
void page_add_processes(struct doc *d, const struct facts *f);
void page_add_exits(struct doc *d, const struct facts *f);

#endif
