/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATUS_H
#define STATUS_H

/* Exit statuses */
enum {
	STATUS_GOOD = 0,
	STATUS_CUT = 1,    /* the capture ends in an error; the results are those of the packets before it */
	STATUS_USAGE = 2,  /* wrong options, or no capture: there are no results */
	STATUS_FAILED = 3, /* the results could not be written, or memory was too small */
};

#endif
