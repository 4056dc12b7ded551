"""Held heartbeats of consumer groups; scenarios of classic groups are in tests/scenario."""

import random
from dataclasses import replace

import pytest

from ottla.groupcoord.classic.member_commands import Heartbeat
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.hold_heartbeat import OTHERS, TOLERANT
from ottla.groupcoord.consumer.member_state import MemberState
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.timer_commands import AnswerHeldHeartbeat, WakeHeldHeartbeats
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.consumer.consumer_world import REBALANCE_MS, ConsumerWorld
from tests.unit.groupcoord.group_world import START_MS, GroupWorld
from tests.unit.groupcoord.topic_ids import partitions_in, topic_id

HOLD_MS = 10_000


class HeldMember:
    """A member whose heartbeats may be held, in a `ConsumerWorld`."""

    def __init__(self, world: ConsumerWorld, member_id: str, *, tolerates_late_answers: bool = True) -> None:
        self.world, self.member_id, self.tolerates_late_answers = world, member_id, tolerates_late_answers
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}
        self.token, self.sent_ms = 0, 0

    def join(self, *names: str) -> ConsumerGroupHeartbeatResult:
        self.send(names=names or ("a",), owned={})
        return self.receive()

    def send(
        self,
        *,
        names: tuple[str, ...] | None = None,
        owned: dict[str, list[int]] | None = None,
        epoch: int | None = None,
    ) -> None:
        self.token, self.sent_ms = self.world.groups.token(), self.world.groups.now_ms
        sent = None if owned is None else [(topic_id(name), list(numbers)) for name, numbers in owned.items()]
        self.world.groups.handle(
            ConsumerGroupHeartbeat(
                token=self.token,
                group_id="g",
                member_id=self.member_id,
                member_epoch=self.epoch if epoch is None else epoch,
                rebalance_timeout_ms=-1 if names is None else REBALANCE_MS,
                subscribed_topic_names=names,
                owned=sent,  # type: ignore[arg-type]
                client_id="c",
                client_host="/127.0.0.1",
                hold_ms=HOLD_MS,
                tolerates_late_answers=self.tolerates_late_answers,
            )
        )

    def step(self) -> None:
        """Go on as a client does after its last answer."""
        if self.waits:
            return
        answer = self.world.groups.answers.get(self.token)
        if isinstance(answer, ConsumerGroupHeartbeatResult):
            self.receive()
        elif isinstance(answer, Refuse) and answer.error is not ErrorCode.NOT_COORDINATOR:
            self.epoch, self.owned = 0, {}
        self.send(names=None if self.epoch else ("a",), owned=self.owned)

    @property
    def waits(self) -> bool:
        return self.token in self.world.groups.waiting()

    def receive(self) -> ConsumerGroupHeartbeatResult:
        answer = self.world.groups.answers[self.token]
        assert isinstance(answer, ConsumerGroupHeartbeatResult), answer
        self.epoch = answer.member_epoch
        owned = partitions_in(answer)
        if owned is not None:
            self.owned = owned
        return answer

    def error(self) -> ErrorCode:
        answer = self.world.groups.answers[self.token]
        assert isinstance(answer, Refuse), answer
        return answer.error


@pytest.fixture
def world() -> ConsumerWorld:
    return ConsumerWorld()


def test_members_learn_of_one_that_joins_and_it_learns_of_partitions_they_give_up(
    world: ConsumerWorld,
) -> None:
    first, second = HeldMember(world, "m1"), HeldMember(world, "m2")
    _begin_the_group(first)
    assert first.waits

    second.join()

    assert not first.waits and first.receive().assignment is not None
    assert second.owned == {}
    second.send()  # the record that the answer arrived at this epoch
    second.send()
    assert second.waits  # for the partitions that the first still has
    first.send(owned=first.owned)
    first.receive()
    assert not second.waits and second.receive().assignment is not None
    assert sorted(first.owned["a"] + second.owned["a"]) == [0, 1, 2, 3]


def test_members_learn_of_one_that_leaves(world: ConsumerWorld) -> None:
    first, second = _two_that_wait(world)

    second.send(epoch=-1)

    assert not first.waits and first.receive().assignment is not None
    assert first.owned == {"a": [0, 1, 2, 3]}


def test_a_member_that_another_connection_removes_is_answered(world: ConsumerWorld) -> None:
    _, second = _two_that_wait(world)

    world.heartbeat("m2", -1)

    assert not second.waits and second.error() is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_held_heartbeat_does_not_prolong_the_session(world: ConsumerWorld) -> None:
    _two_that_wait(world)

    world.groups.advance(44_999)  # both were answered meanwhile, and are silent
    assert len(world.group().members) == 2

    world.groups.advance(1)
    assert not world.group().members


def test_members_learn_of_a_target_that_was_put_off_when_it_is_made() -> None:
    world = ConsumerWorld(CoordinatorConfig(group_consumer_assignment_interval_ms=500))
    first, second = HeldMember(world, "m1"), HeldMember(world, "m2")
    _begin_the_group(first)

    second.join()

    assert first.waits
    world.groups.advance(500)
    assert not first.waits and first.receive().assignment is not None


def test_members_get_the_partitions_of_a_silent_member_when_its_session_ends(world: ConsumerWorld) -> None:
    first, _ = _two_that_wait(world)
    while first.owned != {"a": [0, 1, 2, 3]}:
        world.groups.advance(100)
        if not first.waits:
            first.receive()
            first.send()

    assert world.groups.now_ms - START_MS == 45_000
    assert not world.group().members.keys() & {"m2"}


def test_members_learn_of_a_topic_that_grows(world: ConsumerWorld) -> None:
    first, second = _two_that_wait(world)

    world.set_topics({"a": 6, "b": 2})
    world.groups.advance(0)

    for member in (first, second):
        assert not member.waits
        member.receive()
    assert sorted(first.owned["a"] + second.owned["a"]) == [0, 1, 2, 3, 4, 5]


def test_an_answer_without_news_says_that_nothing_changed(world: ConsumerWorld) -> None:
    first, _ = _two_that_wait(world)
    before = first.epoch

    world.groups.advance(899)
    assert first.waits
    world.groups.advance(1)

    answer = first.receive()
    assert (answer.member_epoch, answer.assignment) == (before, None)


def test_only_the_held_heartbeat_with_the_given_token_is_answered(world: ConsumerWorld) -> None:
    first, second = _two_that_wait(world)

    world.groups.handle(AnswerHeldHeartbeat(group_id="g", member_id="m1", held=first.token + 1_000))
    assert first.waits
    world.groups.handle(AnswerHeldHeartbeat(group_id="g", member_id="m1", held=first.token))

    assert not first.waits and second.waits


def test_a_second_heartbeat_answers_the_first(world: ConsumerWorld) -> None:
    first, _ = _two_that_wait(world)
    before = first.token

    first.send()

    assert first.waits and before not in world.groups.waiting()


def test_a_member_that_must_revoke_never_waits(world: ConsumerWorld) -> None:
    first, second = HeldMember(world, "m1"), HeldMember(world, "m2")
    first.join()
    second.join()
    first.send(owned=first.owned)
    first.receive()
    assert world.group().members["m1"].state is MemberState.UNREVOKED_PARTITIONS

    first.send()

    assert not first.waits


def test_all_held_heartbeats_are_answered_when_the_coordinator_moves(world: ConsumerWorld) -> None:
    first, second = _two_that_wait(world)

    world.restart()

    assert {first.error(), second.error()} == {ErrorCode.NOT_COORDINATOR}


def test_a_patient_client_is_answered_before_its_next_heartbeat_is_due(world: ConsumerWorld) -> None:
    """Java's consumer loops without a pause once the next heartbeat is due and it has nothing else to do."""
    first, _ = _two_that_wait(world)
    for _ in range(5):
        while first.waits:
            world.groups.advance(50)
        waited_ms = world.groups.now_ms - first.sent_ms

        assert waited_ms == TOLERANT.interval_ms * 9 // 10
        assert first.receive().heartbeat_interval_ms == TOLERANT.interval_ms
        first.send()


def test_a_client_that_may_be_impatient_waits_for_half_of_its_interval(
    world: ConsumerWorld,
) -> None:
    first, second = (
        HeldMember(world, "m1", tolerates_late_answers=False),
        HeldMember(world, "m2", tolerates_late_answers=False),
    )
    first.join()
    first.send(owned=first.owned)
    answered_ms = first.receive().heartbeat_interval_ms
    second.join()
    second.send()

    # While it waits for partitions it gets a short interval; it may wait for half of that.
    first.send(owned=first.owned)
    assert second.receive().heartbeat_interval_ms == OTHERS.short_interval_ms
    second.send()
    assert second.waits
    world.groups.advance(OTHERS.short_interval_ms // 2)
    assert not second.waits and second.receive().heartbeat_interval_ms == OTHERS.short_interval_ms
    assert answered_ms == OTHERS.interval_ms


def test_a_patient_client_comes_back_soon_while_it_waits_for_partitions(world: ConsumerWorld) -> None:
    """The others give partitions up within a moment, and each heartbeat may bring the last one."""
    first, second = HeldMember(world, "m1"), HeldMember(world, "m2")
    _begin_the_group(first)
    second.join()
    second.send()

    answered_ms = second.receive().heartbeat_interval_ms
    second.send()
    world.groups.advance(answered_ms)

    assert not second.waits and second.world.groups.now_ms - second.sent_ms == answered_ms
    assert answered_ms == TOLERANT.short_interval_ms <= TOLERANT.interval_ms // 2


def test_the_interval_of_a_member_depends_on_its_client(world: ConsumerWorld) -> None:
    patient = HeldMember(world, "m1").join().heartbeat_interval_ms
    other = HeldMember(world, "m2", tolerates_late_answers=False).join().heartbeat_interval_ms
    raw = world.join("m3", "a").heartbeat_interval_ms

    assert (patient, other, raw) == (TOLERANT.interval_ms, OTHERS.short_interval_ms, 5_000)


def test_many_held_heartbeats_are_answered_in_several_turns(
    world: ConsumerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.groupcoord.wake_heartbeats.MAX_WOKEN", 2)
    members = [HeldMember(world, f"m{number}") for number in range(6)]
    for member in members:
        member.join()
    for _ in range(3):
        for member in members:
            if not member.waits:
                member.send(owned=member.owned)
            if not member.waits:
                member.receive()
    while any(not member.waits for member in members):
        for member in members:
            if not member.waits:
                member.receive()
                member.send(owned=member.owned)

    HeldMember(world, "new").join()

    assert sum(member.waits for member in members) == 4
    world.groups.advance(0)
    assert not any(member.waits for member in members)


def test_a_classic_member_that_counts_from_the_answer_keeps_its_interval() -> None:
    groups = GroupWorld()
    (member_id,) = groups.stable_group(1)
    waited_ms = []
    for _ in range(8):
        token, began_ms = groups.token(), groups.now_ms
        groups.handle(
            Heartbeat(token=token, group_id="g", generation_id=1, member_id=member_id, hold_ms=HOLD_MS)
        )
        while token in groups.waiting():
            groups.advance(50)
        waited_ms.append(groups.now_ms - began_ms)
        groups.advance(1_000)

    assert waited_ms == [0, *[900] * 7]


def test_the_time_of_a_rebalance_is_not_the_interval_of_a_classic_member() -> None:
    groups = GroupWorld(CoordinatorConfig(group_initial_rebalance_delay_ms=0))
    (member_id,) = groups.stable_group(1)
    held = Heartbeat(token=0, group_id="g", generation_id=1, member_id=member_id, hold_ms=HOLD_MS)

    def heartbeat(generation_id: int) -> int:
        token = groups.token()
        groups.handle(replace(held, token=token, generation_id=generation_id))
        return token

    for _ in range(2):
        heartbeat(1)
        groups.advance(1_000)
    groups.join(member_id)  # as the leader, so that the group rebalances
    heartbeat(2)
    groups.advance(5_000)
    groups.sync(member_id, 2, [(member_id, b"")])

    token, began_ms = heartbeat(2), groups.now_ms
    while token in groups.waiting():
        groups.advance(50)

    assert groups.now_ms - began_ms == 900


def test_a_woken_heartbeat_without_news_stays_held_for_its_first_time(
    world: ConsumerWorld,
) -> None:
    first, _ = _two_that_wait(world)
    world.groups.advance(700)

    world.groups.handle(WakeHeldHeartbeats(group_id="g"))
    world.set_topics({"a": 4, "b": 2, "c": 1})  # which no member reads
    world.group().is_metadata_stale = True
    world.groups.handle(WakeHeldHeartbeats(group_id="g"))
    assert first.waits
    world.groups.advance(200)

    assert not first.waits


def test_a_classic_member_waits_for_a_quarter_of_its_session_at_most_and_a_static_one_not_at_all() -> None:
    waited_ms = {}
    for instance in (None, "i"):
        groups = GroupWorld()
        (member_id,) = groups.stable_group(1, instance=instance, session_ms=8_000)
        for _ in range(2):
            groups.advance(4_000)
            token, began_ms = groups.token(), groups.now_ms
            groups.handle(
                Heartbeat(
                    token=token,
                    group_id="g",
                    generation_id=1,
                    member_id=member_id,
                    group_instance_id=instance,
                    hold_ms=HOLD_MS,
                )
            )
        while token in groups.waiting():
            groups.advance(50)
        waited_ms[instance] = groups.now_ms - began_ms

    assert waited_ms == {None: 2_000, "i": 0}


def test_a_classic_member_with_a_held_heartbeat_learns_of_an_upgrade() -> None:
    world = ConsumerWorld()
    groups: GroupWorld = world.groups
    metadata = bytes.fromhex("00000000000100016100000000")  # subscribes to "a"
    token = groups.join(protocols=[("range", metadata)])
    groups.advance(3_001)
    joined = groups.joined(token)
    assignment = bytes.fromhex("000000000001000161000000040000000000000001000000020000000300000000")
    groups.sync(joined.member_id, joined.generation_id, [(joined.member_id, assignment)])
    for _ in range(2):
        held = groups.token()
        groups.handle(
            Heartbeat(
                token=held,
                group_id="g",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                hold_ms=HOLD_MS,
            )
        )
        groups.advance(1_000 if held not in groups.waiting() else 0)
    assert held in groups.waiting()

    HeldMember(world, "m").join()

    answer = groups.answers[held]
    assert getattr(answer, "error", None) is ErrorCode.REBALANCE_IN_PROGRESS, answer


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_no_heartbeat_is_held_for_long_and_members_get_their_shares(seed: int) -> None:
    chance = random.Random(seed)
    world = ConsumerWorld(CoordinatorConfig(group_consumer_assignment_interval_ms=chance.choice([0, 1_000])))
    members: list[HeldMember] = []
    for step in range(80):
        world.groups.advance(chance.choice([0, 10, 300, 2_000]))
        match chance.randrange(12):
            case 0 if len(members) < 5:
                members.append(HeldMember(world, f"m{step}", tolerates_late_answers=chance.random() < 0.5))
            case 1 if members:
                members.pop(chance.randrange(len(members))).send(epoch=-1)
            case 2 if members:
                members.pop(chance.randrange(len(members)))  # it becomes silent
            case 3:
                world.set_topics({"a": chance.randint(4, 8), "b": 2})
            case 4 if chance.random() < 0.3:
                world.restart()
            case 5 if members:
                one = chance.choice(members)
                world.groups.handle(
                    AnswerHeldHeartbeat(group_id="g", member_id=one.member_id, held=one.token)
                )
            case _ if members:
                chance.choice(members).step()
        assert all(world.groups.now_ms - member.sent_ms <= HOLD_MS for member in members if member.waits)

    members.append(HeldMember(world, "last"))
    for _ in range(400):  # longer than a session
        world.groups.advance(150)
        for member in members:
            member.step()

    owned = sorted(partition for member in members for partition in member.owned.get("a", ()))
    assert owned == list(range(world.topics["a"]))
    assert len({member.epoch for member in members}) == 1
    world.restart()
    assert not world.groups.waiting()


def _begin_the_group(member: HeldMember) -> None:
    """Join an empty group and wait; the interval is known from the second heartbeat on."""
    member.join()
    member.send(owned=member.owned)
    member.receive()
    member.send()


def _two_that_wait(world: ConsumerWorld) -> tuple[HeldMember, HeldMember]:
    first, second = HeldMember(world, "m1"), HeldMember(world, "m2")
    first.join()
    second.join()
    for _ in range(3):
        for member in (first, second):
            if not member.waits:
                member.send(owned=member.owned)
            if not member.waits:
                member.receive()
    for member in (first, second):
        if not member.waits:
            member.receive()
            member.send(owned=member.owned)
    assert first.waits and second.waits
    return first, second
