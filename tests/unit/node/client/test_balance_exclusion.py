"""The settings of a balance, as a broker that is up returns them."""

import asyncio
from typing import Any

import pytest

from ottla.node.client import balance_exclusion, cluster_admin
from ottla.node.client.refusal import Refused
from ottla.node.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse


def test_a_cluster_whose_brokers_are_all_fenced_has_no_settings_of_a_balance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def describe_cluster(client: Any) -> DescribeClusterResponse:
        brokers = [DescribeClusterBroker(broker_id=1, host="a", port=9092, is_fenced=True)]
        return DescribeClusterResponse(brokers=brokers)

    monkeypatch.setattr(cluster_admin, "describe_cluster", describe_cluster)
    client: Any = None

    with pytest.raises(Refused, match="All brokers are fenced"):
        asyncio.run(balance_exclusion.settings_of_first_broker(client))
