// SPDX-License-Identifier: Apache-2.0
#include "option_table.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "duration.h"
#include "fail.h"
#include "memory.h"

#define HELP_COLUMN 32		/* where the explanations begin */
#define LINE_COLUMNS 100
#define FIRST_VALUE 256		/* getopt's value of the first row; letters are smaller */

static const struct option_row help_row = { 'h', "help", NULL, NULL, "print this text", NULL, 0, 0, 0 };

void option_refuse(const struct option_row *option, const char *value, const char *expected)
{
	fail(STATUS_USAGE, "--%s=%s: give %s; see --help", option->name, value, expected);
}

static void *place_of(const struct option_row *option, void *options)
{
	return (char *)options + option->place;
}

void option_flag(const struct option_row *option, const char *value, void *options)
{
	(void)value;
	*(bool *)place_of(option, options) = true;
}

void option_text(const struct option_row *option, const char *value, void *options)
{
	*(const char **)place_of(option, options) = value;
}

void option_output(const struct option_row *option, const char *value, void *options)
{
	*(const char **)place_of(option, options) = value ? value : "-";
}

static bool is_within(const struct option_row *option, double number)
{
	return number >= option->least && number <= option->most;
}

/* Writes the range of a number or a time, as in "10ms to 1d". */
static void format_range(const struct option_row *option, char *text, size_t room)
{
	char least[32], most[32];

	if (option->parse == option_time) {
		duration_write(option->least, least, sizeof(least));
		duration_write(option->most, most, sizeof(most));
		snprintf(text, room, "%s to %s", least, most);
	} else {
		snprintf(text, room, "%.9g to %.9g", option->least, option->most);
	}
}

static _Noreturn void refuse_range(const struct option_row *option, const char *value)
{
	bool time = option->parse == option_time;
	char range[80], expected[128];

	format_range(option, range, sizeof(range));
	snprintf(expected, sizeof(expected), "a %s from %s%s", time ? "time" : "number", range,
		 time ? ", such as 500ms or 90s" : "");
	option_refuse(option, value, expected);
}

void option_number(const struct option_row *option, const char *value, void *options)
{
	char *end;
	double number = strtod(value, &end);

	if (end == value || *end || !is_within(option, number))
		refuse_range(option, value);
	*(double *)place_of(option, options) = number;
}

void option_count(const struct option_row *option, const char *value, void *options)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(value, &end, 10);
	if (errno || end == value || *end || !is_within(option, (double)number))
		refuse_range(option, value);
	*(int64_t *)place_of(option, options) = number;
}

void option_port(const struct option_row *option, const char *value, void *options)
{
	struct option_row ports = *option;
	int64_t port;

	ports.place = 0;
	ports.least = 1;
	ports.most = UINT16_MAX;
	option_count(&ports, value, &port);
	*(uint16_t *)place_of(option, options) = (uint16_t)port;
}

void option_time(const struct option_row *option, const char *value, void *options)
{
	double seconds = duration_s(value);

	if (!is_within(option, seconds))
		refuse_range(option, value);
	*(int64_t *)place_of(option, options) = (int64_t)llround(seconds * 1e6) * 1000;
}

/* Writes words in lines that begin at HELP_COLUMN; returns the column after the last one. */
static int write_words(const char *text, int column)
{
	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column > HELP_COLUMN && column + 1 + length > LINE_COLUMNS) {
			putchar('\n');
			column = 0;
		}
		if (column < HELP_COLUMN)
			column += printf("%*s", HELP_COLUMN - column, "");
		else if (column > HELP_COLUMN)
			column += printf(" ");
		column += printf("%.*s", length, text);
		text += length + (text[length] == ' ');
	}
	return column;
}

static void write_row(const struct option_row *row)
{
	char range[80], note[96];
	int column;

	if (!row->name) {
		printf("\n%s\n", row->help);
		return;
	}
	column = row->letter ? printf("  -%c, --%s", row->letter, row->name) : printf("      --%s", row->name);
	column += printf("%s", row->argument ? row->argument : "");
	if (column >= HELP_COLUMN) {
		putchar('\n');
		column = 0;
	}
	column = write_words(row->help, column);
	if (row->most > 0) {
		format_range(row, range, sizeof(range));
		snprintf(note, sizeof(note), "(%s)", range);
		column = write_words(note, column);
	}
	if (row->preset) {
		snprintf(note, sizeof(note), "[default: %s]", row->preset);
		write_words(note, column);
	}
	putchar('\n');
}

static _Noreturn void write_help(const struct option_table *table)
{
	printf("Usage: %s %s\n\n%s", program_invocation_short_name, table->usage, table->about);
	if (table->rows[0].name)
		putchar('\n');
	for (size_t i = 0; i < table->count; i++)
		write_row(&table->rows[i]);
	write_row(&help_row);
	if (table->notes)
		printf("\n%s", table->notes);
	exit(STATUS_GOOD);
}

/* getopt_long()'s own tables, made of the rows; the row of value FIRST_VALUE + i is rows[i]. */
struct getopt_tables {
	struct option *names;
	char *letters;
};

static void add_option(struct getopt_tables *tables, size_t number, const struct option_row *row, int value)
{
	const char *argument = row->argument;
	int kind = !argument ? no_argument : argument[0] == '[' ? optional_argument : required_argument;
	size_t used = strlen(tables->letters);

	tables->names[number] = (struct option){ row->name, kind, NULL, value };
	if (row->letter) {
		tables->letters[used++] = (char)row->letter;
		memset(tables->letters + used, ':', (size_t)kind); /* as many colons as getopt(3) asks for */
	}
}

static struct getopt_tables make_getopt_tables(const struct option_table *table)
{
	struct getopt_tables tables = {
		.names = create(table->count + 2, sizeof(*tables.names)),
		.letters = create(3 * table->count + 3, 1),
	};
	size_t used = 0;

	tables.letters[0] = ':'; /* errors are reported here, not by getopt */
	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].name)
			add_option(&tables, used++, &table->rows[i], FIRST_VALUE + (int)i);
	}
	add_option(&tables, used, &help_row, help_row.letter);
	return tables;
}

/* Returns the row of a value of getopt's, which is a letter's or a row's number; NULL if there is none. */
static const struct option_row *find_row(const struct option_table *table, int value)
{
	if (value == help_row.letter)
		return &help_row;
	if (value >= FIRST_VALUE)
		return &table->rows[value - FIRST_VALUE];
	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].letter == value)
			return &table->rows[i];
	}
	return NULL;
}

/* Reports what getopt could not read. */
static _Noreturn void refuse_option(const struct option_table *table, const char *argument)
{
	const struct option_row *row = optopt ? find_row(table, optopt) : NULL;

	if (row)
		fail(STATUS_USAGE, "--%s takes no value; see --help", row->name);
	if (optopt)
		fail(STATUS_USAGE, "there is no option -%c; see --help", optopt);
	fail(STATUS_USAGE, "there is no option %s; see --help", argument);
}

static const char *check_operand(const struct option_table *table, int count, char **arguments)
{
	if (!table->operand && optind < count)
		fail(STATUS_USAGE, "%s is not an option; see --help", arguments[optind]);
	if (table->operand && optind + 1 != count)
		fail(STATUS_USAGE, "give %s; see --help", table->operand);
	return arguments[optind];
}

const char *options_parse(const struct option_table *table, int count, char **arguments, void *options)
{
	struct getopt_tables tables = make_getopt_tables(table);
	int value;

	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].preset)
			table->rows[i].parse(&table->rows[i], table->rows[i].preset, options);
	}
	opterr = 0;
	while ((value = getopt_long(count, arguments, tables.letters, tables.names, NULL)) != -1) {
		const struct option_row *row;

		if (value == '?')
			refuse_option(table, arguments[optind - 1]);
		row = find_row(table, value == ':' ? optopt : value);
		if (value == ':')
			fail(STATUS_USAGE, "--%s needs a value; see --help", row->name);
		if (row == &help_row)
			write_help(table);
		row->parse(row, optarg, options);
	}
	free(tables.names);
	free(tables.letters);
	return check_operand(table, count, arguments);
}
