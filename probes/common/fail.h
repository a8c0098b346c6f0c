/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMON_FAIL_H
#define COMMON_FAIL_H

/* One line on standard error, after the program's name; what does not print is shown as '?'. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* complain(), and the end. */
__attribute__((format(printf, 2, 3))) _Noreturn void fail(int status, const char *format, ...);

#endif
