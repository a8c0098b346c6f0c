/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_SUMMARY_H
#define CAPFLOW_SUMMARY_H

#include <stdint.h>
#include <stdio.h>

#include "capture.h"
#include "connection.h"

/* Write lines of JSON: the version, one for each connection, and at the end the capture. */
void summary_begin_json(FILE *file);
void summary_write_json(FILE *file, const struct connection *connection);
void summary_end_json(FILE *file, const struct capture *capture, const struct others *others, uint64_t connections);

/* Write text to read, both directions side by side. */
void summary_write_text(FILE *file, const struct connection *connection);
void summary_end_text(FILE *file, const struct capture *capture, const struct others *others, uint64_t connections);

#endif
