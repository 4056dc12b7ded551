"""Parses times and durations as people write them into milliseconds, and prints times."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# As java.time.Duration: days are 24 hours, every part may have a sign, and so may the whole.
_DURATION = re.compile(
    r"(?P<sign>[-+]?)P(?:(?P<days>[-+]?[0-9]{1,12})D)?"
    r"(?P<time>T(?:(?P<hours>[-+]?[0-9]{1,12})H)?(?:(?P<minutes>[-+]?[0-9]{1,12})M)?"
    r"(?:(?P<seconds>[-+]?[0-9]{1,12})(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_moment(text: str) -> int:
    """Parse `2026-01-31T12:00:00Z` into ms since 1970, as UTC if it names no zone. ValueError with a
    sentence.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a date; write it like 2026-01-31T12:00:00Z") from None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Parse `P1DT2H30M5.5S` into ms, as Apache Kafka's tools do; ValueError with a sentence."""
    match = _DURATION.fullmatch(text)
    parts = match.group("days", "hours", "minutes", "seconds") if match is not None else ()
    is_time_empty = match is not None and match["time"] is not None and not any(parts[1:])
    if match is None or not any(parts) or is_time_empty:
        raise ValueError(f"{text!r} is not a duration; write it like P1DT2H30M5S or PT15M")
    days, hours, minutes, seconds = (int(part or 0) for part in parts)
    nanos = int((match["fraction"] or "").ljust(9, "0"))
    if (match["seconds"] or "").startswith("-"):
        nanos = -nanos
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    total = whole * 10**9 + nanos
    return (-total if match["sign"] == "-" else total) // 10**6


def moment_text(moment_ms: int) -> str:
    """Format a time as `2026-01-31T12:00:00.000Z`, or as a number if it is beyond the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=moment_ms)
    except OverflowError:
        return f"{moment_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
