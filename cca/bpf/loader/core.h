/* SPDX-License-Identifier: Apache-2.0 */
/* The types of the core, and of what the BPF programs share with this program. */
#ifndef CORE_H
#define CORE_H

#define BBR_RING_FIRST 256	/* as the programs have it */
#include "../../core/bbr.h"
#include "../programs/shared.h"

#endif
