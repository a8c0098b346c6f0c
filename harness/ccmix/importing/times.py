"""Reads times as other tools write them, and estimates the nominal duration of tests.

The nominal duration and interval are those that a user gave to a tool; measured ones are close.
"""

import datetime
import email.utils
import math
import re
import statistics
from collections.abc import Iterable, Sequence

from ccmix.importing.values import within

MOST_CLOCK_S = 4e9  # since 1970: to 2096
LEAST_CLOCK_S = 1e8  # in 1973: earlier times are counted from another moment
LEAST_INTERVAL_S = 1e-3  # of the patched iperf3
GRID_S = 0.01  # usual intervals are multiples of it
LATE_S = 2e-3  # by which timers of iperf3 and of a loop that calls ss are early or late
LATE_END_S = 0.1  # by which a test ends late, while its last data is on the path
LATE_END_FRACTION = 0.05
HALF_A_SAMPLE = 0.5  # how late samples may be in all, in intervals, to keep the nominal interval

# Lines with the time that loops write before each output of ss:
# # 1628535057.690097                     seconds since 1970
# ==== Time 12.5 ====                     seconds since any moment
# time:1628535057690097000                nanoseconds since 1970; by its digits also ms and us
# 2021-08-09T20:50:57.690097+02:00        RFC 3339
# Mon Aug  9 20:50:57 CEST 2021           date(1), of any English locale
# Aug  9 20:50:57.690097                  ts(1) and syslog, without a year
# 20:50:57                                a time of the day
MOST_LINE_BYTES = 100
_MARKS = r"[#=*\- \t]{0,20}"
_WORD = r"(?:[Tt][Ii][Mm][Ee](?:[Ss][Tt][Aa][Mm][Pp])?|[Dd][Aa][Tt][Ee])[ \t]{0,4}[:=]?[ \t]{0,4}"
_ISO = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt _][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"[ \t]{0,2}(?:[Zz]|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})?"
)
_DATE = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ \t]{1,2}[A-Za-z0-9,: \t+-]{15,45}"
_CLOCK = r"(?:[A-Z][a-z]{2} {1,2}[0-9]{1,2} )?[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
# A bare number needs the digits of a clock; after a word any number will do
TIME_LINE = (
    rf"^{_MARKS}(?:(?:{_WORD})?({_ISO}|{_DATE}|{_CLOCK}|[0-9]{{9,19}}(?:\.[0-9]{{1,9}})?)"
    rf"|{_WORD}([0-9]{{1,19}}(?:\.[0-9]{{1,9}})?))[ \t]{{0,4}}[#=*-]{{0,20}}[ \t\r]{{0,4}}$"
)
_UNITS = {13: 10**3, 16: 10**6, 19: 10**9}  # digits of ms, us and ns since 1970, from 2001 to 2286
# Hours before UTC, for zones with one meaning that email.utils doesn't know
_ZONES = {
    "CET": 1,
    "CEST": 2,
    "WET": 0,
    "WEST": 1,
    "EET": 2,
    "EEST": 3,
    "MSK": 3,
    "JST": 9,
    "NZST": 12,
    "NZDT": 13,
}


def time_line_s(text: str) -> float | None:
    """Returns the seconds in a line with the time that matched TIME_LINE; None if it is not a
    possible time, such as a 30th of February.
    """
    text = text.strip()
    if unit := _UNITS.get(len(text)) if text.isdecimal() else None:
        second, fraction = divmod(int(text), unit)  # a float has no nanoseconds since 1970
        return within(second + fraction / unit, MOST_CLOCK_S)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return within(float(text), MOST_CLOCK_S)
    if re.fullmatch(_CLOCK, text):
        return _clock_s(text)
    return iso_s(text) if text[0].isdigit() else date_s(text)


def _clock_s(text: str) -> float | None:
    """Returns seconds from a time without a year, 'Aug  9 20:50:57.69', or without a date: since
    1970, as if it was in 1972 or on the first day. So it is before LEAST_CLOCK_S.
    """
    whole, _, fraction = text.replace(",", ".").partition(".")
    second = date_s(f"{whole} 1972") if whole[0].isalpha() else iso_s(f"1970-01-01 {whole:0>8}")
    return None if second is None else second + float(f"0.{fraction or 0}")


def iso_s(text: str) -> float | None:
    """Returns seconds since 1970 from ISO 8601 (UTC if it has no zone); None for other text."""
    plain = re.sub(r"[ \t]*(?:UTC|GMT)$", "Z", text.upper())
    try:
        moment = datetime.datetime.fromisoformat(re.sub(r"[ \t]+(?=[Z+-])", "", plain))
        return _since_1970(moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC))
    except (ValueError, OverflowError):
        return None


def date_s(text: str) -> float | None:
    """Returns seconds since 1970 from the output of date(1) and similar forms: 'Mon Aug  9 18:50:57
    UTC 2021', 'Mon 09 Aug 2021 06:50:57 PM CEST' and 'Mon, 9 Aug 2021 18:50:57 +0200'; None for
    other text.

    A zone with several meanings, or none, counts as UTC.
    """
    plain = re.sub(r"(\d\d?)(:\d\d:\d\d) ([AP])M", lambda half: f"{_hour(half)}{half[2]}", text)
    plain = re.sub(rf"\b(?:{'|'.join(_ZONES)})\b", lambda zone: f"{_ZONES[zone[0]]:+03}00", plain)
    try:
        parts = email.utils.parsedate_tz(plain)
        if not parts or str(parts[0]) not in text:  # years have four digits
            return None
        zone = datetime.timezone(datetime.timedelta(seconds=parts[9] or 0))
        return _since_1970(datetime.datetime(*parts[:6], tzinfo=zone))
    except (ValueError, OverflowError, IndexError):
        return None


def _hour(half: "re.Match[str]") -> int:
    """Returns the hour of the day from a time with AM or PM: group 1 has the hour, group 3
    A or P.
    """
    return int(half[1]) % 12 + (12 if half[3] == "P" else 0)


def _since_1970(moment: datetime.datetime) -> float | None:
    """Returns the time in seconds since 1970; None if it is before 1970 or after 2096."""
    return within(moment.timestamp(), MOST_CLOCK_S)


def interval_s(lengths_s: Sequence[float]) -> float:
    """Returns the interval that a user asked for, from the measured lengths of intervals in
    seconds: the multiple of 10 ms closest to their median, if within 2 ms of it; otherwise the
    median.

    Returns 0 without any interval.
    """
    if not lengths_s:
        return 0.0
    median_s = statistics.median(lengths_s)
    nominal_s = round(median_s / GRID_S) * GRID_S
    is_near = nominal_s > 0 and abs(median_s - nominal_s) <= LATE_S
    return max(round(nominal_s if is_near else median_s, 3), LEAST_INTERVAL_S)


def sampling_interval_s(lengths_s: Sequence[float]) -> float:
    """Returns the interval of a loop that calls ss and then sleeps, from the measured times between
    samples in seconds.

    It is interval_s(), the interval that the user asked for. But with it, sample n should be at n
    times the interval, and the loop is a little late each time. If it is late by more than half an
    interval in all, returns the median instead.
    """
    nominal_s = interval_s(lengths_s)
    if not nominal_s:
        return 0.0
    median_s = statistics.median(lengths_s)
    samples_late = abs(median_s - nominal_s) / nominal_s * len(lengths_s)
    return max(median_s, LEAST_INTERVAL_S) if samples_late > HALF_A_SAMPLE else nominal_s


def duration_s(measured_s: float) -> float:
    """Returns the duration that a user asked for, from the measured one: whole seconds, because
    iperf3 takes only these and ends a little late. Otherwise returns the measured one.
    """
    nominal_s = float(math.floor(measured_s + LATE_S))
    late_s = measured_s - nominal_s
    is_near = nominal_s > 0 and late_s <= min(LATE_END_S, LATE_END_FRACTION * nominal_s)
    return nominal_s if is_near else measured_s


def omit_s(stated_s: float | None, omitted_ends_s: Iterable[float]) -> float:
    """Returns the omitted time: as the test states it, otherwise until the last omitted interval
    ends.
    """
    return stated_s or duration_s(max(omitted_ends_s, default=0.0))


def sampled_duration_s(measured_s: float, between_samples_s: float) -> float:
    """Returns the duration in whole seconds that a test was asked for, if the samples of its
    sockets leave only one possibility; otherwise the measured one.

    `measured_s` is the time from the first to the last sample. The test began less than a sample
    before the first, and ended less than a sample after the last.
    """
    nominal_s = float(math.ceil(measured_s - LATE_S))
    beyond_s = 2 * between_samples_s
    return nominal_s if nominal_s - measured_s <= beyond_s < 1 else measured_s
