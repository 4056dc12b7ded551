"""The health that a node reports while it is cut off from the metadata quorum."""

from ottla.node.client.cluster_health import assess
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker


def test_old_metadata_are_never_healthy() -> None:
    brokers = [DescribeClusterBroker(broker_id=one, host="h", port=1) for one in range(3)]

    healthy, old = assess(0, brokers, [], {}), assess(-1, brokers, [], {}, cut_off_since_ms=0)

    assert healthy.is_healthy and healthy.reason is None
    assert not old.is_healthy
    assert old.reason is not None and "cut off from the metadata quorum since 1970-01-01" in old.reason
