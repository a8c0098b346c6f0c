// SPDX-License-Identifier: Apache-2.0
/* Writes CSV, a line per direction and interval. A value that is not known is empty. */
#include "series.h"

#include <inttypes.h>
#include <stddef.h>

static const struct column {
	const char *name;
	size_t place; /* of a uint64_t in struct interval */
	size_t known; /* place of the bool that is true if there is a value; 0: there always is one */
} columns[] = {
#define COLUMN(name, member) { name, offsetof(struct interval, member), 0 }
#define COLUMN_IF(name, member, known) { name, offsetof(struct interval, member), offsetof(struct interval, known) }
	COLUMN("packets", packets),
	COLUMN("data_packets", data_packets),
	COLUMN("payload_bytes", bytes),
	COLUMN("retransmitted_packets", retransmitted_packets),
	COLUMN("retransmitted_bytes", retransmitted_bytes),
	COLUMN("out_of_order_packets", out_of_order_packets),
	COLUMN("out_of_order_bytes", out_of_order_bytes),
	COLUMN("ect_packets", ect_packets),
	COLUMN("ce_packets", ce_packets),
	COLUMN("cwr_packets", cwr_packets),
	COLUMN("acked_bytes", acked_bytes),
	COLUMN("duplicate_acks", duplicate_acks),
	COLUMN("sack_packets", sack_packets),
	COLUMN("sack_blocks", sack_blocks),
	COLUMN("ece_packets", ece_packets),
	COLUMN_IF("receive_window_min_bytes", window_min, window_known),
	COLUMN_IF("receive_window_last_bytes", window_last, window_known),
	COLUMN_IF("in_flight_max_bytes", flight_max, flight_known),
	COLUMN_IF("in_flight_last_bytes", flight_last, flight_known),
};

#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

void series_begin(FILE *file)
{
	fputs("connection,direction,time_s", file);
	for (size_t i = 0; i < COLUMNS; i++)
		fprintf(file, ",%s", columns[i].name);
	fputs(",ack_rtt_samples,ack_rtt_min_s,ack_rtt_mean_s,ack_rtt_max_s"
	      ",timestamp_rtt_samples,timestamp_rtt_min_s,timestamp_rtt_mean_s,timestamp_rtt_max_s\n", file);
}

static void write_samples(FILE *file, const struct samples *samples)
{
	if (samples->count)
		fprintf(file, ",%" PRIu64 ",%.9f,%.9f,%.9f", samples->count, (double)samples->min_ns / 1e9,
			samples->mean_ns / 1e9, (double)samples->max_ns / 1e9);
	else
		fputs(",0,,,", file);
}

static void write_line(FILE *file, const struct connection *connection, int direction)
{
	const struct interval *now = &connection->sides[direction].now;
	const char *at = (const char *)now;

	fprintf(file, "%" PRIu64 ",%s,%" PRId64 ".%09" PRId64, connection->number, direction ? "b2a" : "a2b",
		connection->interval_ns / 1000000000, connection->interval_ns % 1000000000);
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!columns[i].known || *(const bool *)(at + columns[i].known))
			fprintf(file, ",%" PRIu64, *(const uint64_t *)(at + columns[i].place));
		else
			fputc(',', file);
	}
	write_samples(file, &now->rtt_acks);
	write_samples(file, &now->rtt_stamps);
	fputc('\n', file);
}

void series_write(FILE *file, const struct connection *connection)
{
	write_line(file, connection, 0);
	write_line(file, connection, 1);
}
