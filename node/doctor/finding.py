"""What the doctor finds: how bad it is, what it is about, and one sentence that says what to do."""

from enum import Enum
from typing import NamedTuple


class Severity(Enum):
    """PROBLEM is what does not work, or soon will not; NOTE is what may be meant so."""

    PROBLEM = "problem"
    NOTE = "note"


class Finding(NamedTuple):
    """`subject` is one of listener, address, broker, quorum, partition, disk, log, clock, version, limit and
    setting.
    """

    severity: Severity
    subject: str
    sentence: str


def problem(subject: str, sentence: str) -> Finding:
    return Finding(Severity.PROBLEM, subject, sentence)


def note(subject: str, sentence: str) -> Finding:
    return Finding(Severity.NOTE, subject, sentence)
