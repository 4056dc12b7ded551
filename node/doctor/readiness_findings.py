"""Finds a node that runs on this machine but is not ready, with the reason that the node gives."""

from collections.abc import Iterator

from ottla.node.doctor.finding import Finding, problem


def of_readiness(node_id: int, sentence: str | None) -> Iterator[Finding]:
    """Yield a problem with the sentence of /readyz; None if the node is ready or does not answer."""
    if sentence is not None:
        yield problem("quorum", f"Node {node_id} is running but not ready: {sentence}")
