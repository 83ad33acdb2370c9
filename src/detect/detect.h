/*
 * detect - from what is measured to what is out of the ordinary.
 *
 * compat.h has the checks of the reference implementation, for comparison.
 */
#ifndef PROCTOR_DETECT_DETECT_H
#define PROCTOR_DETECT_DETECT_H

#include "detect/compat.h"

#endif
