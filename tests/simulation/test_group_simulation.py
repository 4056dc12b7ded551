"""Several clients of a classic group on a virtual clock, with crashes, lost answers and restarts.

Checked at every step: the core's invariants; no request is answered twice; all members of a generation
receive the same protocol and leader; and a member receives the assignment that a leader made for it. Checked
at the end: no request waits for ever, the group becomes stable when its clients behave, and replaying the log
restores the same group.
"""

import random
from dataclasses import dataclass, field

import pytest

from ottla.groupcoord.classic.classic_group_record import to_record
from ottla.groupcoord.classic.group_state import GroupState
from ottla.groupcoord.classic.member_commands import Heartbeat, MemberIdentity
from ottla.groupcoord.classic.member_results import HeartbeatResult, JoinGroupResult, SyncGroupResult
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Refuse
from ottla.groupcoord.offsets.offset_commands import OffsetCommit, OffsetFetch, OffsetToCommit
from ottla.groupcoord.offsets.offset_results import OffsetFetchResult
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld

SESSION_MS = 10_000
REBALANCE_MS = 20_000
INSTANCES = ("i0", "i1", "i2")
LOST_MEMBER_ID = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}


def identity_of(member_id: str) -> str:
    """Return the instance id of a static member, which may get another member id, or else the member id."""
    instance, _, _ = member_id.partition("-")
    return instance if instance in INSTANCES else member_id


@dataclass
class Client:
    """A consumer that joins, syncs, sends heartbeats, and starts over when it must, as real consumers do."""

    instance: str | None
    protocols: list[tuple[str, bytes]]
    needs_member_id: bool
    member_id: str = ""
    generation_id: int = -1
    join_token: int | None = None
    sync_token: int | None = None
    heartbeat_token: int | None = None
    hold_ms: int = 0  # for which its heartbeats may wait
    assignment: bytes | None = None
    alive: bool = True

    def reset(self, *, keep_id: bool) -> None:
        self.generation_id, self.assignment, self.heartbeat_token = -1, None, None
        if not keep_id:
            self.member_id = ""

    def step(self, world: GroupWorld, seen: "Seen") -> None:
        if self.join_token is not None:
            self._read_join_response(world, seen)
        elif self.sync_token is not None:
            self._read_sync_response(world, seen)
        elif self.generation_id < 0:
            self.join_token = world.join(
                self.member_id,
                instance=self.instance,
                protocols=self.protocols,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
                member_id_required=self.needs_member_id,
            )
        else:
            self._heartbeat(world)

    def _heartbeat(self, world: GroupWorld) -> None:
        if self.heartbeat_token is None:
            self.heartbeat_token = world.token()
            world.handle(
                Heartbeat(
                    token=self.heartbeat_token,
                    group_id="g",
                    generation_id=self.generation_id,
                    member_id=self.member_id,
                    group_instance_id=self.instance,
                    hold_ms=self.hold_ms,
                )
            )
        answer = world.answers.get(self.heartbeat_token)
        if answer is None:
            return  # the heartbeat is held until there is news
        assert isinstance(answer, Refuse | HeartbeatResult)
        self.heartbeat_token = None
        if answer.error is not ErrorCode.NONE:
            self.reset(keep_id=answer.error is ErrorCode.REBALANCE_IN_PROGRESS)

    def _read_join_response(self, world: GroupWorld, seen: "Seen") -> None:
        answer = world.answers.get(self.join_token or 0)
        if answer is None:
            return
        self.join_token = None
        if isinstance(answer, Refuse):
            self.reset(keep_id=True)
            return
        assert isinstance(answer, JoinGroupResult)
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return
        if answer.error is not ErrorCode.NONE:
            self.reset(keep_id=answer.error not in LOST_MEMBER_ID)
            return
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        seen.generation(answer)
        assignments = []
        if answer.leader == self.member_id and not answer.skip_assignment:
            assignments = [
                (member.member_id, f"{self.generation_id}:{member.member_id}".encode())
                for member in answer.members
            ]
        self.sync_token = world.sync(self.member_id, self.generation_id, assignments, instance=self.instance)

    def _read_sync_response(self, world: GroupWorld, seen: "Seen") -> None:
        answer = world.answers.get(self.sync_token or 0)
        if answer is None:
            return
        self.sync_token = None
        if isinstance(answer, Refuse) or answer.error is not ErrorCode.NONE:  # type: ignore[union-attr]
            self.reset(keep_id=isinstance(answer, Refuse) or answer.error not in LOST_MEMBER_ID)  # type: ignore[union-attr]
            return
        assert isinstance(answer, SyncGroupResult)
        self.assignment = answer.assignment
        if answer.assignment:
            generation, _, owner = answer.assignment.decode().partition(":")
            assert int(generation) <= self.generation_id
            assert identity_of(owner) == identity_of(self.member_id)


@dataclass
class Seen:
    """The generations that members have joined."""

    generations: dict[int, tuple[str | None, str | None, str]] = field(default_factory=dict)
    restarted: bool = False

    def generation(self, answer: JoinGroupResult) -> None:
        """Check that all members of a generation receive the same protocol and leader."""
        known = (answer.protocol_type, answer.protocol_name, identity_of(answer.leader))
        if not self.restarted:
            # A generation that was not written before a restart may be used again.
            assert self.generations.setdefault(answer.generation_id, known) == known
        assert answer.leader and answer.generation_id >= 0


def run(seed: int) -> None:
    chance = random.Random(seed)
    world = GroupWorld(
        CoordinatorConfig(
            group_initial_rebalance_delay_ms=chance.choice([0, 1_000, 3_000]),
            group_max_size=chance.choice([3, 1_000]),
        )
    )
    seen = Seen()
    protocols = [("range", b"r"), ("sticky", b"s")]
    clients: list[Client] = []
    committed = -1
    for _ in range(400):
        world.advance(chance.choice([0, 10, 300, 1_500, chance.randrange(12_000)]))
        dice = chance.random()
        if dice < 0.04 and len(clients) < 6:
            instance = chance.choice(INSTANCES) if chance.random() < 0.4 else None
            clients.append(Client(instance, chance.sample(protocols, 2), chance.random() < 0.7))
            clients[-1].hold_ms = chance.choice([0, 3_000])
        elif dice < 0.06 and clients:
            clients.pop(chance.randrange(len(clients)))  # killed: it sends nothing more
        elif dice < 0.08 and clients:
            leaver = clients.pop(chance.randrange(len(clients)))
            if leaver.member_id:
                world.leave(MemberIdentity(leaver.member_id, leaver.instance))
        elif dice < 0.09 and clients:
            gone = chance.choice(clients)  # restarted at once; its old requests are lost
            gone.join_token = gone.sync_token = None
            gone.reset(keep_id=False)
        elif dice < 0.10:
            world.restart()
            seen.restarted = True
        elif dice < 0.14 and clients:
            member = chance.choice(clients)
            token = world.token()
            world.handle(
                OffsetCommit(
                    token=token,
                    group_id="g",
                    generation_id=member.generation_id,
                    member_id=member.member_id,
                    offsets=[OffsetToCommit("t", 0, token)],
                )
            )
            if not isinstance(world.answers[token], Refuse):
                committed = token
        elif clients:
            chance.choice(clients).step(world, seen)
        token = world.token()
        fetched = world.ask(OffsetFetch(token=token, group_id="g", topics=[("t", [0])]))
        assert isinstance(fetched, OffsetFetchResult)
        assert fetched.topics[0][1][0].offset == committed, "a committed offset changed without a commit"

    # Then all clients behave. Instance ids must be unique, and the group has room for all.
    world.config = CoordinatorConfig(group_initial_rebalance_delay_ms=1_000)
    world.restart()
    unique = {client.instance or str(number): client for number, client in enumerate(clients)}
    clients = list(unique.values()) or [Client(None, protocols, True)]
    for _ in range(160):
        world.advance(500)
        for client in clients:
            client.step(world, seen)
    assert world.state() is GroupState.STABLE, (seed, world.state())
    assert world.waiting() <= {client.heartbeat_token for client in clients}
    world.advance(3_000)  # the time for which heartbeats may wait
    assert world.waiting() == set()
    live = world.coordinator.shard.groups["g"]
    assert {client.member_id for client in clients} == set(live.members)
    assert all(client.assignment for client in clients)
    before = to_record(live, {m.member_id: m.assignment for m in live.members.values()}, 0)
    world.restart()
    after = world.coordinator.shard.groups["g"]
    assert to_record(after, {m.member_id: m.assignment for m in after.members.values()}, 0) == before
    world.advance(10 * REBALANCE_MS + SESSION_MS)
    assert world.state() is GroupState.EMPTY
    assert world.waiting() == set()


@pytest.mark.parametrize("seed", range(40))
def test_a_group_becomes_stable_whatever_its_clients_did_before(seed: int) -> None:
    run(seed)
