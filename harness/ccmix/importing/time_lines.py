"""Reads the lines with the time that people's loops write before each output of ss.

# 1628535057.690097                     seconds since 1970
==== Time 12.5 ====                     seconds since any moment
time:1628535057690097000                nanoseconds since 1970; by its digits also ms and us
2021-08-09T20:50:57.690097+02:00        RFC 3339
Mon Aug  9 20:50:57 CEST 2021           date(1), of any English locale
"""

import datetime
import email.utils
import re

from ccmix.importing.numbers import MOST_CLOCK_S, known

MOST_BYTES = 100  # of a line with the time
LEAST_CLOCK_S = 1e8  # in 1973: times before are counted from another moment
_MARKS = r"[#=*\- \t]{0,20}"
_WORD = r"(?:[Tt][Ii][Mm][Ee](?:[Ss][Tt][Aa][Mm][Pp])?|[Dd][Aa][Tt][Ee])[ \t]{0,4}[:=]?[ \t]{0,4}"
_ISO = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt _][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
    r"[ \t]{0,2}(?:[Zz]|UTC|GMT|[+-][0-9]{2}:?[0-9]{2})?"
)
_DATE = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6},?[ \t]{1,2}[A-Za-z0-9,: \t+-]{15,45}"
# A number alone needs the digits of a clock; after a word it may be any
LINE = (
    rf"^{_MARKS}(?:(?:{_WORD})?({_ISO}|{_DATE}|[0-9]{{9,19}}(?:\.[0-9]{{1,9}})?)"
    rf"|{_WORD}([0-9]{{1,19}}(?:\.[0-9]{{1,9}})?))[ \t]{{0,4}}[#=*-]{{0,20}}[ \t\r]{{0,4}}$"
)
_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)")
_UNITS = {13: 10**3, 16: 10**6, 19: 10**9}  # digits of ms, us and ns since 1970, from 2001 to 2286
# Hours before UTC; zones that email.utils doesn't know, of those with one meaning
_ZONES = {"CET": 1, "CEST": 2, "WET": 0, "WEST": 1, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "NZST": 12, "NZDT": 13}


def seconds(text: str) -> float | None:
    """Returns seconds of what LINE found; None if it is no time after all, such as a 30th of February."""
    text = text.strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        if text.isdecimal() and (unit := _UNITS.get(len(text))):
            second, part = divmod(int(text), unit)  # a float has no nanoseconds since 1970
            return known(second + part / unit, MOST_CLOCK_S)
        return known(float(text), MOST_CLOCK_S)
    moment = _of_iso(text) if text[0].isdigit() else _of_date(text)
    return known(moment, MOST_CLOCK_S)


def _of_iso(text: str) -> float | None:
    plain = re.sub(r"(?i)[ \t]*(utc|gmt|z)$", "+00:00", text).replace(",", ".").replace("_", "T")
    plain = re.sub(r"(\.\d{6})\d+", r"\1", re.sub(r"[ \t]+(?=[+-])", "", plain))
    try:
        moment = datetime.datetime.fromisoformat(plain.upper())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _of_date(text: str) -> float | None:
    """Reads 'Mon Aug  9 18:50:57 UTC 2021', 'Mon 09 Aug 2021 06:50:57 PM CEST' and 'Mon, 9 Aug 2021 18:50:57 +0200'.

    A zone with several meanings, or none, counts as UTC.
    """
    clock = _CLOCK.search(text)
    year = re.search(r"(?<![+\-:\d])(\d{4})(?![:\d])", text)
    day = re.search(r"(?<![\d:+-])(\d{1,2})(?![\d:])", text)
    month = re.search(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)", text[3:])
    if not (clock and year and day and month):
        return None
    hour = int(clock["hour"])
    if half := re.search(r"\b([AP])M\b", text):
        hour = hour % 12 + (12 if half[1] == "P" else 0)
    zone = re.search(r"[+-]\d{4}\b|\b[A-Z]{1,5}\b(?<!AM)(?<!PM)", text[clock.end() :])
    try:
        date = f"{day[1]} {month[1]} {year[1]} {hour}:{clock['minute']}:{clock['second']}"
        moment = datetime.datetime.strptime(f"{date} +0000", "%d %b %Y %H:%M:%S %z")
        return moment.timestamp() - _offset_s(zone[0] if zone else "UTC")
    except (ValueError, OverflowError):
        return None


def _offset_s(zone: str) -> float:
    """Returns how many seconds a zone is before UTC; 0 for one with several meanings. Raises ValueError."""
    if zone[0] in "+-":
        offset = datetime.datetime.strptime(zone, "%z").utcoffset()
        return offset.total_seconds() if offset else 0.0
    known_by_mail = email.utils.parsedate_tz(f"1 Jan 2000 00:00:00 {zone}")
    of_mail_s = float(known_by_mail[9] or 0) if known_by_mail else 0.0
    return _ZONES[zone] * 3600.0 if zone in _ZONES else of_mail_s
