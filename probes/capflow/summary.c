// SPDX-License-Identifier: Apache-2.0
/* Writes the summary of a connection as JSON and as text; both are made of one list of values. */
#include "summary.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>

#define FORMAT_VERSION 2
#define VALUES_MAX 80

enum kind { KIND_COUNT, KIND_REAL, KIND_YES_NO };

struct value {
	const char *name;
	enum kind kind;
	bool known;
	uint64_t count;
	double real;
};

struct values {
	struct value all[VALUES_MAX];
	size_t count;
};

static void put(struct values *values, struct value value)
{
	if (values->count < VALUES_MAX)
		values->all[values->count++] = value;
}

static void put_count(struct values *values, const char *name, uint64_t count)
{
	put(values, (struct value){ .name = name, .kind = KIND_COUNT, .known = true, .count = count });
}

static void put_count_if(struct values *values, const char *name, bool known, uint64_t count)
{
	put(values, (struct value){ .name = name, .kind = KIND_COUNT, .known = known, .count = count });
}

static void put_real_if(struct values *values, const char *name, bool known, double real)
{
	put(values, (struct value){ .name = name, .kind = KIND_REAL, .known = known && isfinite(real), .real = real });
}

static void put_yes_no(struct values *values, const char *name, bool yes)
{
	put(values, (struct value){ .name = name, .kind = KIND_YES_NO, .known = true, .count = yes });
}

/* Names of the five values of samples. */
struct sample_names {
	const char *count, *min, *max, *mean, *deviation;
};

#define SAMPLE_NAMES(name) { name "_samples", name "_min_s", name "_max_s", name "_mean_s", name "_stdev_s" }

static void put_samples(struct values *values, const struct sample_names *names, const struct samples *samples)
{
	put_count(values, names->count, samples->count);
	put_real_if(values, names->min, samples->count, (double)samples->min_ns / 1e9);
	put_real_if(values, names->max, samples->count, (double)samples->max_ns / 1e9);
	put_real_if(values, names->mean, samples->count, samples->mean_ns / 1e9);
	put_real_if(values, names->deviation, samples->count > 1, samples_deviation_ns(samples) / 1e9);
}

static int64_t begin_ns(const struct connection *connection)
{
	const struct side *a = &connection->sides[0], *b = &connection->sides[1];

	return b->packets && b->first_ns < a->first_ns ? b->first_ns : a->first_ns;
}

static int64_t end_ns(const struct connection *connection)
{
	const struct side *a = &connection->sides[0], *b = &connection->sides[1];

	return b->packets && b->last_ns > a->last_ns ? b->last_ns : a->last_ns;
}

static double seconds(int64_t from_ns, int64_t to_ns)
{
	return (double)(to_ns - from_ns) / 1e9;
}

static void put_packets(struct values *values, const struct side *side)
{
	put_count(values, "packets", side->packets);
	put_count(values, "ack_packets", side->ack_packets);
	put_count(values, "pure_acks", side->pure_acks);
	put_count(values, "sack_packets", side->sack_packets);
	put_count(values, "dsack_packets", side->dsack_packets);
	put_count(values, "sack_blocks", side->sack_blocks);
	put_count(values, "sack_blocks_max", side->sack_blocks_max);
	put_count(values, "syn_packets", side->syn_packets);
	put_count(values, "fin_packets", side->fin_packets);
	put_count(values, "rst_packets", side->rst_packets);
	put_count(values, "pushed_packets", side->pushed_packets);
	put_count(values, "urgent_packets", side->urgent_packets);
	put_count(values, "ect_packets", side->ect_packets);
	put_count(values, "ce_packets", side->ce_packets);
	put_count(values, "ece_packets", side->ece_packets);
	put_count(values, "cwr_packets", side->cwr_packets);
}

static void put_data(struct values *values, const struct connection *connection, const struct side *side)
{
	bool length_known = side->syn_packets && side->fin_known && side->fin >= side->first;
	uint64_t length = length_known ? side->fin - side->first : 0;
	double lasted_s = seconds(begin_ns(connection), end_ns(connection));

	put_count(values, "data_packets", side->data_packets);
	put_count(values, "payload_bytes", side->bytes);
	put_count(values, "unique_bytes", side->unique_bytes);
	put_count(values, "retransmitted_packets", side->retransmitted_packets);
	put_count(values, "retransmitted_bytes", side->retransmitted_bytes);
	put_count(values, "retransmitted_syn_fin_packets", side->retransmitted_syn_fin_packets);
	put_count(values, "retransmissions_of_a_segment_max", side->retransmitted_most);
	put_count(values, "out_of_order_packets", side->out_of_order_packets);
	put_count(values, "out_of_order_bytes", side->out_of_order_bytes);
	put_count(values, "zero_window_probes", side->zero_window_probes);
	put_count(values, "keep_alives", side->keep_alives);
	put_count_if(values, "segment_max_bytes", side->data_packets, side->segment_max);
	put_count_if(values, "segment_min_bytes", side->data_packets, side->segment_min);
	put_real_if(values, "segment_mean_bytes", side->data_packets, (double)side->bytes / (double)side->data_packets);
	put_count_if(values, "initial_window_bytes", side->syn_packets, side->initial_window_bytes);
	put_count_if(values, "initial_window_packets", side->syn_packets, side->initial_window_packets);
	put_count_if(values, "stream_length_bytes", length_known, length);
	put_count_if(values, "missed_bytes", length_known && length >= side->unique_bytes, length - side->unique_bytes);
	put_count(values, "cut_packets", side->cut_packets);
	put_count(values, "cut_bytes", side->cut_bytes);
	put_real_if(values, "data_transmit_time_s", side->data_packets,
		    seconds(side->first_data_ns, side->last_data_ns));
	put_real_if(values, "idle_max_s", side->packets > 1, (double)side->idle_max_ns / 1e9);
	put_real_if(values, "throughput_bytes_per_s", lasted_s > 0, (double)side->unique_bytes / lasted_s);
}

static void put_windows(struct values *values, const struct connection *connection, const struct side *side)
{
	put_yes_no(values, "window_scaled", connection_scales(connection));
	put_count_if(values, "window_scale", side->has_window_scale, side->window_scale);
	put_yes_no(values, "timestamps", side->timestamps);
	put_yes_no(values, "sack_permitted", side->sack_permitted);
	put_count_if(values, "mss_bytes", side->has_mss, side->mss);
	put_count_if(values, "window_max_bytes", side->window_any, side->window_max);
	put_count_if(values, "window_min_bytes", side->window_any, side->window_min);
	put_real_if(values, "window_mean_bytes", side->window_any, side->window_sum / (double)side->window_count);
	put_count(values, "zero_windows", side->window_zero);
}

static void put_back(struct values *values, const struct side *side)
{
	static const struct sample_names acks = SAMPLE_NAMES("ack_rtt"), stamps = SAMPLE_NAMES("timestamp_rtt"),
					 waits = SAMPLE_NAMES("retransmission_time");

	put_count_if(values, "acked_bytes", side->acked_known, side->acked_bytes);
	put_count(values, "duplicate_acks", side->duplicate_acks);
	put_count(values, "triple_duplicate_acks", side->triple_duplicate_acks);
	put_count_if(values, "in_flight_max_bytes", side->acked_known && side->data_known, side->flight_max);
	put_real_if(values, "handshake_rtt_s", side->rtt_handshake_ns >= 0, (double)side->rtt_handshake_ns / 1e9);
	put_samples(values, &acks, &side->rtt_acks);
	put_samples(values, &stamps, &side->rtt_stamps);
	put_samples(values, &waits, &side->waits);
	put_count(values, "stray_packets", side->stray_packets);
	put_count(values, "holes_forgotten", side->seen.forgotten);
	put_count(values, "segments_untimed", side->outstanding.untracked);
}

static void collect(struct values *values, const struct connection *connection, int direction)
{
	const struct side *side = &connection->sides[direction];

	values->count = 0;
	put_packets(values, side);
	put_data(values, connection, side);
	put_windows(values, connection, side);
	put_back(values, side);
}

static const char *address_of(const struct connection *connection, int end, char *text, size_t size)
{
	int family = connection->version == 4 ? AF_INET : AF_INET6;

	return inet_ntop(family, connection->ends[end].address, text, (socklen_t)size) ? text : "";
}

/* Returns whether the capture has all of it: the SYN and the FIN of both ends. */
static bool is_complete(const struct connection *connection)
{
	const struct side *a = &connection->sides[0], *b = &connection->sides[1];

	return a->syn_packets && b->syn_packets && a->fin_packets && b->fin_packets;
}

static void write_value(FILE *file, const struct value *value, const char *unknown, bool as_text)
{
	if (!value->known)
		fputs(unknown, file);
	else if (value->kind == KIND_YES_NO && as_text)
		fprintf(file, "%16s", value->count ? "yes" : "no");
	else if (value->kind == KIND_YES_NO)
		fputs(value->count ? "true" : "false", file);
	else if (value->kind == KIND_COUNT)
		fprintf(file, as_text ? "%16" PRIu64 : "%" PRIu64, value->count);
	else
		fprintf(file, as_text ? "%16.6f" : "%.9f", value->real);
}

static void write_time(FILE *file, int64_t ns)
{
	fprintf(file, "%" PRId64 ".%09" PRId64, ns / 1000000000, ns % 1000000000);
}

void summary_begin_json(FILE *file)
{
	fprintf(file, "{\"version\": %d}\n", FORMAT_VERSION);
}

void summary_write_json(FILE *file, const struct connection *connection)
{
	char text[INET6_ADDRSTRLEN];
	struct values values;

	fprintf(file, "{\"connection\": %" PRIu64, connection->number);
	for (int end = 0; end < 2; end++)
		fprintf(file, ", \"%c_address\": \"%s\", \"%c_port\": %u", "ab"[end],
			address_of(connection, end, text, sizeof(text)), "ab"[end], connection->ends[end].port);
	fputs(", \"first_time_s\": ", file);
	write_time(file, begin_ns(connection));
	fputs(", \"last_time_s\": ", file);
	write_time(file, end_ns(connection));
	fprintf(file, ", \"complete\": %s", is_complete(connection) ? "true" : "false");
	for (int direction = 0; direction < 2; direction++) {
		collect(&values, connection, direction);
		fprintf(file, ", \"%s\": {", direction ? "b2a" : "a2b");
		for (size_t i = 0; i < values.count; i++) {
			fprintf(file, "%s\"%s\": ", i ? ", " : "", values.all[i].name);
			write_value(file, &values.all[i], "null", false);
		}
		fputc('}', file);
	}
	fputs("}\n", file);
}

static const char *const verdict_names[VERDICTS] = {
	[VERDICT_TCP] = "tcp_packets",
	[VERDICT_OTHER] = "other_packets",
	[VERDICT_FRAGMENT] = "fragments",
	[VERDICT_CUT] = "header_cut_packets",
	[VERDICT_MALFORMED] = "malformed_packets",
};

/* Writes the times of the first and the last packet; null if there is none. */
static void write_span(FILE *file, uint64_t packets, int64_t first_ns, int64_t last_ns)
{
	fputs(", \"first_time_s\": ", file);
	if (packets)
		write_time(file, first_ns);
	else
		fputs("null", file);
	fputs(", \"last_time_s\": ", file);
	if (packets)
		write_time(file, last_ns);
	else
		fputs("null", file);
}

void summary_end_json(FILE *file, const struct capture *capture, const struct others *others, uint64_t connections)
{
	fprintf(file, "{\"capture\": {\"packets\": %" PRIu64, capture->packets);
	for (int i = 0; i < VERDICTS; i++)
		fprintf(file, ", \"%s\": %" PRIu64, verdict_names[i], capture->verdicts[i]);
	fprintf(file, ", \"filtered_packets\": %" PRIu64 ", \"backwards_packets\": %" PRIu64 ", \"connections\": %" PRIu64,
		capture->filtered, capture->backwards, connections);
	write_span(file, capture->packets, capture->first_ns, capture->last_ns);
	fprintf(file,
		"}, \"others\": {\"packets\": %" PRIu64 ", \"syn_packets\": %" PRIu64 ", \"payload_bytes\": %" PRIu64,
		others->packets, others->syn_packets, others->payload_bytes);
	write_span(file, others->packets, others->first_ns, others->last_ns);
	fputs("}}\n", file);
}

void summary_write_text(FILE *file, const struct connection *connection)
{
	char a[INET6_ADDRSTRLEN], b[INET6_ADDRSTRLEN];
	struct values values[2];

	fprintf(file, "connection %" PRIu64 "%s\n", connection->number,
		is_complete(connection) ? "" : ", not all of it captured");
	fprintf(file, "  a: %s port %u\n  b: %s port %u\n", address_of(connection, 0, a, sizeof(a)),
		connection->ends[0].port, address_of(connection, 1, b, sizeof(b)), connection->ends[1].port);
	fputs("  from ", file);
	write_time(file, begin_ns(connection));
	fprintf(file, ", %.6f s\n  %-34s%16s%16s\n", seconds(begin_ns(connection), end_ns(connection)), "", "a to b",
		"b to a");
	collect(&values[0], connection, 0);
	collect(&values[1], connection, 1);
	for (size_t i = 0; i < values[0].count; i++) {
		fprintf(file, "  %-34s", values[0].all[i].name);
		write_value(file, &values[0].all[i], "               -", true);
		write_value(file, &values[1].all[i], "               -", true);
		fputc('\n', file);
	}
	fputc('\n', file);
}

void summary_end_text(FILE *file, const struct capture *capture, const struct others *others, uint64_t connections)
{
	fprintf(file, "%" PRIu64 " connections in %" PRIu64 " packets", connections, capture->packets);
	for (int i = 0; i < VERDICTS; i++) {
		if (capture->verdicts[i])
			fprintf(file, ", %s %" PRIu64, verdict_names[i], capture->verdicts[i]);
	}
	if (capture->filtered)
		fprintf(file, ", filtered_packets %" PRIu64, capture->filtered);
	if (capture->backwards)
		fprintf(file, ", backwards_packets %" PRIu64, capture->backwards);
	if (others->packets)
		fprintf(file, ", packets of further connections %" PRIu64, others->packets);
	fputc('\n', file);
}
