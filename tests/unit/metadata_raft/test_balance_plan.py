"""Plans that give all brokers equal shares, checked on small clusters and on random ones."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.metadata_raft.balance_plan import (
    FILL_SLACK,
    BalancePlan,
    BrokerRoom,
    Goal,
    PlacedPartition,
    plan_balance,
)

GB = 10**9
MB = 10**6
ROUNDS = 8  # goals that depend on each other may need several


def rooms(*racks: str | None, used_gb: Sequence[int] | None = None) -> list[BrokerRoom]:
    used = used_gb or [10] * len(racks)
    return [BrokerRoom(number, rack, 100 * GB, used[number] * GB) for number, rack in enumerate(racks)]


def placed(*replicas: tuple[int, ...], gb: float = 0.0, bytes_in: float = 0.0) -> list[PlacedPartition]:
    return [
        PlacedPartition(TopicPartition("t", index), one, int(gb * GB), bytes_in)
        for index, one in enumerate(replicas)
    ]


def after(plan: BalancePlan, partitions: Sequence[PlacedPartition]) -> list[tuple[int, ...]]:
    moved = {move.topic_partition: move.after for move in plan.moves}
    return [moved.get(one.topic_partition, one.replicas) for one in partitions]


def carried_out(
    plan: BalancePlan, brokers: Sequence[BrokerRoom], partitions: Sequence[PlacedPartition]
) -> tuple[list[BrokerRoom], list[PlacedPartition]]:
    """Return the brokers and partitions after a plan was carried out."""
    sizes: Counter[int] = Counter()
    sizes_of = {one.topic_partition: one.size_bytes for one in partitions}
    for move in plan.moves:
        for gone in set(move.before) - set(move.after):
            sizes[gone] -= sizes_of[move.topic_partition]
        for come in set(move.after) - set(move.before):
            sizes[come] += sizes_of[move.topic_partition]
    moved = {move.topic_partition: move.after for move in plan.moves}
    return (
        [one._replace(used_bytes=one.used_bytes + sizes[one.broker_id]) for one in brokers],
        [one._replace(replicas=moved.get(one.topic_partition, one.replicas)) for one in partitions],
    )


def test_an_even_cluster_has_an_empty_plan() -> None:
    partitions = placed(*[((one) % 3, (one + 1) % 3) for one in range(30)], gb=0.1, bytes_in=MB)

    assert plan_balance(rooms(None, None, None), partitions).moves == []


def test_brokers_that_join_get_their_share_with_few_moves() -> None:
    partitions = placed(*[(one % 3, (one + 1) % 3) for one in range(30)], gb=0.1)

    plan = plan_balance(rooms(*[None] * 5), partitions)

    replicas = [share.replicas for share in plan.after.values()]
    assert max(replicas) - min(replicas) <= 1 and sum(replicas) == 60
    moved = [move for move in plan.moves if move.copied_bytes]
    assert plan.copied_bytes == 24 * GB // 10, "what two of five get; nothing moves among the old"
    assert {move.goal for move in moved} == {Goal.REPLICAS}
    assert [share.size_bytes for share in plan.before.values()] == [2 * GB] * 3 + [0, 0]
    assert {share.size_bytes for share in plan.after.values()} == {12 * GB // 10}
    assert plan.least_s(100 * MB) == 12, "two brokers fetch 1.2 GB each, at once"
    leaders = [share.leaders for share in plan.after.values()]
    assert max(leaders) - min(leaders) <= 2


def test_replicas_move_from_the_fullest_disk_to_the_emptiest() -> None:
    partitions = placed(*[(0, 1)] * 6, *[(2, 1)] * 2, gb=10)

    plan = plan_balance(rooms(None, None, None, used_gb=[70, 90, 20]), partitions)

    fills = [share.fill or 0.0 for share in plan.after.values()]
    assert max(fills) - min(fills) <= FILL_SLACK + 0.05
    assert plan.moves and plan.moves[0].goal is Goal.DISKS
    assert plan.copied_bytes == 10 * GB * sum(bool(move.copied_bytes) for move in plan.moves)


def test_replicas_of_a_partition_move_to_racks_that_have_none() -> None:
    partitions = placed((0, 1), (2, 3), (0, 2), gb=0.1)

    plan = plan_balance(rooms("a", "a", "b", "b"), partitions)

    racks = dict(enumerate("aabb"))
    assert all(len({racks[one] for one in replicas}) == 2 for replicas in after(plan, partitions))
    assert {move.goal for move in plan.moves if move.copied_bytes} == {Goal.RACKS}
    assert len(plan.moves) <= 3


def test_moves_for_other_goals_keep_the_racks() -> None:
    racks = ["a", "b", "c", "a"]
    partitions = placed(*[(one % 3, (one + 1) % 3, (one + 2) % 3) for one in range(12)])

    plan = plan_balance(rooms(*racks), partitions)

    assert all(len({racks[one] for one in replicas}) == 3 for replicas in after(plan, partitions))
    assert plan.after[3].replicas == 6, "the share of rack a, which two have now"


def test_brokers_that_join_get_their_share_of_the_bytes_too() -> None:
    """There are many empty partitions beside them, such as those of __consumer_offsets."""
    full = placed(*[(one % 3, (one + 1) % 3) for one in range(24)], gb=0.1)
    empty = [
        one._replace(topic_partition=TopicPartition("empty", one.topic_partition.partition))
        for one in placed(*[(one % 3, (one + 1) % 3) for one in range(51)])
    ]

    plan = plan_balance(rooms(*[None] * 5), [*full, *empty])

    sizes = [share.size_bytes for share in plan.after.values()]
    assert min(sizes) > sum(sizes) / 5 * 0.6 and max(sizes) < sum(sizes) / 5 * 1.4, sizes


def test_partitions_with_a_replica_on_a_broker_that_is_down_stay() -> None:
    partitions = placed(*[(0, 4)] * 6, *[(0, 1)] * 6)

    plan = plan_balance(rooms(*[None] * 4), partitions, leaving=[0])

    assert after(plan, partitions)[:6] == [(0, 4)] * 6
    assert not any(0 in replicas for replicas in after(plan, partitions)[6:])


def test_bytes_that_come_in_are_shared() -> None:
    busy = placed(*[(0,)] * 4, bytes_in=10 * MB)
    quiet = [
        one._replace(topic_partition=TopicPartition("q", one.topic_partition.partition))
        for one in placed(*[(1,)] * 4)
    ]

    plan = plan_balance(rooms(None, None), [*busy, *quiet])

    assert [share.bytes_in for share in plan.after.values()] == [20 * MB, 20 * MB]
    assert [share.replicas for share in plan.after.values()] == [4, 4], "what was reached before stays"


def test_leaders_change_only_by_the_order_of_replicas() -> None:
    partitions = placed(*[(0, 1, 2)] * 9, gb=1)

    plan = plan_balance(rooms(None, None, None), partitions)

    assert [share.leaders for share in plan.after.values()] == [3, 3, 3]
    assert plan.copied_bytes == 0 and len(plan.moves) == 6
    assert all(sorted(move.before) == sorted(move.after) for move in plan.moves)


def test_a_broker_that_is_not_to_lead_leads_only_partitions_without_another_replica() -> None:
    partitions = placed(*[(one % 3, (one + 1) % 3) for one in range(12)], (2,), gb=0.1)

    plan = plan_balance(rooms(*[None] * 3), partitions, not_leading=[2])

    assert plan.before[2].leaders == 5 and plan.after[2].leaders == 1, "one partition has no other replica"
    assert plan.after[2].replicas == plan.before[2].replicas and plan.copied_bytes == 0
    assert abs(plan.after[0].leaders - plan.after[1].leaders) <= 1


def test_a_leaving_broker_is_empty_afterwards() -> None:
    partitions = placed(*[(one % 4, (one + 1) % 4) for one in range(20)], gb=0.1)

    plan = plan_balance(rooms(*[None] * 4), partitions, leaving=[3])

    assert plan.after[3].replicas == plan.after[3].leaders == 0
    assert all(3 not in replicas for replicas in after(plan, partitions))


def test_replicas_without_another_place_stay_on_a_leaving_broker() -> None:
    plan = plan_balance(rooms(None, None), placed((0, 1)), leaving=[1])

    assert plan.moves == []


def test_a_plan_has_no_more_moves_than_asked_for() -> None:
    partitions = placed(*[(0,)] * 50)

    assert len(plan_balance(rooms(None, None), partitions, max_moves=7).moves) == 7


def test_replicas_on_brokers_that_are_down_stay() -> None:
    partitions = placed(*[(0, 9)] * 10)

    plan = plan_balance(rooms(None, None), partitions)

    assert all(9 in replicas for replicas in after(plan, partitions))


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6),
    st.data(),
)
def test_any_plan_keeps_partitions_whole_and_soon_there_are_no_moves_left(
    racks: list[str], data: st.DataObject
) -> None:
    ids = range(len(racks))
    brokers = rooms(*racks, used_gb=[data.draw(st.integers(20, 60)) for _ in ids])
    partitions = [
        PlacedPartition(
            TopicPartition("t", index),
            tuple(data.draw(st.permutations(ids))[: data.draw(st.integers(1, len(racks)))]),
            data.draw(st.integers(0, 3)) * GB // 10,
            data.draw(st.sampled_from([0.0, 1e3, 5e6])),
        )
        for index in range(data.draw(st.integers(0, 20)))
    ]

    pinned: set[TopicPartition] = set()

    for _ in range(ROUNDS):
        plan = plan_balance(brokers, partitions, pinned=pinned)
        assert pinned.isdisjoint(move.topic_partition for move in plan.moves)
        pinned |= {move.topic_partition for move in plan.moves}
        for move in plan.moves:
            assert len(set(move.after)) == len(move.after) == len(move.before)
            assert set(move.after) <= set(ids)
            assert len({racks[one] for one in move.after}) >= len({racks[one] for one in move.before})
        brokers, partitions = carried_out(plan, brokers, partitions)
    assert plan.moves == []
