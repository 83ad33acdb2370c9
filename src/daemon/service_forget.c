#include "daemon/service_anomaly.h"
#include "daemon/service_follow.h"
#include "daemon/service_tell.h"

/*
 * What lasts is told to be over while whose it was is still known, and goes nowhere: the record of
 * it is where its beginning is. Who belonged to a job is forgotten before its end is told, as what
 * goes on living is no orphan.
 */
void service_forget_attempts(struct service *s)
{
	service_end_anomalies(s);
	s->adopt_until_ns = 0; /* in the next one others may last */
	service_forget_ooms(s);
	s->exits.n = 0;
	service_hang_up_guests(s);
	service_forget_calls(s);
	service_forget_marks(s);
	service_stop_closer(s);
	service_release_attached(s);
	service_forget_life(s);
	service_forget_anomalies(s);
	service_forget_signals(s);
	service_release_lost(s);
	orphans_forget_attempts(s->orphans);
	watch_forget(s->watch);
}
