"""The creation of internal topics: replicas in a small cluster, settings, and creation by name."""

import itertools

import pytest

from ottla.metadata_raft.commands import NewTopic
from ottla.metadata_raft.image import MetadataImage
from ottla.node.metadata.topic_creation import (
    auto_created,
    offsets_topic,
    share_state_topic,
    transactions_topic,
)
from ottla.node.settings.config import parse_config

_counter = itertools.count()


def unique(length: int) -> bytes:
    return next(_counter).to_bytes(length)


def made(**settings: str) -> NewTopic:
    config = parse_config({name.replace("_", "."): value for name, value in settings.items()})
    return transactions_topic(MetadataImage(), config, unique)


def test_the_topic_of_transactions_follows_its_settings() -> None:
    topic = made(
        transaction_state_log_num_partitions="7",
        transaction_state_log_min_isr="3",
        transaction_state_log_segment_bytes="12345",
    )

    assert (topic.name, topic.num_partitions) == ("__transaction_state", 7)
    assert {one.name: one.value for one in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",  # there is one node: the topic would be under a larger minimum for ever
        "segment.bytes": "12345",
        "unclean.leader.election.enable": "false",
    }


def test_the_topic_of_share_states_follows_its_settings() -> None:
    config = parse_config(
        {
            "share.coordinator.state.topic.num.partitions": "7",
            "share.coordinator.state.topic.min.isr": "3",
            "share.coordinator.state.topic.segment.bytes": "12345",
        }
    )
    topic = share_state_topic(MetadataImage(), config, unique)

    assert (topic.name, topic.num_partitions) == ("__share_group_state", 7)
    assert {one.name: one.value for one in topic.configs} == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "segment.bytes": "12345",
    }


@pytest.mark.parametrize(
    ("wanted", "voters", "replicas"), [("3", 1, 1), ("3", 3, 3), ("3", 5, 3), ("2", 3, 2)]
)
def test_voters_that_are_not_up_yet_are_counted(wanted: str, voters: int, replicas: int) -> None:
    quorum = ",".join(f"{one}@127.0.0.1:{9000 + one}" for one in range(voters))
    settings = {
        "node.id": "0",
        "transaction.state.log.replication.factor": wanted,
        "controller.quorum.voters": quorum,
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9000",
        "controller.listener.names": "CONTROLLER",
        "cluster.secret": "abcdefghijklmnop",
    }

    topic = transactions_topic(MetadataImage(), parse_config(settings), unique)

    assert topic.replication_factor == replicas
    (min_isr,) = [one.value for one in topic.configs if one.name == "min.insync.replicas"]
    assert min_isr == str(min(2, replicas))


def test_an_internal_topic_that_is_requested_by_name_has_its_own_settings() -> None:
    config, image = parse_config({}), MetadataImage()

    names = ["__consumer_offsets", "__transaction_state", "__share_group_state", "other"]
    offsets, transactions, shares, other = auto_created(names, image, config, unique).topics

    assert offsets.configs == offsets_topic(image, config, unique).configs
    assert transactions.configs == transactions_topic(image, config, unique).configs
    assert shares.configs == share_state_topic(image, config, unique).configs
    assert not other.configs
