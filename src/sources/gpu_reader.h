/*
 * gpu_reader - the two processes that ask the drivers: inside sources/.
 *
 * A keeper waits, and a reader asks. The keeper starts a reader again if it dies, as a library of
 * the driver's may make it, and kills it if it hangs, as a driver may make it. The reader says
 * whom it asks, so the keeper knows who was at fault, and the next reader, which has the keeper's
 * memory, begins with another driver. Nobody waits for readings that do not come.
 */
#ifndef PROCTOR_SOURCES_GPU_READER_H
#define PROCTOR_SOURCES_GPU_READER_H

#include <stdint.h>

#include "sources/gpu.h"

/* What the reader says to its keeper: whom it asks, who has answered, and that it asks nobody. */
struct gpu_message {
	uint8_t what; /* enum gpu_beat, or GPU_MESSAGE_END */
	uint8_t driver;
};

#define GPU_MESSAGE_END 100

/* A message that finds no room is not missed: a newer one follows. False: nobody listens. */
bool gpu_send_reading(int fd, const struct gpu_reading *r);

/* Until the next reading, of a reader that has read for so long: at first less than the interval.
 */
double gpu_pause_seconds(double interval_seconds, uint64_t age_ns);

/* In the reader: until nobody listens at fd any more. */
void gpu_read_until_end(const struct gpus_options *o, struct gpu_slots *slots, int fd, int beat_fd);

/* In the keeper (gpu_keeper.c): the same. */
void gpu_keep_reader(const struct gpus_options *options, int fd);

#endif
