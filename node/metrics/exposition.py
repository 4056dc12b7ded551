"""Writes the text of a scrape in the requested format, and keeps it for a second.

Several scrapers at once, or a dashboard that refreshes often, cost one scrape. Lines are written in small
groups with pauses in between, which do not hold up other requests to the REST API, nor the node's loop, which
shares the interpreter.
"""

import asyncio
from itertools import islice
from typing import Final, NamedTuple

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE_OPENMETRICS

from ottla.node.clock import monotonic_s
from ottla.node.metrics.collector import NodeCollector
from ottla.node.metrics.family import Family, gauge, labels, with_fewer_buckets
from ottla.node.metrics.pace import Pace
from ottla.node.node_facts import NodeFacts

KEPT_S: Final = 1.0
LINES_AT_ONCE: Final = 64  # some 50 us
# Reserved for the first lines of each family, so that the metrics of the node itself are there no matter how
# many groups there are. There are fewer than 500 families.
ALWAYS_BYTES_OF_FAMILY: Final = 4_096
ALWAYS_BYTES: Final = 500 * ALWAYS_BYTES_OF_FAMILY
OPENMETRICS: Final = "application/openmetrics-text"
_END: Final = b"# EOF\n"


class Exposition(NamedTuple):
    """The response to a scrape."""

    content: bytes
    content_type: str


class Written(NamedTuple):
    """A family with its samples, which are the same in both formats."""

    family: Family
    samples: bytes


class Kept(NamedTuple):
    """A scrape, and the time when it was made."""

    families: list[Written]
    made_s: float


class Room:
    """The bytes that one scrape has left, and the number of samples left out for lack of room, by family."""

    def __init__(self, max_bytes: int) -> None:
        self.left_bytes = max_bytes - ALWAYS_BYTES
        self.cut: dict[str, int] = {}


async def write(family: Family, pace: Pace, room: Room) -> Written:
    """Write the lines of a family, with pauses; lines without room are counted instead."""
    pieces: list[bytes] = []
    always_bytes = ALWAYS_BYTES_OF_FAMILY
    cut = 0
    while lines := list(islice(family.lines, LINES_AT_ONCE)):
        # The path of a log directory may have bytes that are not UTF-8.
        piece = "".join(lines).encode(errors="replace")
        if len(piece) <= always_bytes:
            always_bytes -= len(piece)
            pieces.append(piece)
        elif len(piece) <= room.left_bytes:
            room.left_bytes -= len(piece)
            pieces.append(piece)
        else:
            cut += len(lines)
        await pace.pause()
    if cut:
        room.cut[family.name] = cut
    return Written(family, b"".join(pieces))


def cut_family(room: Room) -> Family:
    """Return the family that counts the samples left out for lack of room."""
    return gauge(
        "ottla_scrape_cut_series",
        "Samples left out of this scrape because of ottla.metrics.bytes.max, by metric name.",
        [(labels(name=name), count) for name, count in room.cut.items()],
    )


def exposition(families: list[Written], *, is_openmetrics: bool) -> Exposition:
    """Return the whole text in one of the two formats."""
    pieces = [
        piece
        for family, samples in families
        for piece in (family.head(is_openmetrics=is_openmetrics).encode(), samples)
    ]
    if is_openmetrics:
        return Exposition(b"".join([*pieces, _END]), CONTENT_TYPE_OPENMETRICS)
    return Exposition(b"".join(pieces), CONTENT_TYPE_PLAIN_0_0_4)


def asks_for_openmetrics(accept: str) -> bool:
    """Return True if the Accept header contains OpenMetrics 1, whatever the preferences (q) in it."""
    for one in accept.split(","):
        kind, *parameters = (word.strip() for word in one.split(";"))
        versions = [word for word in parameters if word.startswith("version=")]
        if kind == OPENMETRICS and all(word.startswith("version=1.") for word in versions):
            return True
    return False


class Scraper:
    """The scrapes of one node. Used in the thread of the REST API."""

    def __init__(self, facts: NodeFacts) -> None:
        self._collector = NodeCollector(facts)
        self._lock = asyncio.Lock()
        self._kept: dict[bool, Kept] = {}  # by `shows_all`

    async def scrape(self, accept: str, *, shows_all: bool = False) -> Exposition:
        """Return a scrape at most a second old, in the format that the Accept header requests.

        `shows_all` adds the partitions of internal topics and the finer buckets, as `ottla.metrics.all` does.
        """
        shows_all = shows_all or self._collector.shows_all
        async with self._lock:
            kept = self._kept.get(shows_all)
            if kept is None or monotonic_s() - kept.made_s >= KEPT_S:
                kept = self._kept[shows_all] = Kept(await self._write(shows_all=shows_all), monotonic_s())
                asyncio.get_running_loop().call_later(KEPT_S, self._forget, shows_all, kept)
        return exposition(kept.families, is_openmetrics=asks_for_openmetrics(accept))

    async def _write(self, *, shows_all: bool) -> list[Written]:
        pace, room = Pace(), Room(self._collector.max_bytes)
        families = await self._collector.collect(pace, shows_all=shows_all)
        written = [await write(one if shows_all else with_fewer_buckets(one), pace, room) for one in families]
        return [*written, await write(cut_family(room), pace, room)]

    def _forget(self, shows_all: bool, kept: Kept) -> None:
        """Free a scrape, which may take megabytes, when it is too old to be returned again."""
        if self._kept.get(shows_all) is kept:
            del self._kept[shows_all]
