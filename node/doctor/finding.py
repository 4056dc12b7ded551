"""A finding of the doctor: its severity, its subject, and a sentence with the problem and its remedy."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

_NAMED: Final = 5  # the names in one sentence


class Severity(Enum):
    """PROBLEM: something does not work, or soon will not. NOTE: something may be intended."""

    PROBLEM = "problem"
    NOTE = "note"


class Finding(NamedTuple):
    """A sentence about a subject.

    The subject is one of listener, address, broker, quorum, partition, disk, log, clock, version, limit,
    setting, certificate, file, access and share group.
    """

    severity: Severity
    subject: str
    sentence: str


def by_severity(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings with all problems before the notes, each in their order."""
    return sorted(found, key=lambda one: one.severity is not Severity.PROBLEM)


def as_record(one: Finding) -> dict[str, str]:
    """Return a finding as the command line and the REST API show it."""
    return {"severity": one.severity.value, "subject": one.subject, "message": one.sentence}


def named(what: Sequence[object], *, total: int | None = None, separator: str = ", ") -> str:
    """Return the first few names, and the number of the others, as text; by default `total` counts `what`."""
    first = what[:_NAMED]
    more = (len(what) if total is None else total) - len(first)
    return separator.join(map(str, first)) + (f" and {more} more" if more > 0 else "")


def problem(subject: str, sentence: str) -> Finding:
    return Finding(Severity.PROBLEM, subject, sentence)


def note(subject: str, sentence: str) -> Finding:
    return Finding(Severity.NOTE, subject, sentence)
