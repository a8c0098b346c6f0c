// SPDX-License-Identifier: Apache-2.0
/* Finds the connection of each packet, and writes connections when they end. */
#include "flows.h"

#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "series.h"
#include "summary.h"

#define SLOTS_AT_START 1024
/* How far back a packet's time may lie and still count to the open interval */
#define BACKWARDS_NS 1000000000LL

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 32;
}

static uint64_t hash_end(const struct endpoint *end)
{
	uint64_t halves[2];

	memcpy(halves, end->address, sizeof(halves));
	return mix(mix(mix(0, halves[0]), halves[1]), end->port);
}

/* Returns the slot of a connection, the same for both directions. */
static uint64_t slot_of(const struct flows *flows, const struct endpoint *a, const struct endpoint *b)
{
	return mix(0, hash_end(a) + hash_end(b)) & (flows->slot_count - 1);
}

static bool same_end(const struct endpoint *a, const struct endpoint *b)
{
	return a->port == b->port && !memcmp(a->address, b->address, sizeof(a->address));
}

/* Returns 0 or 1 where the packet belongs to this connection, else -1. */
static int direction_of(const struct connection *connection, const struct packet *packet)
{
	if (connection->version != packet->version)
		return -1;
	if (same_end(&connection->ends[0], &packet->source) && same_end(&connection->ends[1], &packet->destination))
		return 0;
	if (same_end(&connection->ends[1], &packet->source) && same_end(&connection->ends[0], &packet->destination))
		return 1;
	return -1;
}

static struct connection *find(struct flows *flows, const struct packet *packet, int *direction)
{
	struct connection *connection = flows->last;

	if (connection && (*direction = direction_of(connection, packet)) >= 0)
		return connection;
	connection = flows->slots[slot_of(flows, &packet->source, &packet->destination)];
	while (connection && (*direction = direction_of(connection, packet)) < 0)
		connection = connection->next;
	return connection;
}

static void widen(struct flows *flows)
{
	free(flows->slots);
	flows->slot_count *= 2;
	flows->slots = create(flows->slot_count, sizeof(struct connection *));
	for (struct connection *c = flows->oldest; c; c = c->newer) {
		uint64_t slot = slot_of(flows, &c->ends[0], &c->ends[1]);

		c->next = flows->slots[slot];
		flows->slots[slot] = c;
	}
}

static struct connection *begin(struct flows *flows, const struct packet *packet)
{
	struct connection *connection = connection_create(packet, ++flows->created);
	uint64_t slot;

	if (flows->count == flows->slot_count)
		widen(flows);
	slot = slot_of(flows, &packet->source, &packet->destination);
	connection->next = flows->slots[slot];
	flows->slots[slot] = connection;
	connection->older = flows->newest;
	if (flows->newest)
		flows->newest->newer = connection;
	else
		flows->oldest = connection;
	flows->newest = connection;
	flows->count++;
	connection->interval_ns = -1;
	return connection;
}

/* Counts a packet of a connection that gets no results of its own. */
static void count_other(struct others *others, const struct packet *packet)
{
	if (!others->packets || packet->time_ns < others->first_ns)
		others->first_ns = packet->time_ns;
	if (packet->time_ns > others->last_ns)
		others->last_ns = packet->time_ns;
	others->packets++;
	others->syn_packets += (packet->flags & (FLAG_SYN | FLAG_ACK)) == FLAG_SYN;
	others->payload_bytes += packet->payload;
}

static void close_interval(struct flows *flows, struct connection *connection)
{
	if (connection->interval_ns < 0)
		return;
	if (flows->outputs.series)
		series_write(flows->outputs.series, connection);
	for (int i = 0; i < 2; i++)
		memset(&connection->sides[i].now, 0, sizeof(connection->sides[i].now));
}

/* Writes a connection and forgets it. */
static void end(struct flows *flows, struct connection *connection)
{
	struct connection **place = &flows->slots[slot_of(flows, &connection->ends[0], &connection->ends[1])];

	close_interval(flows, connection);
	if (flows->outputs.json)
		summary_write_json(flows->outputs.json, connection);
	if (flows->outputs.text)
		summary_write_text(flows->outputs.text, connection);
	flows->written++;
	while (*place != connection)
		place = &(*place)->next;
	*place = connection->next;
	*(connection->older ? &connection->older->newer : &flows->oldest) = connection->newer;
	*(connection->newer ? &connection->newer->older : &flows->newest) = connection->older;
	flows->count--;
	if (flows->last == connection)
		flows->last = NULL;
	connection_free(connection);
}

void flows_open(struct flows *flows, const struct outputs *outputs)
{
	memset(flows, 0, sizeof(*flows));
	flows->outputs = *outputs;
	flows->slot_count = SLOTS_AT_START;
	flows->slots = create(flows->slot_count, sizeof(struct connection *));
	if (outputs->series)
		series_begin(outputs->series);
	if (outputs->json)
		summary_begin_json(outputs->json);
}

void flows_add(struct flows *flows, const struct packet *packet)
{
	int direction = 0;
	struct connection *connection = find(flows, packet, &direction);

	if (connection && (packet->flags & (FLAG_SYN | FLAG_RST)) == FLAG_SYN &&
	    connection_is_over(connection, direction, packet)) {
		end(flows, connection);
		connection = NULL;
	}
	if (!connection && flows->created >= flows->outputs.most_connections) {
		count_other(&flows->others, packet);
		return;
	}
	if (!connection) {
		connection = begin(flows, packet);
		direction = 0;
	}
	flows->last = connection;
	if (packet->time_ns >= connection->interval_ns + flows->outputs.interval_ns ||
	    packet->time_ns < connection->interval_ns - BACKWARDS_NS || connection->interval_ns < 0) {
		close_interval(flows, connection);
		connection->interval_ns = packet->time_ns - packet->time_ns % flows->outputs.interval_ns;
	}
	connection_add(connection, direction, packet);
}

void flows_close(struct flows *flows, const struct capture *capture)
{
	while (flows->oldest)
		end(flows, flows->oldest);
	if (flows->outputs.json)
		summary_end_json(flows->outputs.json, capture, &flows->others, flows->written);
	if (flows->outputs.text)
		summary_end_text(flows->outputs.text, capture, &flows->others, flows->written);
	free(flows->slots);
	flows->slots = NULL;
}
