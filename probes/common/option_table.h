/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a probe, one row of a table for each: reading the command line, checking values, and the text of
 * --help all come from the table. A wrong option ends the program with STATUS_USAGE.
 */
#ifndef COMMON_OPTION_TABLE_H
#define COMMON_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct option_row;

/* Reads an option's value (NULL: none was given) into the probe's own struct of options. */
typedef void option_parser(const struct option_row *option, const char *value, void *options);

/* An option; or, if there is no name, a heading in the text of --help. */
struct option_row {
	int letter;			/* 0: it has no short form */
	const char *name;
	const char *argument;		/* "=HZ", or "[=HZ]" if it may be left out; NULL: there is none */
	const char *preset;		/* the value that counts where the option is not given, or NULL */
	const char *help;
	option_parser *parse;
	size_t place;			/* of the value in the probe's struct of options */
	double least, most;		/* of a number or a time */
};

struct option_table {
	const char *usage;		/* what follows the program's name, as in "[OPTION]... FILE" */
	const char *about;		/* lines for the text of --help, before the options */
	const char *notes;		/* and after them; NULL: none */
	const char *operand;		/* what must follow the options, as in "one address"; NULL: nothing may */
	const struct option_row *rows;
	size_t count;
};

/* Reads the command line into `options`, presets first, and returns the operand. Handles -h and --help itself. */
const char *options_parse(const struct option_table *table, int count, char **arguments, void *options);

/* Ends the program: "--NAME=VALUE: give EXPECTED; see --help". */
_Noreturn void option_refuse(const struct option_row *option, const char *value, const char *expected);

/* Parsers for a value of this type at `place`. */
option_parser option_flag;		/* bool: set */
option_parser option_text;		/* const char * */
option_parser option_output;		/* const char *: a file's name, "-" if none was given */
option_parser option_number;		/* double, from least to most */
option_parser option_count;		/* int64_t, from least to most */
option_parser option_port;		/* uint16_t, from 1 to 65535 */
option_parser option_time;		/* int64_t in ns, such as 90s or 100ms, from least to most seconds */

#endif
