/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_SERIES_H
#define CAPFLOW_SERIES_H

#include <stdio.h>

#include "connection.h"

/* The names of the columns. */
void series_begin(FILE *file);

/* A line for each direction of the connection: its open interval. */
void series_write(FILE *file, const struct connection *connection);

#endif
