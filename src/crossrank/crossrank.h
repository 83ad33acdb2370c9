/*
 * crossrank - the door: telemetry of the ranks of one job, and which of them was first.
 *
 *	struct telemetry *t = telemetry_new();
 *	struct intake in;
 *
 *	intake_init(&in, t, on_fault, ctx);	files, or telemetry_add() for rows of a store
 *	intake_read(&in, "ranks/", &err);
 *	intake_release(&in);
 *	rank_analysis_init(&a, t);
 *	rank_analysis_run(&a, &options);
 *	summary_write_all(&json, &a);
 *
 * Functions from data to data: nothing here asks a store or a clock.
 */
#ifndef PROCTOR_CROSSRANK_CROSSRANK_H
#define PROCTOR_CROSSRANK_CROSSRANK_H

#include "crossrank/analysis.h"
#include "crossrank/event.h"
#include "crossrank/facts.h"
#include "crossrank/finding.h"
#include "crossrank/intake.h"
#include "crossrank/record.h"
#include "crossrank/summary.h"

#endif
