"""The sentence about a node that is cut off from the metadata quorum, for health, REST and commands."""

from datetime import UTC, datetime


def moment_as_text(at_ms: int) -> str:
    """Format a time as in RFC 3339, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cut_off_sentence(since_ms: int) -> str:
    """Return the sentence that this node is cut off, since when, and what that means for its answers."""
    return (
        f"This node has been cut off from the metadata quorum since {moment_as_text(since_ms)}: "
        "it hears no leader, so its view of the cluster is as old as that, and the controller is "
        "unknown."
    )
