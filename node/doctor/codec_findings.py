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
        begin = f"{one.node} has no package for {one.codec}"
        remedy = f"install {package} there with pip, and start it again."
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
