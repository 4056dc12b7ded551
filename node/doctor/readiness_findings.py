"""A node that runs on this machine and does not serve: what it says that it waits for."""

from collections.abc import Iterator

from ottla.node.doctor.finding import Finding, problem


def of_readiness(node_id: int, told: str | None) -> Iterator[Finding]:
    """The sentence of /readyz; nothing where the node is ready, or nobody could be asked (None)."""
    if told is not None:
        yield problem("quorum", f"Node {node_id} is running but not ready: {told}")
