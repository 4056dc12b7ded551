"""Consumer groups with random members, crashes, topics, expressions and leaders: what must always hold.

The model is a dict: who was told to own which partition, from the answer that told it until the member
reported it gone or was out. No partition is owned twice. Now and then the log is replayed, whole and with
only the last record of each key, and gives the same group. In the end, when nobody disturbs them, all members
come to rest and share all partitions.
"""

from random import Random

import pytest

from groupcoord.consumer_group import ConsumerGroup, ConsumerGroupState
from groupcoord.consumer_results import ConsumerGroupHeartbeatResult
from groupcoord.coordinator_config import CoordinatorConfig
from groupcoord.effects import Refuse
from groupcoord.record_codec import GroupRecord, encode_key
from groupcoord.shard import Shard
from logstore.errors import ErrorCode
from tests.unit.groupcoord.consumer_world import REBALANCE_MS, ConsumerWorld, owned_of, topic_id

STEPS = 120
LEFT = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}


class Member:
    """A real consumer: what it owns it keeps until it has reported it gone or knows that it is out."""

    def __init__(self, member_id: str, instance: str | None) -> None:
        self.member_id = member_id
        self.instance = instance
        self.epoch = 0
        self.subscription: dict[str, object] = {"names": ["a"]}
        self.owned: set[tuple[str, int]] = set()
        self.is_subscription_new = True


class Run:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        interval_ms = self.random.choice([0, 0, 1_000])
        self.world = ConsumerWorld(CoordinatorConfig(group_consumer_assignment_interval_ms=interval_ms))
        self.members: dict[str, Member] = {}
        self.away: list[str] = []  # instances whose member left for a while
        self.count = 0

    def step(self) -> None:
        random = self.random
        match random.choices(
            ["beat", "join", "leave", "away", "crash", "subscribe", "topics", "time", "restart"],
            [60, 10, 4, 3, 2, 6, 4, 8, 3],
        )[0]:
            case "join" if len(self.members) < 6:
                self.add()
            case "leave" if self.members:
                self.remove(self.any(), -1)
            case "away" if any(member.instance for member in self.members.values()):
                statics = sorted(one.member_id for one in self.members.values() if one.instance)
                self.remove(self.members[random.choice(statics)], -2)
            case "crash" if self.members:
                member = self.any()
                if member.instance is None:
                    del self.members[member.member_id]
            case "subscribe" if self.members:
                member = self.any()
                member.subscription = random.choice(
                    [
                        {"names": ["a"], "regex": ""},
                        {"names": ["a", "b"], "regex": ""},
                        {"names": [], "regex": "[ab]"},
                        {"names": ["b"], "regex": "a.*"},
                    ]
                )
                member.is_subscription_new = True
            case "topics":
                count = random.randint(3, 6)
                self.world.set_topics(
                    random.choice([{"a": count, "b": 2}, {"a": count}, {"a": count, "b": 2, "ab": 3}])
                )
            case "time":
                self.world.groups.advance(random.choice([100, 1_000, 5_000, 12_000]))
            case "restart":
                self.world.restart()
            case _ if self.members:
                self.beat(self.any(), loses=random.random() < 0.15)
            case _:
                self.add()
        self.check()

    def any(self) -> Member:
        return self.members[self.random.choice(sorted(self.members))]

    def add(self) -> None:
        self.count += 1
        instance = None
        if self.random.random() < 0.3:
            instance = self.away.pop() if self.away else f"i{self.count}"
        member = Member(f"m{self.count}", instance)
        self.members[member.member_id] = member
        self.beat(member)

    def remove(self, member: Member, epoch: int) -> None:
        self.world.beat(member.member_id, epoch, instance=member.instance)
        del self.members[member.member_id]
        if epoch == -2 and member.instance is not None:
            self.away.append(member.instance)

    def beat(self, member: Member, *, loses: bool = False) -> None:
        """One heartbeat; the answer may be lost, as may be what it says of its partitions."""
        how: dict[str, object] = {"instance": member.instance}
        if member.epoch == 0:
            how |= {"owned": {}, "rebalance_ms": REBALANCE_MS, **member.subscription}
        else:
            if self.random.random() < 0.8:
                owned: dict[str, list[int]] = {}
                for name, partition in sorted(member.owned):
                    owned.setdefault(name, []).append(partition)
                how["owned"] = owned
            if member.is_subscription_new:
                how |= member.subscription
        answer = self.world.beat(member.member_id, member.epoch, **how)  # type: ignore[arg-type]
        if loses:
            return
        member.is_subscription_new = False
        if isinstance(answer, Refuse):
            if answer.error is ErrorCode.UNRELEASED_INSTANCE_ID:
                del self.members[member.member_id]
                return
            assert answer.error in LEFT, answer
            member.epoch, member.owned = 0, set()
            return
        self.hear(member, answer)

    def hear(self, member: Member, answer: ConsumerGroupHeartbeatResult) -> None:
        member.epoch = answer.member_epoch
        told = owned_of(answer)
        if told is not None:
            member.owned = {(name, partition) for name, numbers in told.items() for partition in numbers}

    def check(self) -> None:
        """What members own, that are members still, nobody else has been told to own."""
        group = self.world.groups.coordinator.shard.consumer_group("g")
        if group is None:
            return
        owners: dict[tuple[str, int], str] = {}
        for member in self.members.values():
            known = group.members.get(member.member_id)
            if known is None or member.epoch not in (known.member_epoch, known.previous_member_epoch):
                continue  # it is out, and hears so at its next heartbeat
            for owned in member.owned:
                assert owners.setdefault(owned, member.member_id) == member.member_id, owned

    def check_replay(self) -> None:
        log = self.world.groups.log
        live = self.world.groups.coordinator.shard.consumer_group("g")
        cut = self.random.randint(0, len(log))
        for records in (log, compacted(log), [*compacted(log[:cut]), *log[cut:]]):
            assert same(replayed(records), live)

    def settle(self) -> None:
        self.world.set_topics({"a": 5, "b": 2})
        for _ in range(40):
            self.world.groups.advance(4_000)
            for member in list(self.members.values()):
                self.beat(member)
        group = self.world.groups.coordinator.shard.consumer_group("g")
        if group is None or not self.members:
            return
        assert set(group.members) == set(self.members)
        assert group.state is ConsumerGroupState.STABLE
        for topic, count in self.world.topics.items():
            owned = [number for one in self.members.values() for name, number in one.owned if name == topic]
            readers = [one for one in group.members.values() if topic in group.topics_of(one)]
            assert sorted(owned) == (list(range(count)) if readers else [])
            assert {
                number for one in group.members.values() for number in one.assigned.get(topic_id(topic), ())
            } == set(owned)


def compacted(log: list[GroupRecord]) -> list[GroupRecord]:
    """The last record of each key, in the order of the log; no tombstones, as after their retention."""
    last = {encode_key(record): index for index, record in enumerate(log)}
    return [log[index] for index in sorted(last.values()) if log[index].value is not None]


def replayed(records: list[GroupRecord]) -> ConsumerGroup | None:
    shard = Shard(CoordinatorConfig(), lambda: "")
    for record in records:
        shard.replay(record)
    shard.check_invariants()
    return shard.consumer_group("g")


def same(one: ConsumerGroup | None, other: ConsumerGroup | None) -> bool:
    if one is None or other is None:
        return (one is None or one.is_empty) and (other is None or other.is_empty)
    return (
        one.members == other.members
        and one.targets == other.targets
        and one.regexes == other.regexes
        and one.static_members == other.static_members
        and (one.group_epoch, one.metadata_hash) == (other.group_epoch, other.metadata_hash)
        and (one.assignment_epoch, one.assignment_timestamp_ms)
        == (other.assignment_epoch, other.assignment_timestamp_ms)
    )


@pytest.mark.parametrize("seed", range(24))
def test_no_partition_has_two_owners_and_the_log_tells_it_all(seed: int) -> None:
    run = Run(seed)

    for step in range(STEPS):
        run.step()
        if step % 20 == 19:
            run.check_replay()
    run.settle()

    run.check_replay()
