/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAPFLOW_SERIES_H
#define CAPFLOW_SERIES_H

#include <stdio.h>

#include "connection.h"

/* Writes the names of the columns. */
void series_begin(FILE *file);

/* Writes the open interval of a connection, a line for each direction. */
void series_write(FILE *file, const struct connection *connection);

#endif
