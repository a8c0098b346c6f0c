/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATUS_H
#define STATUS_H

/* Exit statuses */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1, /* the kernel refused something, or the CCA is not in the state that the command needs */
	STATUS_USAGE = 2,  /* wrong command, name or value: nothing was changed */
};

#endif
