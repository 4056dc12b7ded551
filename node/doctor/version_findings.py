"""Finds nodes that share no API versions with this client or differ from each other, and old clients."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.node.doctor.finding import Finding, note, problem

Range = tuple[int, int]


class VersionFacts(NamedTuple):
    """The versions of each API (by its name) that an address serves."""

    address: str
    versions: Mapping[str, Range]


class ClientFacts(NamedTuple):
    """The name and version of a client's software, and the API version of a request that a node rejected.

    librdkafka and the Java client ask for ApiVersions first, so only clients that do not, or are too old or
    too new, send requests in a version that the node does not serve.
    """

    node_id: int
    software: str
    refused: str | None


# The APIs that every client needs.
NEEDED: Final = ("Metadata", "Produce", "Fetch", "ListOffsets", "FindCoordinator")


def of_versions(nodes: Iterable[VersionFacts], ours: Mapping[str, Range]) -> Iterator[Finding]:
    """Yield the APIs in which a node and this client share no version, and nodes that differ in versions."""
    nodes = list(nodes)
    for one in nodes:
        for api in NEEDED:
            theirs = one.versions.get(api)
            if theirs is None:
                yield problem(
                    "version", f"{one.address} does not support {api}: it is not a broker for clients."
                )
            elif not _overlap(theirs, ours[api]):
                yield problem(
                    "version",
                    f"{one.address} supports {api} versions {theirs[0]} to {theirs[1]}, but this "
                    f"client {ours[api][0]} to {ours[api][1]}: upgrade "
                    f"{_older(theirs, ours[api])}.",
                )
    served: dict[tuple[tuple[str, Range], ...], list[str]] = defaultdict(list)
    for one in nodes:
        served[tuple(sorted(one.versions.items()))].append(one.address)
    if len(served) > 1:
        parts = " and ".join(", ".join(addresses) for addresses in served.values())
        yield note(
            "version",
            f"The nodes support different API versions ({parts}): an upgrade is under way, or "
            "was not completed.",
        )


def of_clients(clients: Iterable[ClientFacts]) -> Iterator[Finding]:
    """Yield a problem for each kind of client whose request a node could not answer."""
    for one in sorted(clients, key=lambda one: (one.node_id, one.software)):
        if one.refused is not None:
            yield problem(
                "version",
                f"A client ({one.software}) asked node {one.node_id} for {one.refused}, which it "
                "does not support: upgrade the client.",
            )


def _overlap(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _older(theirs: Range, ours: Range) -> str:
    return "the node" if theirs[1] < ours[0] else "this client"
