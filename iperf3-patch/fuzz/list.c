/*
 * Fuzz the parsers of -C and of --stream-delays, each with the same input, and
 * check what they return: where the error of a malformed list points, that
 * every group and every delay of another list keeps its limits, and that the
 * streams get the groups by their weights.
 */
#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iperf.h"
#include "iperf_api.h"
#include "iperf_congestion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The error is one line, and has the text at the column that it names. */
static void
check_error(const char *spec)
{
    const char *error = iperf_congestion_strerror(), *p;
    int column, i;

    assert(i_errno == IECONGESTIONLIST);
    for (p = error; *p != '\0'; ++p)
        assert(!iscntrl((unsigned char) *p));
    /* The list itself comes first, and may have anything in it */
    for (p = error + strlen(error); p > error && sscanf(p, "': column %d, at '", &column) != 1; --p)
        ;
    assert(p > error);
    assert(column >= 1 && (size_t) column <= strlen(spec) + 1);
    p = strstr(p, ", at '") + 6;
    for (i = column - 1; i < column + 19 && spec[i] != '\0'; ++i, ++p)
        assert(*p == (iscntrl((unsigned char) spec[i]) ? '?' : spec[i]));
    assert(strncmp(p, spec[i] != '\0' ? "...': " : "': ", spec[i] != '\0' ? 6 : 3) == 0);
}

/* The groups are those of the list, and within the limits. */
static void
check_list(const struct iperf_congestion_list *list, const char *spec)
{
    const struct iperf_congestion *entry;
    int i, n, sum = 0, used[CONGESTION_GROUPS_MAX] = { 0 };

    assert(list->count >= 1 && list->count <= CONGESTION_GROUPS_MAX);
    for (i = 0; i < list->count; ++i) {
        entry = &list->entries[i];
        n = strlen(entry->name);
        assert(n >= 1 && n < CONGESTION_NAME_MAX);
        assert(strncmp(entry->name, spec, n) == 0 && strchr(",:@+", spec[n]) != NULL);
        assert(entry->weight >= 1 && entry->weight <= CONGESTION_WEIGHT_MAX);
        assert(spec[n] != ':' || entry->weight == atoi(spec + n + 1));
        assert(entry->rate == 0 || (entry->rate >= CONGESTION_RATE_MIN && entry->rate <= CONGESTION_RATE_MAX));
        assert(entry->delay <= CONGESTION_DELAY_MAX * 1000000ULL);
        sum += entry->weight;
        spec += strcspn(spec, ",");
        spec += *spec == ',';
    }
    assert(*spec == '\0');
    for (n = 0; n < CONGESTION_GROUPS_MAX; ++n) {
        entry = iperf_congestion_of(list, n);
        assert(entry >= list->entries && entry < list->entries + list->count);
        ++used[entry - list->entries];
        /* Exactly the weights, whenever their sum is reached */
        for (i = 0; i < list->count && (n + 1) % sum == 0; ++i)
            assert(used[i] == list->entries[i].weight * ((n + 1) / sum));
    }
    i = iperf_congestion_unused(list, CONGESTION_GROUPS_MAX);
    assert(i >= -1 && i < list->count && (i < 0 || used[i] == 0));
    (void) iperf_congestion_latest(list);
}

/* The delays are those of the list, in microseconds, and within the limits. */
static void
check_delays(const struct iperf_stream_delays *list, const char *spec)
{
    char *end;
    double delay;
    int i;

    assert(list->count >= 1 && list->count <= CONGESTION_GROUPS_MAX);
    for (i = 0; i < list->count; ++i) {
        delay = strtod(spec, &end);
        if (strncmp(end, "ms", 2) == 0)
            delay /= 1000;
        assert(delay >= 0 && delay <= CONGESTION_DELAY_MAX);
        assert(list->delays[i] == (uint64_t) (delay * 1e6 + 0.5));
        spec += strcspn(spec, ",");
        assert((*spec == ',') == (i + 1 < list->count));
        spec += *spec == ',';
    }
    assert(*spec == '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* The copy has exactly its size, so that reading past its end is noticed */
    size_t len = strnlen((const char *) data, size);
    char *spec = malloc(len + 1);
    struct iperf_congestion_list *list;
    struct iperf_stream_delays *delays;

    memcpy(spec, data, len);
    spec[len] = '\0';
    list = iperf_congestion_parse(spec);
    if (list == NULL)
        check_error(spec);
    else
        check_list(list, spec);
    free(list);
    delays = iperf_stream_delays_parse(spec);
    if (delays == NULL)
        check_error(spec);
    else
        check_delays(delays, spec);
    free(delays);
    free(spec);
    return 0;
}
