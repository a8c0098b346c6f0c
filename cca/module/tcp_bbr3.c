// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* BBRv3 as a congestion control of Linux. */
#define BBR_VERSION 3
#define BBR_NAME "bbr3"
#define BBR_DEFAULT_SET BBR3
#include "tcp_bbr.h"
MODULE_DESCRIPTION("BBRv3 congestion control, written from draft-ietf-ccwg-bbr-06");
