/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATUS_H
#define STATUS_H

/* Exit statuses */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1, /* the address can't be asked, or the output not be written */
	STATUS_USAGE = 2,  /* wrong options: nothing was sent */
};

#endif
