/*
 * Fuzz how one side of a test handles the messages of the other, without
 * connections and threads: ROLE is 's' or 'c'.
 *
 * The input's first byte has options, '0' for none. Then there are three
 * lines: the parameters (of the client: its -C), the streams, the results. With
 * the client's option WITH_DELAYS its --stream-delays come before these.
 */
#include <assert.h>
#include <stdint.h>

/* For its static functions */
#include "iperf_api.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WITH_JSON = 1, WITH_JSON_STREAM = 2, WITH_TCP_INFO = 4, REVERSE = 8, BIDIR = 16, SERVER_OUTPUT = 32, WITH_DELAYS = 64 };

/* In each direction; more of them would only be slow */
#define STREAMS 5

static FILE *nowhere;
static int ours, theirs = -1;
static int sockets[2 * STREAMS]; /* not connected, but the kernel reports on each */

/* Send the next line of the input from the other side, as one message. */
static void
say(const uint8_t **data, const uint8_t *end)
{
    const uint8_t *newline = memchr(*data, '\n', end - *data);
    size_t len = (newline != NULL ? newline : end) - *data;
    uint32_t size = htonl(len);

    assert(write(theirs, &size, sizeof(size)) == sizeof(size));
    assert(write(theirs, *data, len) == (ssize_t) len);
    *data += len + (newline != NULL);
}

/* Cut the next line off the input. Return NULL if there is none; otherwise free it. */
static char *
cut_line(const uint8_t **data, const uint8_t *end)
{
    const uint8_t *newline = memchr(*data, '\n', end - *data);
    char *line;

    if (newline == NULL)
	return NULL;
    line = strndup((const char *) *data, newline - *data);
    *data = newline + 1;
    return line;
}

/* Add a stream like those that iperf_new_stream() makes, but without a connection. */
static void
add_stream(struct iperf_test *test, int n, int sender)
{
    struct iperf_stream *sp = calloc(1, sizeof(*sp));
    struct sockaddr_in *local = (struct sockaddr_in *) &sp->local_addr;
    struct sockaddr_in *remote = (struct sockaddr_in *) &sp->remote_addr;

    sp->result = calloc(1, sizeof(*sp->result));
    TAILQ_INIT(&sp->result->interval_results);
    sp->test = test;
    sp->settings = test->settings;
    sp->sender = sender;
    sp->socket = sockets[n];
    sp->diskfile_fd = -1;
    local->sin_family = remote->sin_family = AF_INET;
    local->sin_port = htons(test->role == 's' ? 5201 : 1000 + n);
    remote->sin_port = htons(test->role == 's' ? 1000 + n : 5201);
    if (test->protocol->id == Ptcp) {
	iperf_congestion_join(sp);
	if (sender)
	    strcpy(sp->congestion, "cubic");
    }
    iperf_add_stream(test, sp);
    test->on_new_stream(sp);
}

/* Each stream that this side sends starts as much later as its group's delay and its own add up to. */
static void
check_starts(struct iperf_test *test)
{
    struct iperf_stream *sp;
    uint64_t delay;
    int n = 0;

    SLIST_FOREACH(sp, &test->streams, streams) {
	delay = 0;
	if (sp->sender && test->congestion_list != NULL)
	    delay += test->congestion_list->entries[sp->group].delay;
	if (sp->sender && test->stream_delays != NULL && n < test->stream_delays->count)
	    delay += test->stream_delays->delays[n];
	n += sp->sender;
	assert(iperf_time_in_usecs(&sp->result->start_time_fixed) == iperf_time_in_usecs(&sp->result->start_time) + delay);
	assert(sp->delayed == (delay > 0));
    }
}

static void
free_streams(struct iperf_test *test)
{
    struct iperf_stream *sp;
    struct iperf_interval_results *irp;

    while ((sp = SLIST_FIRST(&test->streams)) != NULL) {
	SLIST_REMOVE_HEAD(&test->streams, streams);
	while ((irp = TAILQ_FIRST(&sp->result->interval_results)) != NULL) {
	    TAILQ_REMOVE(&sp->result->interval_results, irp, irlistentries);
	    free(irp);
	}
	free(sp->result);
	free(sp);
    }
}

/* Report an interval, or the end. */
static void
report(struct iperf_test *test, signed char state)
{
    struct iperf_stream *sp;

    SLIST_FOREACH(sp, &test->streams, streams) {
	sp->result->bytes_sent_this_interval = sp->result->bytes_received_this_interval = 1000;
	sp->result->bytes_sent += 1000;
	sp->result->bytes_received += 1000;
    }
    test->state = state;
    test->stats_callback(test);
    test->reporter_callback(test);
}

static void
talk(struct iperf_test *test, int options, const uint8_t *data, const uint8_t *end)
{
    char *delays;
    int i, receives;

    if (ROLE == 's') {
	say(&data, end);
	if (get_parameters(test) < 0)
	    return;
    }
    else {
	if (options & WITH_DELAYS) {
	    delays = cut_line(&data, end);
	    if (delays == NULL)
		return;
	    test->stream_delays = iperf_stream_delays_parse(delays);
	    free(delays);
	    if (test->stream_delays == NULL)
		return;
	}
	test->congestion = cut_line(&data, end);
	if (test->congestion == NULL)
	    return;
	if (iperf_congestion_is_list(test->congestion) &&
	    (test->congestion_list = iperf_congestion_parse(test->congestion)) == NULL)
	    return;
	if (options & REVERSE)
	    iperf_set_test_reverse(test, 1);
	else if (options & BIDIR)
	    iperf_set_test_bidirectional(test, 1);
	test->num_streams = 2;
	test->get_server_output = (options & SERVER_OUTPUT) != 0;
	assert(send_parameters(test) == 0);
    }

    if (test->num_streams < 1 || test->num_streams > STREAMS)
	return;
    receives = ROLE == 's' ? test->mode != SENDER : test->mode == RECEIVER;
    for (i = 0; i < test->num_streams; ++i)
	add_stream(test, i, !receives);
    for (; i < 2 * test->num_streams && test->mode == BIDIRECTIONAL; ++i)
	add_stream(test, i, receives);

    if (ROLE == 'c' || test->exchange_streams) {
	say(&data, end);
	if (iperf_exchange_streams(test) < 0)
	    return;
    }
    if (test->protocol->id != Ptcp || iperf_init_test(test) < 0)
	return;
    check_starts(test);
    report(test, TEST_RUNNING);
    test->done = 1;
    if (ROLE == 's')
	report(test, TEST_END);
    say(&data, end);
    if (iperf_exchange_results(test) == 0 && ROLE == 'c')
	report(test, DISPLAY_RESULTS);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct iperf_test *test;
    char rest[65536];
    int pair[2], options, i;

    if (size < 1)
	return 0;
    if (theirs < 0) {
	nowhere = fopen("/dev/null", "w");
	assert(nowhere != NULL && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	ours = pair[0];
	theirs = pair[1];
	for (i = 0; i < 2 * STREAMS; ++i)
	    assert((sockets[i] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    }
    options = *data ^ '0';
    test = iperf_new_test();
    assert(test != NULL && iperf_defaults(test) == 0);
    iperf_set_test_role(test, ROLE);
    test->outfile = nowhere;
    test->ctrl_sck = ours;
    test->json_output = (options & (WITH_JSON | WITH_JSON_STREAM)) != 0;
    test->json_stream = (options & WITH_JSON_STREAM) != 0;
    test->tcp_info = (options & WITH_TCP_INFO) != 0;
    if (test->json_output)
	assert(iperf_json_start(test) == 0);
    i_errno = IENONE;
    talk(test, options, data + 1, data + size);
    if (i_errno != IENONE)
	(void) iperf_strerror(i_errno);
    if (test->json_output)
	iperf_json_finish(test);

    /* Nothing is left for the next one */
    while (recv(ours, rest, sizeof(rest), MSG_DONTWAIT) > 0)
	;
    while (recv(theirs, rest, sizeof(rest), MSG_DONTWAIT) > 0)
	;
    free_streams(test);
    test->outfile = stdout;
    iperf_free_test(test);
    return 0;
}
