"""GET /v1/quorum names the voters without a vote."""

import asyncio
from typing import Any, cast

import pytest

from ottla.node.client.quorum_admin import QuorumMember, QuorumView
from ottla.node.rest_api import cluster_state


class NoClient:
    """The context of a request that asks no other node."""

    client = None


def test_voters_without_a_vote_are_returned_as_the_schema_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = QuorumMember(0, True, bytes(range(16)), 7, 1, 1)
    old = leader._replace(node_id=1, is_disk_old=True)
    copied = leader._replace(node_id=2, is_disk_copied=True)

    async def describe(_client: object, *, accepts_old: bool) -> QuorumView:
        assert accepts_old
        return QuorumView(0, 4, 7, [leader, old, copied], {})

    monkeypatch.setattr(cluster_state, "describe_quorum", describe)
    context: Any = NoClient()

    body = asyncio.run(cluster_state.get_quorum(context, cast(Any, None))).body

    voters = cast(Any, body)["voters"]
    assert [one["is_disk_old"] for one in voters] == [False, True, False]
    assert [one["is_disk_copied"] for one in voters] == [False, False, True]
    member = cast(Any, cluster_state.MEMBER)
    assert set(voters[0]) == set(member["properties"])
