"""What the doctor finds: how bad it is, what it is about, and one sentence that says what to do."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

_NAMED: Final = 5  # of a sentence


class Severity(Enum):
    """PROBLEM is what does not work, or soon will not; NOTE is what may be meant so."""

    PROBLEM = "problem"
    NOTE = "note"


class Finding(NamedTuple):
    """`subject` is one of listener, address, broker, quorum, partition, disk, log, clock, version, limit,
    setting, certificate, file, access and share group.
    """

    severity: Severity
    subject: str
    sentence: str


def by_severity(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings with all problems before the notes, in the order in which they were found."""
    return sorted(found, key=lambda one: one.severity is not Severity.PROBLEM)


def as_record(one: Finding) -> dict[str, str]:
    """Return a finding as the command line and the REST API tell it."""
    return {"severity": one.severity.value, "subject": one.subject, "message": one.sentence}


def named(what: Sequence[object], *, total: int | None = None, separator: str = ", ") -> str:
    """The first of them, and how many more there are of `total`, which is all that are given."""
    first = what[:_NAMED]
    more = (len(what) if total is None else total) - len(first)
    return separator.join(map(str, first)) + (f" and {more} more" if more > 0 else "")


def problem(subject: str, sentence: str) -> Finding:
    return Finding(Severity.PROBLEM, subject, sentence)


def note(subject: str, sentence: str) -> Finding:
    return Finding(Severity.NOTE, subject, sentence)
