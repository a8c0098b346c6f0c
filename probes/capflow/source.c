// SPDX-License-Identifier: Apache-2.0
/* Reads frames from a pcap file by libpcap, or from a pcapng file, which other programs decompress if necessary. */
#include "source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory.h"
#include "packet.h"
#include "pcapng.h"

#define MAGIC_MAX 12
#define NOT_STARTED 127

struct source {
	FILE *file;
	pcap_t *pcap; /* NULL: it is pcapng */
	struct pcapng *pcapng;
	const char *program; /* that decompresses; NULL: none */
	pid_t decompressor;
};

static const struct magic {
	const char *bytes;
	size_t length;
	const char *name;
} compressed[] = {
	{ "\x1f\x8b", 2, "gzip" },
	{ "\x28\xb5\x2f\xfd", 4, "zstd" },
	{ "\xfd" "7zXZ", 5, "xz" },
	{ "BZh", 3, "bzip2" },
	{ "\x04\x22\x4d\x18", 4, "lz4" },
}, unsupported[] = {
	{ "snoop\0\0\0", 8, "snoop" },
	{ "GMBU", 4, "Microsoft Network Monitor" },
	{ "RTSS", 4, "Microsoft Network Monitor" },
	{ "TRSNIFF data", 12, "Sniffer" },
	{ "iptrace ", 8, "iptrace" },
};

static const char *name_of(const struct magic *all, size_t count, const char *begin, size_t length)
{
	for (size_t i = 0; i < count; i++) {
		if (length >= all[i].length && !memcmp(begin, all[i].bytes, all[i].length))
			return all[i].name;
	}
	return NULL;
}

#define NAME_OF(all, begin, length) name_of(all, sizeof(all) / sizeof((all)[0]), begin, length)

/* Reads the first bytes of a file, and puts them back. */
static size_t peek(FILE *file, char begin[MAGIC_MAX])
{
	size_t length = fread(begin, 1, MAGIC_MAX, file);

	clearerr(file);
	for (size_t i = length; i > 0; i--)
		ungetc((unsigned char)begin[i - 1], file);
	return length;
}

/* Starts the program that decompresses the file, and reads what it writes. */
static bool decompress(struct source *source, const char *program, char problem[PCAP_ERRBUF_SIZE])
{
	int ends[2], input = fileno(source->file);

	if (input < 0 || lseek(input, 0, SEEK_SET) < 0) {
		snprintf(problem, PCAP_ERRBUF_SIZE, "a pipe with a capture that %s has compressed: decompress it first", program);
		return false;
	}
	if (pipe2(ends, O_CLOEXEC) || (source->decompressor = fork()) < 0) {
		snprintf(problem, PCAP_ERRBUF_SIZE, "%s: %s", program, strerror(errno));
		return false;
	}
	if (!source->decompressor) {
		int nowhere = open("/dev/null", O_WRONLY);

		signal(SIGPIPE, SIG_DFL);
		if (nowhere >= 0 && dup2(input, STDIN_FILENO) >= 0 && dup2(ends[1], STDOUT_FILENO) >= 0 &&
		    dup2(nowhere, STDERR_FILENO) >= 0)
			execlp(program, program, "-dcq", (char *)NULL);
		_exit(NOT_STARTED);
	}
	close(ends[1]);
	fclose(source->file);
	source->file = fdopen(ends[0], "r");
	source->program = program;
	return source->file != NULL;
}

/* Waits for the program that decompresses. Returns false, with the reason in `problem`, if it failed. */
static bool decompressed(struct source *source, char problem[PCAP_ERRBUF_SIZE])
{
	int status = 0;
	pid_t ended;

	if (source->decompressor <= 0)
		return true;
	while ((ended = waitpid(source->decompressor, &status, 0)) < 0 && errno == EINTR)
		;
	source->decompressor = 0;
	if (ended < 0 || (WIFEXITED(status) && !WEXITSTATUS(status)))
		return true;
	if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_STARTED)
		snprintf(problem, PCAP_ERRBUF_SIZE, "%s can't be started: install the package %s", source->program,
			 source->program);
	else
		snprintf(problem, PCAP_ERRBUF_SIZE, "%s can't decompress it to its end", source->program);
	return false;
}

static bool open_content(struct source *source, char problem[PCAP_ERRBUF_SIZE])
{
	char begin[MAGIC_MAX];
	size_t length = peek(source->file, begin);
	const char *name = NAME_OF(compressed, begin, length);

	if (name && !decompress(source, name, problem))
		return false;
	if (name)
		length = peek(source->file, begin);
	name = NAME_OF(unsupported, begin, length);
	if (name) {
		snprintf(problem, PCAP_ERRBUF_SIZE,
			 "a capture in the format of %s, which is not supported: convert it, as by editcap -F pcap", name);
		return false;
	}
	if (length >= 4 && !memcmp(begin, "\n\r\r\n", 4)) {
		source->pcapng = pcapng_open(source->file, problem);
		return source->pcapng != NULL;
	}
	source->pcap = pcap_fopen_offline_with_tstamp_precision(source->file, PCAP_TSTAMP_PRECISION_NANO, problem);
	if (!source->pcap)
		return false;
	source->file = NULL; /* libpcap closes it */
	if (!packet_link_known(pcap_datalink(source->pcap))) {
		snprintf(problem, PCAP_ERRBUF_SIZE, "packets of the link type %s can't be read",
			 pcap_datalink_val_to_description_or_dlt(pcap_datalink(source->pcap)));
		return false;
	}
	return true;
}

struct source *source_open(FILE *file, char problem[PCAP_ERRBUF_SIZE])
{
	struct source *source = create(1, sizeof(*source));

	source->file = file;
	if (open_content(source, problem))
		return source;
	if (source->program) {
		if (source->file)
			fclose(source->file); /* so that the program ends */
		source->file = NULL;
		decompressed(source, problem);
	}
	source_close(source);
	return NULL;
}

static int next_of_pcap(pcap_t *pcap, struct frame *frame, char problem[PCAP_ERRBUF_SIZE])
{
	struct pcap_pkthdr *header;
	int64_t ns;
	int got = pcap_next_ex(pcap, &header, &frame->data);

	if (got == PCAP_ERROR_BREAK) /* the end of the file, or a signal */
		return 0;
	if (got != 1) {
		snprintf(problem, PCAP_ERRBUF_SIZE, "%s", pcap_geterr(pcap));
		return -1;
	}
	ns = header->ts.tv_usec; /* nanoseconds, as was asked for */
	frame->time_ns = frame_time(header->ts.tv_sec, ns < 0 || ns > 999999999 ? 0 : ns);
	frame->link = pcap_datalink(pcap);
	frame->captured = header->caplen;
	frame->length = header->len;
	return 1;
}

int source_next(struct source *source, struct frame *frame, char problem[PCAP_ERRBUF_SIZE])
{
	FILE *file = source->pcap ? pcap_file(source->pcap) : source->file;
	int got = source->pcap ? next_of_pcap(source->pcap, frame, problem) :
				 pcapng_next(source->pcapng, frame, problem);

	/* Before the end of its output, the program would wait for this one to read on */
	return got != 1 && feof(file) && !decompressed(source, problem) ? -1 : got;
}

void source_break(struct source *source)
{
	if (source->pcap)
		pcap_breakloop(source->pcap);
	if (source->pcapng)
		pcapng_break(source->pcapng);
}

void source_close(struct source *source)
{
	char problem[PCAP_ERRBUF_SIZE];

	if (source->pcap)
		pcap_close(source->pcap);
	if (source->pcapng)
		pcapng_close(source->pcapng);
	if (source->file && source->file != stdin)
		fclose(source->file);
	decompressed(source, problem);
	free(source);
}
