"""ottla.metadata_raft.mutation_charge: topics are charged to a quota, which may reject them (KIP-599)."""

from collections.abc import Callable

import pytest

from ottla.logstore.words.errors import ErrorCode
from ottla.metadata_raft.command_codec import decode_command, encode_command
from ottla.metadata_raft.commands import (
    CreatePartitions,
    CreatePartitionsReply,
    CreateTopics,
    CreateTopicsReply,
    DeleteTopics,
    DeleteTopicsReply,
    MutationPayer,
    NewPartitions,
    NewTopic,
    TopicReference,
)
from ottla.metadata_raft.mutation_charge import MutationCharge, Taken
from tests.unit.metadata_raft.metadata_world import MetadataWorld

PAYER = MutationPayer(principal="User:ann", client_id="app", is_strict=True)
REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def new_topic(world: MetadataWorld, name: str, partitions: int = 1) -> NewTopic:
    return NewTopic(name=name, topic_id=world.uuid(), num_partitions=partitions, replication_factor=1)


class Quota:
    """A quota that allows a number of mutations, then rejects all for a second."""

    def __init__(self, allowed: int) -> None:
        self.allowed = allowed
        self.charged: list[int] = []

    def take(self, payer: MutationPayer, mutations: int) -> Taken:
        assert payer == PAYER
        self.charged.append(mutations)
        if self.allowed <= 0:
            return Taken(True, 1_000)
        self.allowed -= mutations
        return Taken(False, 0)


@pytest.fixture
def world() -> MetadataWorld:
    return MetadataWorld()


def test_topics_are_created_until_the_quota_rejects_one(world: MetadataWorld) -> None:
    quota = Quota(4)
    topics = [new_topic(world, name, partitions=3) for name in ("a", "b", "c", "bad name")]

    charge = MutationCharge(PAYER, quota.take)
    decision = world.controller.decide(CreateTopics(topics=topics, payer=PAYER), 0, charge=charge)

    assert isinstance(decision.reply, CreateTopicsReply)
    codes = {one.name: one.error_code for one in decision.reply.topics}
    assert codes == {"a": 0, "b": 0, "c": REFUSED, "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert decision.reply.throttle_time_ms == 1_000
    assert quota.charged == [3, 3, 3], "a topic that is rejected anyway is not charged"
    refused = next(one for one in decision.reply.topics if one.error_code == REFUSED)
    assert refused.error_message == "The throttling quota has been exceeded."


def test_a_command_that_is_decided_again_is_not_charged_twice(world: MetadataWorld) -> None:
    quota = Quota(4)
    command = CreateTopics(topics=[new_topic(world, "a", partitions=3)], payer=PAYER)
    charge = MutationCharge(PAYER, quota.take)

    first = world.controller.decide(command, 0, charge=charge)

    assert world.controller.decide(command, 0, charge=charge) == first
    assert quota.charged == [3]


def test_deletions_are_charged_a_mutation_for_each_partition(world: MetadataWorld) -> None:
    quota = Quota(1)
    world.submit(CreateTopics(topics=[new_topic(world, "a", partitions=3), new_topic(world, "b")]))
    command = DeleteTopics(topics=[TopicReference(name="a"), TopicReference(name="b")], payer=PAYER)

    decision = world.controller.decide(command, 0, charge=MutationCharge(PAYER, quota.take))

    assert isinstance(decision.reply, DeleteTopicsReply)
    assert [(one.name, one.error_code) for one in decision.reply.topics] == [("a", 0), ("b", REFUSED)]
    assert quota.charged == [3, 1] and len(decision.records) == 1


def test_new_partitions_are_charged_a_mutation_each(world: MetadataWorld) -> None:
    quota = Quota(1)
    world.submit(CreateTopics(topics=[new_topic(world, "a", partitions=3), new_topic(world, "b")]))
    grown = [NewPartitions(name="a", count=5), NewPartitions(name="b", count=4)]
    command = CreatePartitions(topics=grown, payer=PAYER)

    decision = world.controller.decide(command, 0, charge=MutationCharge(PAYER, quota.take))

    assert isinstance(decision.reply, CreatePartitionsReply)
    assert [(one.name, one.error_code) for one in decision.reply.topics] == [("a", 0), ("b", REFUSED)]
    assert quota.charged == [2, 3]


@pytest.mark.parametrize(
    "command_of",
    [
        lambda payer: CreateTopics(topics=[], payer=payer),
        lambda payer: DeleteTopics(topics=[], payer=payer),
        lambda payer: CreatePartitions(topics=[], payer=payer),
    ],
)
def test_the_payer_is_encoded_and_no_payer_takes_no_bytes(
    command_of: Callable[[MutationPayer], CreateTopics | DeleteTopics | CreatePartitions],
) -> None:
    assert decode_command(encode_command(command_of(PAYER))) == command_of(PAYER)
    free = command_of(MutationPayer())
    assert decode_command(encode_command(free)) == free
    assert len(encode_command(free)) <= 7
