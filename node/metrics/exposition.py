"""The text of a scrape, in the format that was asked for, kept for a second.

Several who scrape at once, or a dashboard that is impatient, cost one scrape. Samples are written some at
a time, with a turn of the loop between, so that other requests to the REST API, and the node's own loop,
which shares the interpreter, are not held up.
"""

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from node.clock import monotonic_s
from node.metrics.collector import NodeCollector

if TYPE_CHECKING:
    from node.rest_api.node_facts import NodeFacts

KEPT_S: Final = 1.0
# Some 5 us each.
SAMPLES_AT_ONCE: Final = 200
_HEAD: Final = re.compile(rb"(#[^\n]*\n)*")
_END: Final = b"# EOF\n"


class Exposition(NamedTuple):
    """What a scrape is answered."""

    content: bytes
    content_type: str


class _One(Collector):
    """A family as the library's encoders take it (they ask for a registry)."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Sequence[Metric]:
        return (self._metric,)


def pieces_of(family: Metric) -> Iterator[Metric]:
    """The family, of which so many samples at most are encoded at once; the rest as families of their own."""
    samples = family.samples
    family.samples = samples[:SAMPLES_AT_ONCE]
    yield family
    for first in range(SAMPLES_AT_ONCE, len(samples), SAMPLES_AT_ONCE):
        more = Metric(family.name, family.documentation, family.type)
        more.samples = samples[first : first + SAMPLES_AT_ONCE]
        yield more
    family.samples = samples


def without_head(text: bytes, is_first: bool) -> bytes:
    """What the family is stands before its first samples only."""
    if is_first:
        return text
    return text[_HEAD.match(text).end() :]  # type: ignore[union-attr]  # there is always one


class Scraper:
    """Scrapes one node, in the thread of the REST API."""

    def __init__(self, facts: "NodeFacts") -> None:
        self._collector = NodeCollector(facts)
        self._lock = asyncio.Lock()
        self._made_s = -KEPT_S
        self._families: list[Metric] = []
        self._texts: dict[str, Exposition] = {}

    async def scrape(self, accept: str) -> Exposition:
        """The newest scrape, in the format that the Accept header asks for."""
        async with self._lock:
            if monotonic_s() - self._made_s >= KEPT_S:
                self._families, self._texts = await self._collector.collect(), {}
                self._made_s = monotonic_s()
            encode, content_type = choose_encoder(accept)
            found = self._texts.get(content_type)
            if found is None:
                pieces: list[bytes] = []
                for family in self._families:
                    for piece in pieces_of(family):
                        pieces.append(without_head(encode(_One(piece)).removesuffix(_END), piece is family))
                        await asyncio.sleep(0)
                if "openmetrics" in content_type:
                    pieces.append(_END)
                found = self._texts[content_type] = Exposition(b"".join(pieces), content_type)
            return found
