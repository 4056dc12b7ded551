"""Compressions that a node cannot open: their packages are not installed."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ottla.node.doctor.finding import Finding, named, note, problem


class MissingCodec(NamedTuple):
    """A compression that a node lacks, and the settings that ask for it: `compression.type of orders`."""

    node: str  # as it begins a sentence
    codec: str
    needed_by: Sequence[str]


def of_codecs(facts: Iterable[MissingCodec]) -> Iterator[Finding]:
    """A problem where a setting asks for the codec; else a note, for only clients may send it."""
    for one in facts:
        begin = f"{one.node} has no package for {one.codec}"
        remedy = "install ottla[compression] there and start it again."
        if one.needed_by:
            yield problem(
                "setting", f"{begin}, which {named(one.needed_by)} asks for: what is written fails; {remedy}"
            )
        else:
            yield note(
                "setting",
                f"{begin}: it stores what clients send so, and cannot open it for a compacted topic, a time"
                f" or the REST API; {remedy}",
            )
