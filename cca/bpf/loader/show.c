// SPDX-License-Identifier: Apache-2.0
/* The commands that show what is loaded, and the state of its sockets. */
#include "show.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "fail.h"
#include "loaded.h"
#include "objects.h"
#include "parameters.h"
#include "sockets.h"

/* The form of the output: a list in JSON, or lines. */
struct output {
	bool json;
	const char *name;		/* only of this CCA; NULL: of all */
	int written;
	struct bpf_program *program;
};

static void begin_element(struct output *output)
{
	if (output->json)
		fputs(output->written ? ",\n " : "[", stdout);
	output->written++;
}

static void end_list(const struct output *output)
{
	if (output->json)
		puts(output->written ? "]" : "[]");
}

static void write_parameter(const char *name, const char *value, void *state)
{
	struct output *output = state;

	if (output->json)
		printf("%s\"%s\": \"%s\"", output->written++ ? ", " : "", name, value);
	else
		printf("    %s=%s\n", name, value);
}

static bool write_loaded(const struct loaded *loaded, void *state)
{
	struct output *output = state, parameters = { .json = output->json };

	if (!loaded->registered)
		return true;
	begin_element(output);
	if (output->json) {
		printf("{\"name\": \"%s\", \"id\": %u, ", loaded->name, loaded->id);
		if (loaded->is_this_build)
			printf("\"sockets\": %u, \"fallbacks\": %u, ", loaded->counts.sockets, loaded->counts.fallbacks);
		else
			printf("\"sockets\": null, \"fallbacks\": null, ");
		if (loaded->control.build)
			printf("\"program\": \"%016" PRIx64 "\", ", loaded->control.build);
		else
			printf("\"program\": null, ");
		printf("\"parameters\": {");
	} else if (loaded->is_this_build) {
		printf("%s: id %u, %u sockets, %u fallbacks to reno\n", loaded->name, loaded->id, loaded->counts.sockets,
		       loaded->counts.fallbacks);
	} else {
		printf("%s: id %u, loaded by another build of ccmix-cca\n", loaded->name, loaded->id);
	}
	if (loaded->is_this_build)
		parameters_write(&loaded->control, write_parameter, &parameters);
	if (output->json)
		printf("}}");
	return true;
}

void list(const struct command *command)
{
	struct output output = { .json = command->json };

	check_require();
	loaded_visit(write_loaded, &output);
	end_list(&output);
}

static const char *const phase_names[BBR_STATES] = {
	[BBR_STARTUP] = "startup",
	[BBR_DRAIN] = "drain",
	[BBR_PROBE_BW_DOWN] = "probe_bw_down",
	[BBR_PROBE_BW_CRUISE] = "probe_bw_cruise",
	[BBR_PROBE_BW_REFILL] = "probe_bw_refill",
	[BBR_PROBE_BW_UP] = "probe_bw_up",
	[BBR_PROBE_RTT] = "probe_rtt",
};

static uint64_t bits_per_second(uint32_t bw, uint32_t mss)
{
	return (uint64_t)((unsigned __int128)bw * mss * 8000000 >> BBR_BW_SCALE);
}

static void write_member(const struct output *output, const char *name, const char *number)
{
	if (output->json)
		printf(", \"%s\": %s", name, number);
	else
		printf(" %s", number);
}

/* Writes a member of a socket's line; `known` false: "-", or null. */
static void write_number(const struct output *output, const char *name, bool known, uint64_t value)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRIu64, value);
	if (!known)
		strcpy(number, output->json ? "null" : "-");
	write_member(output, name, number);
}

static void write_gain(const struct output *output, const char *name, uint32_t gain)
{
	char number[24];

	snprintf(number, sizeof(number), "%.3f", gain / (double)BBR_UNIT);
	write_member(output, name, number);
}

static void write_status(struct output *output, const char *name, const struct bbr_status *status)
{
	char local[INET6_ADDRSTRLEN] = "?", remote[INET6_ADDRSTRLEN] = "?";
	const char *phase = status->phase < BBR_STATES ? phase_names[status->phase] : "?";
	unsigned int remote_port = ntohs(status->remote_port);

	inet_ntop((int)status->family, status->local_address, local, sizeof(local));
	inet_ntop((int)status->family, status->remote_address, remote, sizeof(remote));
	if (!output->json && !output->written)
		puts("name cookie netns local remote phase cycle bw_bps min_rtt_us pacing_gain cwnd_gain bw_lo_bps "
		     "inflight_hi_packets inflight_lo_packets");
	begin_element(output);
	if (output->json)
		printf("{\"name\": \"%s\", \"cookie\": %" PRIu64 ", \"netns\": %u, \"local_address\": \"%s\", "
		       "\"local_port\": %u, \"remote_address\": \"%s\", \"remote_port\": %u, \"phase\": \"%s\"",
		       name, status->cookie, status->netns, local, status->local_port, remote, remote_port, phase);
	else
		printf("%s %" PRIu64 " %u [%s]:%u [%s]:%u %s", name, status->cookie, status->netns, local,
		       status->local_port, remote, remote_port, phase);
	write_number(output, "cycle", true, status->cycle);
	write_number(output, "bw_bps", true, bits_per_second(status->bw, status->mss));
	write_number(output, "min_rtt_us", status->min_rtt_us != BBR_INFINITE, status->min_rtt_us);
	write_gain(output, "pacing_gain", status->pacing_gain);
	write_gain(output, "cwnd_gain", status->cwnd_gain);
	write_number(output, "bw_lo_bps", status->bw_lo != BBR_INFINITE, bits_per_second(status->bw_lo, status->mss));
	write_number(output, "inflight_hi_packets", status->inflight_hi != BBR_INFINITE, status->inflight_hi);
	write_number(output, "inflight_lo_packets", status->inflight_lo != BBR_INFINITE, status->inflight_lo);
	fputs(output->json ? "}" : "\n", stdout);
}

/* Reads what the iterator writes: one struct bbr_status after the other. */
static void read_statuses(struct output *output, const char *name, int iterator)
{
	struct bbr_status status;
	size_t have = 0;
	ssize_t got;

	while ((got = read(iterator, (char *)&status + have, sizeof(status) - have)) > 0) {
		have += (size_t)got;
		if (have == sizeof(status)) {
			write_status(output, name, &status);
			have = 0;
		}
	}
	if (got < 0)
		fail_errno("the state of the sockets of %s can't be read", name);
}

/* Attaches an iterator to the sockets of a CCA. */
static struct bpf_link *iterate(struct bpf_program *program, const struct loaded *loaded)
{
	union bpf_iter_link_info map = { .map.map_fd = (unsigned int)loaded->sockets };
	LIBBPF_OPTS(bpf_iter_attach_opts, options, .link_info = &map, .link_info_len = sizeof(map));

	return bpf_program__attach_iter(program, &options);
}

/* Returns whether this build knows how the state of its sockets is laid out; says so if not. */
static bool can_read_sockets(const struct loaded *loaded)
{
	if (!loaded->is_this_build)
		complain("%s was loaded by another build of ccmix-cca: its sockets are not shown", loaded->name);
	return loaded->is_this_build;
}

static bool write_sockets(const struct loaded *loaded, void *state)
{
	struct output *output = state;
	struct bpf_link *link;
	int iterator;

	if (output->name && strcmp(output->name, loaded->name))
		return true;
	if (!can_read_sockets(loaded))
		return true;
	link = iterate(output->program, loaded);
	iterator = link ? bpf_iter_create(bpf_link__fd(link)) : -1;
	if (iterator < 0)
		fail_errno("the sockets of %s can't be listed", loaded->name);
	read_statuses(output, loaded->name, iterator);
	close(iterator);
	bpf_link__destroy(link);
	return true;
}

static struct bpf_object *load_status(void)
{
	struct bpf_object *object = open_status();

	if (bpf_object__load(object) < 0)
		fail_errno("the kernel refuses the programs that list sockets%s",
			   errno == EPERM ? ", maybe since it is locked down" : "");
	return object;
}

struct use {
	const char *name;
	bool found;			/* it is loaded, or was unloaded and sockets still use it */
};

static bool find_use(const struct loaded *loaded, void *state)
{
	struct use *use = state;

	if (!strcmp(loaded->name, use->name))
		use->found = loaded->registered || !loaded->is_this_build || loaded->counts.sockets;
	return !use->found;
}

void status(const struct command *command)
{
	struct output output = { .json = command->json, .name = command->name };
	struct use use = { .name = command->name };
	struct bpf_object *object;

	check_require();
	if (command->name)
		loaded_visit(find_use, &use);
	if (command->name && !use.found)
		fail(STATUS_FAILED, "%s is not loaded, and no connection uses it", command->name);
	object = load_status();
	output.program = bpf_object__find_program_by_name(object, "bbr_write_status");
	loaded_visit(write_sockets, &output);
	end_list(&output);
	bpf_object__close(object);
}

/* Puts the iterator's descriptor, which the command inherits, into the environment. */
static bool hand_over(const struct loaded *loaded, void *state)
{
	char name[] = "CCMIX_STATE_BBRx", number[16];
	struct bpf_link *link;
	int fd;

	if (!loaded->registered)
		return true;
	if (!can_read_sockets(loaded))
		return true;
	link = iterate(state, loaded);
	fd = link ? dup(bpf_link__fd(link)) : -1;	/* the copy is inherited */
	if (fd < 0)
		fail_errno("the sockets of %s can't be listed", loaded->name);
	name[sizeof(name) - 2] = loaded->name[strlen(loaded->name) - 1];
	snprintf(number, sizeof(number), "%d", fd);
	setenv(name, number, 1);
	return true;
}

void watch(const struct command *command)
{
	struct bpf_object *object;

	check_require();
	object = load_status();
	loaded_visit(hand_over, bpf_object__find_program_by_name(object, "bbr_print_state"));
	hand_over_sockets();
	execvp(command->argv[0], command->argv);
	fail_errno("%s", command->argv[0]);
}
