// SPDX-License-Identifier: BSD-3-Clause OR GPL-2.0-only
/* BBRv2 as a congestion control of Linux. */
#define BBR_VERSION 2
#define BBR_NAME "bbr2"
#define BBR_DEFAULT_SET BBR2_DEPLOYED
#include "tcp_bbr.h"
MODULE_DESCRIPTION("BBRv2 congestion control, written from draft-cardwell-iccrg-bbr-congestion-control-02");
