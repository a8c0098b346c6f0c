/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATUS_H
#define STATUS_H

/* Exit statuses before the kernel starts; then they are the kernel's own. */
enum {
	STATUS_GOOD = 0,
	STATUS_FAILED = 1, /* the guest can't be started so: nothing was started */
	STATUS_USAGE = 2,  /* wrong options: nothing was started */
};

#endif
