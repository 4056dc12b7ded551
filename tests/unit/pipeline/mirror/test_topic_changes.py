"""The changes of the target's topics, computed from both clusters."""

import re

from ottla.pipeline.client.topic_admin import ConfigSource, NewTopic, TopicConfig
from ottla.pipeline.mirror.topic_changes import TopicChanges, config_changes, partition_changes

EXCLUDED = re.compile("min.insync.replicas")


def config(value: str | None, source: ConfigSource = ConfigSource.TOPIC, **more: bool) -> TopicConfig:
    return TopicConfig(
        value=value,
        source=source,
        is_read_only=more.get("is_read_only", False),
        is_sensitive=more.get("is_sensitive", False),
    )


def test_a_topic_that_the_target_lacks_is_made_with_its_partitions_and_own_settings() -> None:
    configs = {
        "cleanup.policy": config("compact"),
        "retention.ms": config("604800000", ConfigSource.DEFAULT),
        "segment.bytes": config("1", ConfigSource.STATIC_BROKER),
        "min.insync.replicas": config("2"),
        "secret": config(None, is_sensitive=True),
        "fixed": config("1", is_read_only=True),
    }

    changes = partition_changes(
        {"a.t": 3}, {"other": 1}, {"a.t": configs}, excluded=EXCLUDED, replication_factor=-1
    )

    made = NewTopic(name="a.t", partitions_count=3, configs={"cleanup.policy": "compact"})
    assert changes == TopicChanges(created=(made,))


def test_partitions_are_added_and_never_removed() -> None:
    source, target = {"less": 4, "same": 2, "more": 1}, {"less": 2, "same": 2, "more": 3}

    changes = partition_changes(source, target, {}, excluded=EXCLUDED, replication_factor=-1)

    assert changes == TopicChanges(grown={"less": 4})


def test_settings_follow_the_source() -> None:
    source = {
        "t": {
            "retention.ms": config("5"),
            "segment.ms": config("7"),
            "cleanup.policy": config("delete", ConfigSource.DEFAULT),
            "min.insync.replicas": config("2"),
        },
        "only here": {"retention.ms": config("5")},
    }
    target = {
        "t": {
            "retention.ms": config("6"),
            "segment.ms": config("7"),
            "cleanup.policy": config("compact"),
            "min.insync.replicas": config("1"),
        },
        "only there": {"retention.ms": config("5")},
    }

    changes = config_changes(source, target, excluded=EXCLUDED)

    assert changes == TopicChanges(altered={"t": {"retention.ms": "5", "cleanup.policy": None}})


def test_nothing_changes_where_nothing_differs() -> None:
    both = {"t": {"retention.ms": config("5")}}

    assert config_changes(both, both, excluded=EXCLUDED) == TopicChanges()
