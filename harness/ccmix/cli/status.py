"""Defines the exit statuses of `ccmix`."""

GOOD = 0  # all runs are valid
BAD = 1  # a run failed or was not valid, or something broke
WRONG_INPUT = 2  # wrong usage or input; nothing was started
INTERRUPTED = 130
