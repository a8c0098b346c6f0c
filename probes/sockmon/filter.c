// SPDX-License-Identifier: Apache-2.0
#include "filter.h"

#include <linux/inet_diag.h>
#include <string.h>
#include <arpa/inet.h>

/*
 * The kernel's bytecode (net/ipv4/inet_diag.c: inet_diag_bc_run) is a list of conditions, each with
 * how far to go on if it holds (yes) and if not (no), in bytes. Going exactly to the end accepts;
 * going beyond it rejects. All of ours must hold, so "no" rejects, but for the alternatives in
 * any_port() and any_remote().
 */
struct code {
	uint8_t *bytes;
	size_t used;
	/* offsets of the conditions whose "no" rejects */
	size_t rejecting[16];
	int rejecting_count;
};

static struct inet_diag_bc_op *add(struct code *code, unsigned char operation, size_t bytes)
{
	struct inet_diag_bc_op *op = (void *)(code->bytes + code->used);

	memset(op, 0, bytes);
	op->code = operation;
	op->yes = (unsigned char)bytes;
	code->used += bytes;
	return op;
}

static void rejects(struct code *code, const struct inet_diag_bc_op *op)
{
	code->rejecting[code->rejecting_count++] = (size_t)((const uint8_t *)op - code->bytes);
}

/* A port's condition has the port in a second operation that follows. */
static struct inet_diag_bc_op *add_port(struct code *code, unsigned char operation, uint16_t port)
{
	struct inet_diag_bc_op *op = add(code, operation, 2 * sizeof(*op));

	op[1].no = port;
	return op;
}

static bool any(const struct ports *ports)
{
	return ports->low == 0 && ports->high == UINT16_MAX;
}

static void port_range(struct code *code, const struct ports *ports, unsigned char least,
		       unsigned char most)
{
	if (any(ports))
		return;
	rejects(code, add_port(code, least, ports->low));
	rejects(code, add_port(code, most, ports->high));
}

/*
 * The local port, or else the remote one. The kernel wants every "no" to lead to where the chain of
 * "yes" passes.
 */
static void any_port(struct code *code, const struct ports *ports)
{
	struct inet_diag_bc_op *least, *most, *jump;
	uint8_t *remote;

	if (any(ports))
		return;
	least = add_port(code, INET_DIAG_BC_S_GE, ports->low);
	most = add_port(code, INET_DIAG_BC_S_LE, ports->high);
	jump = add(code, INET_DIAG_BC_JMP, sizeof(*jump));
	remote = code->bytes + code->used;
	least->no = (unsigned short)(remote - (uint8_t *)least);
	most->no = (unsigned short)(remote - (uint8_t *)most);
	port_range(code, ports, INET_DIAG_BC_D_GE, INET_DIAG_BC_D_LE);
	jump->no = (unsigned short)(code->bytes + code->used - (uint8_t *)jump);
}

static struct inet_diag_bc_op *add_host(struct code *code, const struct host *host,
					unsigned char operation)
{
	size_t bytes = host->family == AF_INET ? 4 : 16;
	struct inet_diag_hostcond *condition;
	struct inet_diag_bc_op *op;

	op = add(code, operation, sizeof(*op) + sizeof(*condition) + bytes);
	condition = (void *)(op + 1);
	condition->family = (__u8)host->family;
	condition->prefix_len = (__u8)host->prefix;
	condition->port = -1;
	memcpy(condition->addr, host->address, bytes);
	return op;
}

/* The first one that holds leads behind the others. */
static void any_remote(struct code *code, const struct host *remotes, int count)
{
	struct inet_diag_bc_op *jumps[MAX_REMOTES];

	for (int i = 0; i < count; i++) {
		struct inet_diag_bc_op *op = add_host(code, &remotes[i], INET_DIAG_BC_D_COND);

		if (i == count - 1) {
			rejects(code, op);
			break;
		}
		jumps[i] = add(code, INET_DIAG_BC_JMP, sizeof(*jumps[i]));
		op->no = (unsigned short)(code->bytes + code->used - (uint8_t *)op);
	}
	for (int i = 0; i < count - 1; i++)
		jumps[i]->no = (unsigned short)(code->bytes + code->used - (uint8_t *)jumps[i]);
}

/* The cgroup in which the socket was made, not one above it. */
static void cgroup(struct code *code, uint64_t id)
{
	struct inet_diag_bc_op *op;

	if (!id)
		return;
	op = add(code, INET_DIAG_BC_CGROUP_COND, sizeof(*op) + sizeof(id));
	memcpy(op + 1, &id, sizeof(id));
	rejects(code, op);
}

size_t filter_bytecode(const struct filter *filter, uint8_t *bytes)
{
	struct code code = { .bytes = bytes };

	if (filter->local.family != AF_UNSPEC)
		rejects(&code, add_host(&code, &filter->local, INET_DIAG_BC_S_COND));
	any_remote(&code, filter->remotes, filter->remote_count);
	port_range(&code, &filter->local_ports, INET_DIAG_BC_S_GE, INET_DIAG_BC_S_LE);
	port_range(&code, &filter->remote_ports, INET_DIAG_BC_D_GE, INET_DIAG_BC_D_LE);
	any_port(&code, &filter->any_ports);
	cgroup(&code, filter->cgroup);
	for (int i = 0; i < code.rejecting_count; i++) {
		struct inet_diag_bc_op *op = (void *)(bytes + code.rejecting[i]);

		op->no = (unsigned short)(code.used - code.rejecting[i] + 4);
	}
	return code.used;
}

static bool prefix_matches(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;

	if (memcmp(a, b, whole))
		return false;
	return !rest || (a[whole] ^ b[whole]) >> (8 - rest) == 0;
}

static bool host_matches(const struct host *host, int family, const uint8_t *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (host->family == AF_UNSPEC)
		return true;
	if (host->family == family)
		return prefix_matches(address, host->address, host->prefix);
	return host->family == AF_INET && !memcmp(address, mapped, sizeof(mapped)) &&
	       prefix_matches(address + sizeof(mapped), host->address, host->prefix);
}

static bool remote_matches(const struct filter *filter, int family, const uint8_t *address)
{
	for (int i = 0; i < filter->remote_count; i++)
		if (host_matches(&filter->remotes[i], family, address))
			return true;
	return !filter->remote_count;
}

static bool port_matches(const struct ports *ports, uint16_t port)
{
	return port >= ports->low && port <= ports->high;
}

bool filter_matches(const struct filter *filter, int family, const void *local, const void *remote,
		    uint16_t local_port, uint16_t remote_port)
{
	return host_matches(&filter->local, family, local) &&
	       remote_matches(filter, family, remote) &&
	       port_matches(&filter->local_ports, local_port) &&
	       port_matches(&filter->remote_ports, remote_port) &&
	       (port_matches(&filter->any_ports, local_port) ||
		port_matches(&filter->any_ports, remote_port));
}
