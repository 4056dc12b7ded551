"""Consumers of the classic protocol that do as their answers say, in groups of either kind.

A `ClassicClient` is a small version of Java's ConsumerCoordinator: it sends one request at a time, and `step`
sends the next one. An eager client gives up all partitions before it joins again, a cooperative one only
those that it is no longer assigned. The leader of a classic group assigns partitions in turn.
"""

from collections.abc import Mapping, Sequence

from ottla.groupcoord.classic.consumer_protocol import (
    OwnedTopic,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from ottla.groupcoord.classic.member_results import JoinGroupResult, SyncGroupResult
from ottla.groupcoord.effects import Refuse
from ottla.logstore.words import schema_compiler
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.consumer.consumer_world import ConsumerWorld
from tests.unit.groupcoord.topic_ids import partitions_in

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscription(
    *topics: str, owned: Mapping[str, Sequence[int]] = {}, version: int = 3, rack: str | None = None
) -> bytes:
    """Return the metadata with which a consumer joins."""
    value = Subscription(
        topics=topics,
        owned_partitions=[OwnedTopic(topic=name, partitions=owned[name]) for name in sorted(owned)],
        rack_id=rack,
    )
    return schema_compiler.encode_versioned(value, version)


def assignment(**partitions: Sequence[int]) -> bytes:
    return encode_assignment(3, sorted(partitions.items()))


def assigned(content: bytes) -> dict[str, list[int]]:
    """Return the partitions in the answer to a sync."""
    return {one.topic: list(one.partitions) for one in decode_assignment(content).assigned_partitions}


class ClassicClient:
    """One consumer. It works on its partitions until it reports that it does not, or is out of the group."""

    def __init__(
        self,
        world: ConsumerWorld,
        name: str,
        *topics: str,
        instance: str | None = None,
        is_cooperative: bool = False,
        protocols: Sequence[str] = ("range",),
    ) -> None:
        self.world = world
        self.name = name
        self.topics = topics or ("a",)
        self.instance = instance
        self.is_cooperative = is_cooperative
        self.protocols = protocols
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}
        self.is_member = False
        self.join_token: int | None = None
        self.sync_token: int | None = None

    # ---- requests ----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Send the next request, or process the answer to the last one."""
        answers = self.world.groups.answers
        if self.join_token is not None:
            if self.join_token in answers:
                self._joined()
        elif self.sync_token is not None:
            if self.sync_token in answers:
                self._synced()
        elif self.is_member:
            self._handle(self.heartbeat())
        else:
            self.join()

    def settle(self, steps: int = 8) -> None:
        for _ in range(steps):
            self.step()

    def join(self) -> None:
        if not self.is_cooperative:
            self.owned = {}
        self.is_member = False
        metadata = subscription(*self.topics, owned=self.owned)
        self.join_token = self.world.groups.join(
            self.member_id,
            instance=self.instance,
            protocols=[(name, metadata) for name in self.protocols],
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
            member_id_required=True,
            client_id=self.name,
        )

    def heartbeat(self) -> ErrorCode:
        return self.world.groups.heartbeat(self.member_id, self.generation, instance=self.instance)

    def leave(self) -> None:
        self.world.groups.leave(self.member_id)
        self.owned, self.is_member, self.member_id = {}, False, ""

    # ---- answers -----------------------------------------------------------------------------------------

    def _joined(self) -> None:
        assert self.join_token is not None
        answer = self.world.groups.answers[self.join_token]
        self.join_token = None
        if isinstance(answer, Refuse):
            self._handle(answer.error)
            return
        assert isinstance(answer, JoinGroupResult)
        if answer.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            self.join()
            return
        if answer.error:
            self._handle(answer.error)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        shares: list[tuple[str, bytes]] = []
        if answer.leader == self.member_id and not answer.skip_assignment:
            shares = self._shares({one.member_id: one.metadata for one in answer.members})
        self.sync_token = self.world.groups.sync(
            self.member_id, self.generation, shares, instance=self.instance
        )

    def _shares(self, members: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
        given: dict[str, dict[str, list[int]]] = {one: {} for one in members}
        owners: dict[tuple[str, int], str] = {}
        readers: dict[str, list[str]] = {}
        for member_id in sorted(members):
            subscription = decode_subscription(members[member_id])
            for topic in subscription.topics:
                readers.setdefault(topic, []).append(member_id)
            for topic, partition in (
                (o.topic, p) for o in subscription.owned_partitions for p in o.partitions
            ):
                owners[topic, partition] = member_id
        for topic, members_of_topic in sorted(readers.items()):
            for partition in range(self.world.topics.get(topic, 0)):
                to = members_of_topic[partition % len(members_of_topic)]
                if owners.get((topic, partition), to) == to:  # else its owner has to give it up first
                    given[to].setdefault(topic, []).append(partition)
        return [(one, encode_assignment(3, sorted(shares.items()))) for one, shares in given.items()]

    def _synced(self) -> None:
        assert self.sync_token is not None
        answer = self.world.groups.answers[self.sync_token]
        self.sync_token = None
        if isinstance(answer, Refuse) or answer.error:  # type: ignore[union-attr]
            self._handle(answer.error)  # type: ignore[union-attr]
            return
        assert isinstance(answer, SyncGroupResult)
        before, self.owned = self.owned, assigned(answer.assignment)
        self.is_member = True
        if self.is_cooperative and any(
            set(numbers) - set(self.owned.get(topic, ())) for topic, numbers in before.items()
        ):
            self.join()  # without the partitions that it gave up

    def _handle(self, error: ErrorCode) -> None:
        match error:
            case ErrorCode.NONE:
                return
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self.join()
            case ErrorCode.NOT_COORDINATOR:
                self.is_member = False  # the coordinator moved: it asks the next one
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.ILLEGAL_GENERATION | ErrorCode.FENCED_INSTANCE_ID:
                self.owned, self.generation, self.is_member = {}, -1, False
                if error is not ErrorCode.ILLEGAL_GENERATION:
                    self.member_id = ""
            case _:
                raise AssertionError((self.name, error))


class ConsumerClient:
    """One consumer of the consumer protocol, with the same `step` as a `ClassicClient`."""

    def __init__(self, world: ConsumerWorld, name: str, *topics: str, instance: str | None = None) -> None:
        self.world = world
        self.member_id = self.name = name
        self.topics = topics or ("a",)
        self.instance = instance
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}

    def step(self) -> None:
        owned = {name: list(numbers) for name, numbers in self.owned.items()}
        if self.epoch == 0:
            answer = self.world.heartbeat(
                self.member_id,
                0,
                names=list(self.topics),
                owned={},
                rebalance_ms=REBALANCE_MS,
                instance=self.instance,
                client_id=self.name,
            )
        else:
            answer = self.world.heartbeat(
                self.member_id, self.epoch, owned=owned, instance=self.instance, client_id=self.name
            )
        if isinstance(answer, Refuse):
            self.epoch, self.owned = 0, {}
            return
        self.epoch = answer.member_epoch
        assigned = partitions_in(answer)
        if assigned is not None:
            self.owned = assigned

    def leave(self) -> None:
        self.world.heartbeat(self.member_id, -1, instance=self.instance)
        self.epoch, self.owned = 0, {}


def classic_group(world: ConsumerWorld, *clients: ClassicClient) -> None:
    """Make a stable classic group of these clients."""
    for client in clients:
        client.step()
        client.step()
    world.groups.advance(world.groups.config.group_initial_rebalance_delay_ms * len(clients) + 1)
    for _ in range(3):
        for client in clients:
            client.step()
    assert all(client.is_member for client in clients)
