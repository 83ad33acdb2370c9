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
 *	rank_analysis_run(&a, EVENT_UNKNOWN);
 *	summary_write_all(&json, &a);
 *
 * Parts: reading/ (files to samples in memory), merging/ (which samples count, on one time line),
 * reference/ (the summary of the reference), method/ (arrays to an answer), wording/ (the answer as
 * sentences and JSON). finding.c joins them.
 *
 * Functions from data to data: nothing here asks a store or a clock.
 */
#pragma once

#include "crossrank/finding.h"
#include "crossrank/merging/merging.h"
#include "crossrank/rank_facts.h"
#include "crossrank/reading/reading.h"
#include "crossrank/reference/reference.h"
#include "crossrank/wording/wording.h"
