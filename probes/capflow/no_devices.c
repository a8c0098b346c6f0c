// SPDX-License-Identifier: Apache-2.0
/*
 * Takes the places of libpcap's modules for D-Bus and RDMA, which the static libpcap would bring along: Debian has no
 * static libraries for them. capflow reads files, and never asks a module for a device.
 */
#include <pcap/pcap.h>

pcap_t *dbus_create(const char *device, char *problem, int *is_ours);
int dbus_findalldevs(pcap_if_t **devices, char *problem);
pcap_t *rdmasniff_create(const char *device, char *problem, int *is_ours);
int rdmasniff_findalldevs(pcap_if_t **devices, char *problem);

pcap_t *dbus_create(const char *device, char *problem, int *is_ours)
{
	(void)device, (void)problem;
	*is_ours = 0;
	return NULL;
}

int dbus_findalldevs(pcap_if_t **devices, char *problem)
{
	(void)devices, (void)problem;
	return 0;
}

pcap_t *rdmasniff_create(const char *device, char *problem, int *is_ours)
{
	return dbus_create(device, problem, is_ours);
}

int rdmasniff_findalldevs(pcap_if_t **devices, char *problem)
{
	return dbus_findalldevs(devices, problem);
}
