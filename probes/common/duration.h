/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_DURATION_H
#define COMMON_DURATION_H

/* Seconds of a time such as 90s, 1.5m or 100ms (units ms, s, m, h, d); NaN where the text is none. */
double duration_s(const char *text);

#endif
