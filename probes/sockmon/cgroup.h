/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SOCKMON_CGROUP_H
#define SOCKMON_CGROUP_H

#include <stdint.h>

/* Returns the kernel's number of a cgroup, from 1; ends the program where the folder is not one of cgroup v2. */
uint64_t cgroup_id(const char *folder);

#endif
