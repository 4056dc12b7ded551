"""The error for a request that the current state of the cluster does not allow."""

from collections.abc import Iterable

from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker


class Refused(Exception):
    """Nothing was changed; the text is the whole message. Another state of the cluster would allow it."""

    def __init__(self, sentence: str, *, is_missing: bool = False) -> None:
        """Create it; `is_missing` if something that the request names does not exist."""
        super().__init__(sentence)
        self.is_missing = is_missing


def find_broker(brokers: Iterable[DescribeClusterBroker], broker_id: int) -> DescribeClusterBroker:
    """Return the broker of this id; Refused if there is none."""
    for broker in brokers:
        if broker.broker_id == broker_id:
            return broker
    raise Refused(f"There is no broker {broker_id}; `ottla broker list` shows all.", is_missing=True)
