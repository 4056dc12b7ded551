"""One kind of work of the REST API: what runs, waits and was rejected."""

from collections.abc import Mapping
from typing import NamedTuple


class RestWork(NamedTuple):
    """The counts of one kind of work: requests, pages of records, live tails or logins."""

    kind: str
    running: int
    waiting: int
    rejected: Mapping[str, int]  # by reason
