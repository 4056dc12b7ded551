"""The coordinator against a simple model: random consumers of both protocols, commits and failures.

The model consists of plain dicts. *Owners*: a partition has one owner in a generation of a classic group; in
a consumer group, from the response that assigns it until the member reports its revocation or is removed.
*Offsets*: those last committed, by plain commits or committed transactions; otherwise only expiry changes
them, if no member reads the topic. *The log*: replayed whole, or only with the last record of each key, it
gives the same groups. Appends are committed when the model decides so, and may be lost before.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.groupcoord.admin_commands import DeleteGroups
from ottla.groupcoord.admin_results import DeleteGroupsResult
from ottla.groupcoord.classic.classic_group import ClassicGroup
from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import LeaveGroup, MemberIdentity
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_group_state import ConsumerGroupState
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse, Result
from ottla.groupcoord.offsets.offset_commands import (
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetToCommit,
    Producer,
    TxnOffsetCommit,
)
from ottla.groupcoord.offsets.offset_results import OffsetDeleteResult, OffsetFetchResult
from ottla.groupcoord.shard import GroupShard
from ottla.logstore.words.errors import ErrorCode
from tests.property.group_clients import (
    REBALANCE_MS,
    SESSION_MS,
    ClassicConsumer,
    Consumer,
    ModernConsumer,
    Place,
)
from tests.property.test_migration_model import compacted
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld

# One group of each protocol, and one whose type is that of its first member.
GROUPS = ("classic", "modern", "mixed")
TOPICS = {"a": 3, "b": 2}
PLACES: tuple[Place, ...] = (("a", 0), ("a", 1), ("b", 0))
RETENTION_MS = 120_000
MAX_CONSUMERS = 8
CONSUMER = st.integers(0, MAX_CONSUMERS - 1)
GROUP = st.integers(0, len(GROUPS) - 1)  # one of the groups in this run
PLACE = st.sampled_from(PLACES)
READS = st.sampled_from((("a",), ("a", "b"), ("b",)))


class Joiner(NamedTuple):
    group: int
    is_modern: bool
    instance: str | None
    topics: Sequence[str]
    regex: str | None


JOINER = st.builds(
    Joiner,
    group=GROUP,
    is_modern=st.booleans(),
    instance=st.sampled_from([None, None, "i1", "i2", "i3"]),
    topics=READS,
    regex=st.sampled_from([None, None, "[ab]"]),
)


class Key(NamedTuple):
    group_id: str
    place: Place


@dataclass(slots=True)
class Offset:
    offset: int
    at_ms: int


@dataclass(slots=True)
class Pending:
    """The offsets of an open transaction; None for one that was overwritten or deleted since."""

    offsets: dict[Key, Offset | None]


class Model(RuleBasedStateMachine):
    """The rules are the events of a coordinator; after each of them the dicts must be right."""

    world: ConsumerWorld
    groups: Sequence[str]

    def __init__(self) -> None:
        super().__init__()
        self.consumers: list[Consumer] = []
        self.names = 0
        self.offsets: dict[Key, Offset] = {}
        self.open: dict[int, Pending] = {}
        self.waiting: dict[int, Callable[[Result], None]] = {}  # token -> called with its success
        # Group, the number of times it was created before, generation, place -> owner.
        self.owners: dict[tuple[str, int, int, Place], str] = {}
        self.incarnations: dict[str, int] = dict.fromkeys(GROUPS, 0)
        self.busy_ms: dict[str, int] = {}  # when a group was last seen with members
        self.exists: dict[str, bool] = dict.fromkeys(GROUPS, False)

    @initialize(
        delay_ms=st.sampled_from([0, 1_000]),
        interval_ms=st.sampled_from([0, 1_000]),
        max_size=st.sampled_from([3, 1_000]),
        inline=st.sampled_from([-1, 20_000]),
        holds=st.booleans(),
        groups=st.sampled_from([("classic",), ("modern",), ("mixed",), GROUPS]),
        first=st.lists(JOINER, min_size=1, max_size=5),
    )
    def start(
        self,
        delay_ms: int,
        interval_ms: int,
        max_size: int,
        inline: int,
        holds: bool,
        groups: Sequence[str],
        first: list[Joiner],
    ) -> None:
        self.groups = groups
        config = CoordinatorConfig(
            group_initial_rebalance_delay_ms=delay_ms,
            group_consumer_assignment_interval_ms=interval_ms,
            group_max_size=max_size,
            group_consumer_max_size=max_size,
            offsets_retention_ms=RETENTION_MS,
            offsets_retention_check_interval_ms=10_000,
            group_consumer_session_timeout_ms=SESSION_MS,
            largest_inline_target=inline,
        )
        self.world = ConsumerWorld(config, TOPICS)
        self.world.groups.is_commit_held = holds
        for joiner in first:
            self.arrive(joiner)

    # ---- consumers ---------------------------------------------------------------------------------------

    @rule(joiner=JOINER)
    def arrive(self, joiner: Joiner) -> None:
        if len(self.consumers) == MAX_CONSUMERS:
            return
        self.names += 1
        name, group_id = f"m{self.names}", self.group_of(joiner.group)
        consumer: Consumer
        if group_id == "modern" or (group_id == "mixed" and joiner.is_modern):
            consumer = ModernConsumer(name, group_id, joiner.instance, joiner.topics, regex=joiner.regex)
        else:
            consumer = ClassicConsumer(name, group_id, joiner.instance, joiner.topics)
        self.consumers.append(consumer)
        self.step(consumer)

    @rule(turns=st.lists(CONSUMER, min_size=1, max_size=8))
    def work(self, turns: list[int]) -> None:
        """Let consumers work; this is the most frequent event, so one rule has several steps."""
        for number in turns:
            for consumer in self.pick(number):
                self.step(consumer)

    @rule(rounds=st.integers(1, 4), is_quick=st.booleans())
    def all_work(self, rounds: int, is_quick: bool) -> None:
        for _ in range(rounds):
            for consumer in self.consumers:
                self.step(consumer)
            self.world.groups.advance(1)
            if is_quick:  # the log commits at once
                self.world.groups.commit()

    @rule(
        number=CONSUMER,
        event=st.sampled_from(["loses", "reads", "is slow", "crashes", "leaves", "is away", "comes back"]),
        topics=READS,
    )
    def inject_fault(self, number: int, event: str, topics: Sequence[str]) -> None:
        for consumer in self.pick(number):
            match event:
                case "loses":  # the response
                    self.step(consumer)
                    consumer.lose_answer()
                case "reads":  # other topics
                    consumer.subscribe(topics)
                    self.step(consumer)
                case "is slow":
                    consumer.is_slow = not consumer.is_slow
                case "crashes":
                    self.consumers.remove(consumer)
                case "leaves":
                    self.consumers.remove(consumer)
                    self.leave(consumer, for_a_while=False)
                case _:
                    self.consumers.remove(consumer)
                    self.leave(consumer, for_a_while=True)
                    if event == "comes back":
                        group = self.groups.index(consumer.group_id)
                        is_modern = isinstance(consumer, ModernConsumer)
                        self.arrive(Joiner(group, is_modern, consumer.instance, consumer.topics, None))

    def leave(self, consumer: Consumer, *, for_a_while: bool) -> None:
        group_id = consumer.group_id
        if isinstance(consumer, ModernConsumer):
            self.world.handle(
                ConsumerGroupHeartbeat(
                    token=self.world.groups.token(),
                    group_id=group_id,
                    member_id=consumer.name,
                    member_epoch=-2 if for_a_while and consumer.instance is not None else -1,
                    instance_id=consumer.instance,
                )
            )
        elif not for_a_while:  # a classic member that will return just stops
            gone = [MemberIdentity(consumer.member_id, consumer.instance)]
            self.world.handle(LeaveGroup(token=self.world.groups.token(), group_id=group_id, members=gone))

    def group_of(self, number: int) -> str:
        return self.groups[number % len(self.groups)]

    def pick(self, number: int) -> Iterator[Consumer]:
        """Yield the consumer of that number, if there are any."""
        if self.consumers:
            yield self.consumers[number % len(self.consumers)]

    def step(self, consumer: Consumer) -> None:
        consumer.step(self.world)
        if isinstance(consumer, ModernConsumer) or not consumer.has_new_assignment:
            return
        consumer.has_new_assignment = False
        if self.is_classic(consumer.group_id):
            incarnation = self.incarnations[consumer.group_id]
            for place in consumer.owned:
                key = (consumer.group_id, incarnation, consumer.epoch, place)
                owner = self.owners.setdefault(key, consumer.identity)
                assert owner == consumer.identity, (key, owner, consumer.identity)

    # ---- the world ---------------------------------------------------------------------------------------

    @rule(milliseconds=st.sampled_from([10, 500, 3_000, 8_000, 25_000, 130_000]))
    def time_passes(self, milliseconds: int) -> None:
        """Let time pass; records of what expires are committed before a consumer reads again."""
        if milliseconds > 1_000:
            self.world.groups.commit()
        self.world.groups.advance(milliseconds)
        if milliseconds > 1_000:
            self.world.groups.commit()

    @rule(
        counts=st.sampled_from([{"a": 3, "b": 2}, {"a": 4, "b": 2}, {"a": 3}, {"a": 3, "b": 2, "ab": 1}]),
        is_busy=st.booleans(),
    )
    def topics_change(self, counts: dict[str, int], is_busy: bool) -> None:
        """Change the topics; offsets of deleted topics stay, as the node removes them by another command.

        While the node is busy, tasks for a thread are delayed.
        """
        self.world.set_topics(counts)
        if is_busy:
            self.world.holds_tasks = True
        else:
            self.world.release_tasks()

    @rule(event=st.sampled_from(["commits", "fails", "loses"]))
    def log(self, event: str) -> None:
        match event:
            case "commits":
                self.world.groups.commit()
            case "fails":
                # Another coordinator finds all appended records; requests without a response never get one.
                self.settle_waiting(dict(self.world.groups.held))
                self.world.restart()
            case _:
                self.count_incarnations()
                self.world.restart(loses=True)
                for group_id in GROUPS:  # a group whose creation was lost has never existed
                    self.exists[group_id] = self.has_generations(group_id)

    # ---- offsets -----------------------------------------------------------------------------------------

    @rule(
        number=CONSUMER,
        place=PLACE,
        kind=st.sampled_from(["own", "own", "outside", "other generation", "other generation", "unknown"]),
        ahead=st.sampled_from([-2, -1, 1]),
    )
    def commit(self, number: int, place: Place, kind: str, ahead: int) -> None:
        for consumer in self.pick(number):
            group_id, instance, epoch = consumer.group_id, consumer.instance, consumer.epoch
            known, is_classic = self.epoch_known(consumer), self.is_classic(group_id)
            match kind:
                case "own":
                    self.send_commit(group_id, place, epoch, consumer.member_id, instance)
                case "outside":
                    has_members = self.members_known(group_id)
                    answer = self.send_commit(group_id, place, -1, "", None)
                    assert not has_members or isinstance(answer, Refuse), "there are members"
                case "other generation" if known is not None and epoch + ahead >= 0:
                    # In a consumer group an older epoch is accepted if the member owned the partition then.
                    answer = self.send_commit(group_id, place, epoch + ahead, consumer.member_id, instance)
                    is_older = epoch + ahead < known
                    is_wrong = epoch + ahead != known and (is_classic or not is_older)
                    is_wrong = is_wrong or (is_older and self.is_owned_by_another(consumer, place))
                    assert not is_wrong or isinstance(answer, Refuse), (epoch + ahead, known, answer)
                case "unknown" if known is not None and epoch >= 0:
                    answer = self.send_commit(group_id, place, epoch, "unknown", None)
                    assert isinstance(answer, Refuse), answer
                    for other in self.consumers:
                        if other.group_id == group_id and other.instance not in (instance, None):
                            # Another member's instance, which a consumer group ignores.
                            answer = self.send_commit(
                                group_id, place, epoch, consumer.member_id, other.instance
                            )
                            assert not is_classic or isinstance(answer, Refuse), answer

    def send_commit(
        self, group_id: str, place: Place, epoch: int, member_id: str, instance: str | None
    ) -> Result | Refuse | None:
        token = self.world.groups.token()  # its number is the offset, so that all offsets differ
        now_ms = self.world.groups.now_ms
        self.waiting[token] = lambda answer: self.note_committed(Key(group_id, place), token, now_ms)
        self.world.handle(
            OffsetCommit(
                token=token,
                group_id=group_id,
                generation_id=epoch,
                member_id=member_id,
                group_instance_id=instance,
                offsets=[OffsetToCommit(*place, token)],
            )
        )
        return self.answer_to(token)

    def answer_to(self, token: int) -> Result | Refuse | None:
        return self.world.groups.answers.get(token) or self.world.groups.held.get(token)

    def note_committed(self, key: Key, offset: int, now_ms: int) -> None:
        self.offsets[key] = Offset(offset, now_ms)
        self.overwrite_pending(key, offset)

    def overwrite_pending(self, key: Key, offset: int) -> None:
        """Let the later write win over open transactions; offsets are in the order of writes."""
        for pending in self.open.values():
            one = pending.offsets.get(key)
            if one is not None and one.offset < offset:
                pending.offsets[key] = None

    @rule(
        producer_id=st.integers(1, 2),
        event=st.sampled_from(["writes", "writes", "commits", "aborts"]),
        group=GROUP,
        place=PLACE,
    )
    def transaction(self, producer_id: int, event: str, group: int, place: Place) -> None:
        if event == "writes":
            self.commit_in_transaction(producer_id, self.group_of(group), place)
        else:
            self.end_transaction(producer_id, committed=event == "commits")

    def commit_in_transaction(self, producer_id: int, group_id: str, place: Place) -> None:
        token = self.world.groups.token()
        key, now_ms = Key(group_id, place), self.world.groups.now_ms

        def succeeded(answer: Result) -> None:
            self.open.setdefault(producer_id, Pending({})).offsets[key] = Offset(token, now_ms)

        self.waiting[token] = succeeded
        self.world.handle(
            TxnOffsetCommit(
                token=token,
                group_id=group_id,
                generation_id=-1,
                member_id="",
                offsets=[OffsetToCommit(*place, token)],
                producer=Producer(producer_id, 0),
            )
        )

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        self.world.groups.end_transaction(producer_id, committed=committed)
        self.settle_waiting({})
        pending = self.open.pop(producer_id, Pending({}))
        for key, one in pending.offsets.items():
            if one is not None and committed:
                self.offsets[key] = one
                self.overwrite_pending(key, one.offset)

    @rule(group=GROUP, place=PLACE, is_group=st.booleans())
    def delete(self, group: int, place: Place, is_group: bool) -> None:
        if is_group:
            self.delete_group(self.group_of(group))
        else:
            self.delete_offset(self.group_of(group), place)

    def delete_offset(self, group_id: str, place: Place) -> None:
        token = self.world.groups.token()
        key = Key(group_id, place)

        def succeeded(answer: Result) -> None:
            assert isinstance(answer, OffsetDeleteResult)
            ((_, ((_, error),)),) = answer.topics
            if error is ErrorCode.NONE:
                self.forget(key)

        self.waiting[token] = succeeded
        topic, partition = place
        self.world.handle(OffsetDelete(token=token, group_id=group_id, topics=[(topic, [partition])]))

    def delete_group(self, group_id: str) -> None:
        token = self.world.groups.token()
        has_members = self.members_known(group_id)

        def succeeded(answer: Result) -> None:
            assert isinstance(answer, DeleteGroupsResult)
            ((_, error),) = answer.errors
            assert not (has_members and error is ErrorCode.NONE), "there were members"
            if error is ErrorCode.NONE:
                for key in [*self.offsets, *(key for one in self.open.values() for key in one.offsets)]:
                    if key.group_id == group_id:
                        self.forget(key)

        self.waiting[token] = succeeded
        self.world.handle(DeleteGroups(token=token, group_ids=[group_id]))

    def forget(self, key: Key) -> None:
        self.offsets.pop(key, None)
        for pending in self.open.values():
            if key in pending.offsets:
                pending.offsets[key] = None

    def settle_waiting(self, survive: dict[int, Result]) -> None:
        """Apply, in order, the requests that were answered, or whose appends survive."""
        for token, on_success in sorted(self.waiting.items()):
            answer = survive.get(token) or self.world.groups.answers.get(token)
            if answer is not None:
                del self.waiting[token]
                if not isinstance(answer, Refuse):
                    on_success(answer)

    # ---- the coordinator's state -------------------------------------------------------------------------

    def is_classic(self, group_id: str) -> bool:
        return self.world.groups.coordinator.shard.classic_group(group_id) is not None

    def members_known(self, group_id: str) -> bool:
        group = self.world.groups.coordinator.shard.group(group_id)
        return group is not None and bool(group.members)

    def epoch_known(self, consumer: Consumer) -> int | None:
        """Return the generation or epoch that the coordinator has for a consumer, or None."""
        group = self.world.groups.coordinator.shard.group(consumer.group_id)
        if group is None or consumer.member_id not in group.members:
            return None
        if isinstance(group, ClassicGroup):
            return group.generation_id
        return group.members[consumer.member_id].member_epoch

    # ---- invariants after each step ----------------------------------------------------------------------

    def is_removed_or_fenced(self, consumer: Consumer) -> bool:
        """Return True if a consumer is not a member of its consumer group, or has a fenced epoch."""
        group = self.world.groups.coordinator.shard.consumer_group(consumer.group_id)
        member = None if group is None else group.members.get(consumer.member_id)
        return member is None or consumer.epoch not in (member.member_epoch, member.previous_member_epoch)

    def is_owned_by_another(self, consumer: Consumer, place: Place) -> bool:
        return any(
            place in one.owned and one.group_id == consumer.group_id and not self.is_removed_or_fenced(one)
            for one in self.consumers
            if one is not consumer
        )

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        for consumer in self.consumers:
            if not self.is_removed_or_fenced(consumer):
                for place in consumer.owned:
                    assert not self.is_owned_by_another(consumer, place), (place, consumer)

    @invariant()
    def no_offset_moves_by_itself(self) -> None:
        self.settle_waiting({})
        self.count_incarnations()
        for group_id in GROUPS:
            if self.members_known(group_id):
                self.busy_ms[group_id] = self.world.groups.now_ms
            token = self.world.groups.token()
            self.world.handle(OffsetFetch(token=token, group_id=group_id, topics=None))
            answer = self.world.groups.answers.get(token)
            if answer is None:
                continue  # it waits for appends, which may be lost
            assert isinstance(answer, OffsetFetchResult)
            found = {
                Key(group_id, (topic, one.partition)): one.offset
                for topic, partitions in answer.topics
                for one in partitions
            }
            for key in [key for key in self.offsets if key.group_id == group_id and key not in found]:
                self.check_expired(key)
            wanted = {key: one.offset for key, one in self.offsets.items() if key.group_id == group_id}
            assert found == wanted, (found, wanted)

    def check_expired(self, key: Key) -> None:
        """Assert that an offset could expire: it was old, and no member reads its topic."""
        now_ms = self.world.groups.now_ms
        age_ms = now_ms - self.offsets.pop(key).at_ms
        if key.group_id != "modern":  # the offsets of an empty classic group expire together
            age_ms = max(age_ms, now_ms - self.busy_ms.get(key.group_id, now_ms))
        assert age_ms >= RETENTION_MS, (key, age_ms)
        group = self.world.groups.coordinator.shard.group(key.group_id)
        for consumer in self.consumers:
            if group is None or consumer.member_id not in group.members or consumer.token is not None:
                continue
            is_reported = not isinstance(consumer, ModernConsumer) or not (
                consumer.is_subscription_new or consumer.sends_all_fields
            )
            if is_reported and consumer.epoch >= 0:
                assert key.place[0] not in consumer.topics, (key, consumer)

    def count_incarnations(self) -> None:
        """Count how often each group was created: a new one starts with the first generation."""
        for group_id in GROUPS:
            exists = self.has_generations(group_id)
            if self.exists[group_id] and not exists:
                self.incarnations[group_id] += 1
            self.exists[group_id] = exists

    def has_generations(self, group_id: str) -> bool:
        group = self.world.groups.coordinator.shard.classic_group(group_id)
        return group is not None and (group.generation_id > 0 or group.state is not GroupState.EMPTY)

    # ---- in the end --------------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        self.world.groups.commit()
        self.no_offset_moves_by_itself()
        self.check_replay()
        self.settle()
        self.check_replay()
        self.stop_all()

    def check_replay(self) -> None:
        log = self.world.groups.log
        cut = len(log) // 2
        live = self.world.groups.coordinator.shard
        for records in (log, [*compacted(log)], [*compacted(log[:cut]), *log[cut:]]):
            shard = GroupShard(CoordinatorConfig(), lambda: "")
            if not self.world.groups.producers:  # with transactions only `restart` replays the log
                for record in records:
                    shard.replay(record)
                shard.check_invariants()
                for group_id in GROUPS:
                    group = live.classic_group(group_id)
                    is_settled = group is None or group.state is GroupState.STABLE
                    replayed, known = durable(shard, group_id), durable(live, group_id)
                    assert replayed[0] == known[0]
                    assert not is_settled or replayed == known

    def settle(self) -> None:
        """Let the groups settle undisturbed; assert that all are stable and share their partitions."""
        self.world.groups.is_commit_held = False
        self.world.release_tasks()
        self.world.groups.config = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
        self.world.set_topics(TOPICS)
        self.world.restart()
        self.settle_instances()
        for turn in range(40):
            self.world.groups.advance(1_500)
            self.count_incarnations()
            for consumer in self.consumers:
                if turn == 10:  # the leader of a classic group, now settled, looks at the topics again
                    consumer.subscribe(consumer.topics)
                self.step(consumer)
                self.step(consumer)
        for group_id in GROUPS:
            own = [one for one in self.consumers if one.group_id == group_id]
            group = self.world.groups.coordinator.shard.group(group_id)
            if not own or group is None:
                assert not own
                continue
            assert group.state in (GroupState.STABLE, ConsumerGroupState.STABLE), group.state
            assert set(group.members) == {one.member_id for one in own}
            read = {topic for one in own for topic in one.topics}
            wanted = [(topic, number) for topic in read for number in range(TOPICS[topic])]
            assert sorted(place for one in own for place in one.owned) == sorted(wanted), own

    def stop_all(self) -> None:
        """Stop all consumers; assert that the groups are empty and no request waits for a response."""
        self.world.groups.advance(20 * REBALANCE_MS)
        assert not any(self.members_known(group_id) for group_id in GROUPS)
        assert self.world.groups.waiting() == set()

    def settle_instances(self) -> None:
        """Keep one consumer of each instance."""
        seen: set[tuple[str, str]] = set()
        for consumer in list(self.consumers):
            key = (consumer.group_id, consumer.instance or consumer.name)
            if key in seen:
                self.consumers.remove(consumer)
            seen.add(key)
            consumer.is_slow = False
            consumer.lose_answer()  # it was for the previous coordinator
            consumer.subscribe(consumer.topics)


def durable(shard: GroupShard, group_id: str) -> tuple[object, ...]:
    """Return the state of a group that its records determine; one without members has only offsets."""
    group = shard.group(group_id)
    offsets = {topic: dict(each) for topic, each in shard.offsets.topics_of(group_id).items()}
    if group is None or not group.members:
        return (offsets,)
    if isinstance(group, ConsumerGroup):
        return (
            offsets,
            group.members,
            group.targets,
            group.regexes,
            group.static_members,
            (group.group_epoch, group.metadata_hash, group.assignment_epoch, group.assignment_timestamp_ms),
        )
    return (offsets, to_record(group, {one.member_id: one.assignment for one in group.members.values()}, 0))


Model.TestCase.settings = settings(
    max_examples=settings().max_examples // 2, stateful_step_count=40, derandomize=True, database=None
)
test_the_coordinator_does_as_the_model_says = Model.TestCase
