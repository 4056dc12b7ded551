"""Finds compression codecs that a node lacks, because their packages were removed from its installation."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, named, note, problem

PACKAGES: Final = {"snappy": "cramjam"}  # the packages that have another name than their codec


class MissingCodec(NamedTuple):
    """A codec that a node lacks, and the settings that use it, such as `compression.type of orders`."""

    node: str  # as at the beginning of a sentence
    codec: str
    needed_by: Sequence[str]


def of_codecs(facts: Iterable[MissingCodec]) -> Iterator[Finding]:
    """Yield a problem for a codec that a setting uses, or a note if only clients may use it."""
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
