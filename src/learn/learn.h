/*
 * learn - what is to be expected of jobs and of the host: pressure, by now.
 */
#ifndef PROCTOR_LEARN_LEARN_H
#define PROCTOR_LEARN_LEARN_H

#include "learn/pressure.h"

#endif
