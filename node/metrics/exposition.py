"""The text of a scrape, in the format that was asked for, kept for a second.

Several who scrape at once, or a dashboard that is impatient, cost one scrape. Lines are written some at a
time, with a pause between, so that other requests to the REST API, and the node's own loop, which shares
the interpreter, are not held up.
"""

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS

from node.clock import monotonic_s
from node.metrics.collector import NodeCollector
from node.metrics.family import Family
from node.metrics.pace import Pace

if TYPE_CHECKING:
    from node.rest_api.node_facts import NodeFacts

KEPT_S: Final = 1.0
LINES_AT_ONCE: Final = 64  # some 50 us
OPENMETRICS: Final = "application/openmetrics-text"
_END: Final = b"# EOF\n"


class Exposition(NamedTuple):
    """What a scrape is answered."""

    content: bytes
    content_type: str


class Written(NamedTuple):
    """A family with its samples, which are the same in both formats."""

    family: Family
    samples: bytes


async def write(family: Family, pace: Pace) -> Written:
    """Make and write the lines of a family, with pauses."""
    pieces: list[bytes] = []
    while piece := "".join(islice(family.lines, LINES_AT_ONCE)):
        # A path may hold bytes that are no text.
        pieces.append(piece.encode(errors="replace"))
        await pace.pause()
    return Written(family, b"".join(pieces))


def exposition(families: list[Written], *, is_openmetrics: bool) -> Exposition:
    """The whole text, in one of the formats."""
    pieces = [
        piece
        for family, samples in families
        for piece in (family.head(is_openmetrics=is_openmetrics).encode(), samples)
    ]
    if is_openmetrics:
        return Exposition(b"".join([*pieces, _END]), CONTENT_TYPE_OPENMETRICS)
    return Exposition(b"".join(pieces), CONTENT_TYPE_PLAIN_0_0_4)


def asks_for_openmetrics(accept: str) -> bool:
    """Whether the Accept header has OpenMetrics 1; what else it would like better is not looked at."""
    for one in accept.split(","):
        kind, *parameters = (word.strip() for word in one.split(";"))
        versions = [word for word in parameters if word.startswith("version=")]
        if kind == OPENMETRICS and all(word.startswith("version=1.") for word in versions):
            return True
    return False


class Scraper:
    """Scrapes one node, in the thread of the REST API."""

    def __init__(self, facts: "NodeFacts") -> None:
        self._collector = NodeCollector(facts)
        self._lock = asyncio.Lock()
        self._made_s = -KEPT_S
        self._families: list[Written] = []

    async def scrape(self, accept: str) -> Exposition:
        """The newest scrape, in the format that the Accept header asks for."""
        async with self._lock:
            if monotonic_s() - self._made_s >= KEPT_S:
                pace = Pace()
                self._families = [await write(one, pace) for one in await self._collector.collect(pace)]
                self._made_s = monotonic_s()
        return exposition(self._families, is_openmetrics=asks_for_openmetrics(accept))
