/*
 * gpu_words - what is said of an attempt's GPU figures, among its rungs and its notes.
 */
#ifndef PROCTOR_MODEL_GPU_WORDS_H
#define PROCTOR_MODEL_GPU_WORDS_H

/* A measurement whose rung is how far apart drivers were asked: "1.00 s to 5.02 s apart". */
#define RUNG_GPU_READINGS "GPU readings"

/* A note that its GPU time was not always told. Where the time is known, it is at least that. */
#define NOTE_GPU_TIME "gpu_seconds"

/* The same of the time in which memory was held in vain. */
#define NOTE_GPU_IDLE_TIME "gpu_idle_seconds"

#endif
