/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>

/* Shows each need of this program and whether the host meets it; returns whether it meets all. */
bool check_show(bool json);

/* Ends the program with one line on the first need that the host does not meet. */
void check_require(void);

#endif
