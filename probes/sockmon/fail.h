/* One place for errors: a line on standard error, and the exit status. */
#ifndef CCMIX_FAIL_H
#define CCMIX_FAIL_H

#define EXIT_RUN 1	/* something failed */
#define EXIT_USAGE 2	/* wrong options: nothing was recorded */

/* A line on standard error, "ccmix-sockmon: ..."; say() goes on, the others end the process. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void fail(int status, const char *format, ...) __attribute__((noreturn, format(printf, 2, 3)));
/* The same with ": " and errno's words at the end. */
void fail_errno(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Memory, or the end. */
void *must_realloc(void *old, unsigned long bytes);

#endif
