/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATUS_H
#define STATUS_H

/* Exit statuses */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1, /* something failed; the stream has what was recorded before */
	STATUS_USAGE = 2,  /* wrong options: nothing was recorded */
};

#endif
