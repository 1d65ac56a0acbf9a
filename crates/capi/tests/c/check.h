// SPDX-License-Identifier: Apache-2.0 OR MIT
/* What the test programs share: a failed check ends the program with its place. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crosslane.h"

#define CHECK(condition)                                                                      \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			fprintf(stderr, "%s:%d: not so: %s\n  last error: %s\n  %s\n", __FILE__, \
				__LINE__, #condition, crosslane_last_error()->sentence,       \
				crosslane_last_error()->detail);                              \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

/* The call succeeds. */
#define OK(call) CHECK((call) == 0)

/* The call fails with this error number, and its sentence contains some words. */
#define FAILS(call, number, words)                                                            \
	do {                                                                                  \
		CHECK((call) == -(number));                                                   \
		CHECK(crosslane_last_error()->code == -(number));                             \
		CHECK(strstr(crosslane_last_error()->sentence, words) != NULL);               \
	} while (0)

#endif
