"""How much of one kind of work the REST API has, and what it has refused."""

from collections.abc import Mapping
from typing import NamedTuple


class RestWork(NamedTuple):
    """The numbers of one kind of work: requests, pages of records, live tails or logins."""

    kind: str
    running: int
    waiting: int
    rejected: Mapping[str, int]  # by reason
