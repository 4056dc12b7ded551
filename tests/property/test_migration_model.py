"""A group that random members of both protocols join and leave: upgraded, downgraded, and upgraded again.

The model is the set of partitions that each member believes to own; no partition may have two owners. The log
is replayed with its first part compacted, for a part of any length, alternately with and without tombstones:
the group is always the same. In the end, undisturbed, the members share all partitions.
"""

from collections.abc import Iterator
from random import Random
from typing import TypeAlias

import pytest

from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.coordinator_config import CoordinatorConfig, MigrationPolicy
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetToCommit
from ottla.groupcoord.record_codec import GroupRecord, encode_key
from ottla.groupcoord.shard import Group, GroupShard
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld
from tests.unit.groupcoord.consumer.migration_world import ClassicClient, ConsumerClient

STEPS = 150
MAX_MEMBERS = 4
AnyClient: TypeAlias = ClassicClient | ConsumerClient


class Run:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        policy = self.random.choices(list(MigrationPolicy)[:3], [4, 1, 1])[0]
        self.world = ConsumerWorld(
            CoordinatorConfig(
                group_consumer_assignment_interval_ms=self.random.choice([0, 1_000]),
                group_initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
                group_consumer_migration_policy=policy,
            )
        )
        self.clients: dict[str, AnyClient] = {}
        self.count = 0
        self.kinds: list[type[Group]] = []

    def step(self) -> None:
        random = self.random
        match random.choices(
            ["step", "join", "leave", "crash", "replace", "topics", "time", "restart", "commit"],
            [60, 8, 6, 1, 3, 1, 12, 1, 2],
        )[0]:
            case "join" if len(self.clients) < MAX_MEMBERS:
                self.add(f"i{self.count}" if random.random() < 0.3 else None)
            case "leave" if self.clients:
                client = self.some_client()
                if isinstance(client, ConsumerClient) or client.member_id:
                    client.leave()
                    del self.clients[client.name]
            case "crash" if self.clients:
                del self.clients[self.some_client().name]
            case "replace" if any(client.instance for client in self.clients.values()):
                statics = sorted(name for name, client in self.clients.items() if client.instance)
                old = self.clients.pop(random.choice(statics))
                if isinstance(old, ConsumerClient):
                    self.world.heartbeat(old.member_id, -2, instance=old.instance)
                self.add(old.instance)
            case "topics":
                self.world.set_topics({"a": random.randint(3, 6), "b": 2})
            case "time":
                self.world.groups.advance(random.choice([10, 500, 1_500, 3_000]))
            case "restart":
                self.world.restart()
            case "commit":
                self.commit()
            case _ if self.clients:
                self.some_client().step()
            case _:
                self.add(None)
        self.check()

    def some_client(self) -> AnyClient:
        return self.clients[self.random.choice(sorted(self.clients))]

    def add(self, instance: str | None) -> None:
        self.count += 1
        name = f"m{self.count}"
        topics = self.random.choice([("a",), ("a",), ("a", "b")])
        client: AnyClient
        if self.random.random() < 0.5:
            client = ConsumerClient(self.world, name, *topics, instance=instance)
        else:
            is_cooperative = self.random.random() < 0.5
            client = ClassicClient(
                self.world, name, *topics, instance=instance, is_cooperative=is_cooperative
            )
        self.clients[name] = client
        client.step()

    def commit(self) -> None:
        """Commit offsets without a membership, which is allowed while the group is empty."""
        token = self.world.groups.token()
        offsets = [OffsetToCommit("a", self.random.randint(0, 2), self.count)]
        self.world.groups.handle(
            OffsetCommit(token=token, group_id="g", generation_id=-1, member_id="", offsets=offsets)
        )

    def group(self) -> Group | None:
        return self.world.groups.coordinator.shard.group("g")

    def check(self) -> None:
        """Assert that no partition has two owners."""
        group = self.group()
        if group is None:
            return
        if not self.kinds or self.kinds[-1] is not type(group):
            self.kinds.append(type(group))
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients.values():
            if client.member_id not in group.members:
                continue  # it was removed, and its next response will say so
            for topic, numbers in client.owned.items():
                for number in numbers:
                    other = owners.setdefault((topic, number), client.name)
                    assert other == client.name, (topic, number, other, client.name)

    def settle(self) -> None:
        self.world.set_topics({"a": 5, "b": 2})
        for turn in range(60):
            self.world.groups.advance(1_100)
            for client in list(self.clients.values()):
                if turn < 20 and isinstance(client, ClassicClient) and client.is_member:
                    client.join()  # leaders look for new partitions by joining; here all members do
                else:
                    client.step()
            self.check()
        group = self.group()
        readers, rejected = [], []
        for client in self.clients.values():
            is_in = group is not None and client.member_id in group.members
            (readers if is_in else rejected).append(client)
        policy = self.world.groups.config.group_consumer_migration_policy
        may_be_rejected = isinstance(group, ClassicGroup) and not policy.allows_upgrade
        assert all(may_be_rejected and isinstance(client, ConsumerClient) for client in rejected)
        for topic, count in self.world.topics.items():
            owned = [number for client in readers for number in client.owned.get(topic, ())]
            is_read = any(topic in client.topics for client in readers)
            assert sorted(owned) == (list(range(count)) if is_read else []), topic

    def check_replay(self) -> None:
        log = self.world.groups.log
        whole = durable(replayed(log))
        live = self.group()
        if isinstance(live, ConsumerGroup):
            assert durable(live) == whole
        for cut in range(len(log) + 1):
            with_tombstones = (cut + self.seed) % 2 == 0
            first = compacted(log[:cut], with_tombstones=with_tombstones)
            assert durable(replayed([*first, *log[cut:]])) == whole, (cut, with_tombstones)


def compacted(log: list[GroupRecord], *, with_tombstones: bool = False) -> Iterator[GroupRecord]:
    """Yield the last record of each key, in the order of the log, as compaction leaves them."""
    last = {encode_key(record): index for index, record in enumerate(log)}
    for index in sorted(last.values()):
        if with_tombstones or log[index].value is not None:
            yield log[index]


def replayed(records: list[GroupRecord]) -> Group | None:
    shard = GroupShard(CoordinatorConfig(), lambda: "")
    for record in records:
        shard.replay(record)
    shard.check_invariants()
    return shard.group("g")


def durable(group: Group | None) -> object:
    """Return the state of a group that its records determine; one without members counts as none."""
    match group:
        case None:
            return None
        case _ if group.is_empty:
            return None
        case ClassicGroup():
            return to_record(group, {one.member_id: one.assignment for one in group.members.values()}, 0)
        case ConsumerGroup():
            return (
                group.members,
                group.targets,
                group.static_members,
                group.group_epoch,
                group.assignment_epoch,
                group.assignment_timestamp_ms,
                group.metadata_hash,
            )


def test_the_walks_upgrade_and_downgrade_groups() -> None:
    both = {(ClassicGroup, ConsumerGroup), (ConsumerGroup, ClassicGroup)}

    def ways(seed: int) -> set[tuple[type[Group], type[Group]]]:
        run = Run(seed)
        for _ in range(STEPS):
            run.step()
        return {(one, other) for one, other in zip(run.kinds, run.kinds[1:], strict=False)}

    assert any(ways(seed) == both for seed in range(12))


@pytest.mark.parametrize("seed", range(16))
def test_members_of_both_protocols_share_and_the_log_restores_the_group(seed: int) -> None:
    run = Run(seed)

    for _ in range(STEPS):
        run.step()
    run.check_replay()
    run.settle()
