"""Compressions that a node cannot open, since their packages were taken out of its installation."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, named, note, problem

PACKAGES: Final = {"snappy": "cramjam"}  # where it is not the name of the codec


class MissingCodec(NamedTuple):
    """A compression that a node lacks, and the settings that ask for it: `compression.type of orders`."""

    node: str  # as it begins a sentence
    codec: str
    needed_by: Sequence[str]


def of_codecs(facts: Iterable[MissingCodec]) -> Iterator[Finding]:
    """A problem where a setting asks for the codec; else a note, for only clients may send it."""
    for one in facts:
        package = PACKAGES.get(one.codec, one.codec)
        begin = f"{one.node} lacks the package for {one.codec}"
        remedy = f"run `pip install {package}` there and restart the node."
        if one.needed_by:
            yield problem("setting", f"{begin}, which {named(one.needed_by)} uses: writes fail; {remedy}")
        else:
            yield note(
                "setting",
                f"{begin}: it stores such batches from clients, but cannot decompress them for "
                f"compaction, lookups by time or the REST API; {remedy}",
            )
