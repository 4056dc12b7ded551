"""A mirror of a cluster into itself."""

from uuid import uuid4

from confluent_kafka import Producer

from ottla.pipeline.client.client_settings import ClientSettings, Role
from ottla.pipeline.client.metadata import Cluster
from ottla.pipeline.client.offset_syncs import OffsetSync, encode_sync
from ottla.pipeline.client.topic_admin import NewTopic, create_topics
from ottla.pipeline.mirror.group_follower import GroupFollower
from ottla.pipeline.mirror.mirror_options import MirrorOptions
from ottla.pipeline.mirror.mirror_rounds import MirrorRounds
from ottla.pipeline.mirror.topic_follower import TopicFollower
from tests.compat.wire_client import eventually
from tests.pipeline.topics import TIMEOUT_S, own_configs, settings_for


class Mirrored:
    """The names, options and clients of one mirror of a cluster into itself."""

    def __init__(self, bootstrap: str, **given: str) -> None:
        self.bootstrap = bootstrap
        unique = uuid4().hex
        self.alias = f"a{unique[:8]}"
        self.prefix = f"t{unique}"
        self.options = MirrorOptions.from_options(
            {
                "source.cluster.alias": self.alias,
                "source.cluster.bootstrap.servers": bootstrap,
                "target.cluster.alias": "b",
                "target.cluster.bootstrap.servers": bootstrap,
                "topics": f"{self.prefix}.*",
                "groups": f"{self.prefix}.*",
            }
            | {name.replace("_", "."): text for name, text in given.items()}
        )
        settings: ClientSettings = settings_for(bootstrap, Role.SOURCE, isolation_level="read_committed")
        self.cluster = Cluster(settings)
        self._rounds: list[MirrorRounds] = []

    def close(self) -> None:
        """Close all clients that it has made."""
        for one in self._rounds:
            one.close()
        self.cluster.close()

    def rounds(self) -> MirrorRounds:
        self._rounds.append(MirrorRounds(self.options))
        return self._rounds[-1]

    def topic_follower(self) -> TopicFollower:
        return TopicFollower(self.cluster, self.cluster, self.options)

    def group_follower(self) -> GroupFollower:
        return GroupFollower(self.cluster, self.cluster, self.options)

    def make(self, name: str, partitions: int = 1, **configs: str) -> str:
        topic = NewTopic(
            name=f"{self.prefix}.{name}",
            partitions_count=partitions,
            configs={key.replace("_", "."): text for key, text in configs.items()},
        )
        assert create_topics(self.cluster, [topic]) == {topic.name: None}
        # Apache Kafka answers before its nodes know the topic, here and below.
        assert eventually(lambda: self.cluster.topics([topic.name]), bool)
        return topic.name

    def remote(self, topic: str) -> str:
        return self.options.policy.remote_topic(topic)

    def wait_for_configs(self, topic: str, configs: dict[str, str | None]) -> None:
        """Wait until nodes report that the topic itself has these settings."""
        assert eventually(lambda: own_configs(self.cluster, topic), lambda found: found == configs) == configs

    def write_syncs(self, *syncs: OffsetSync, junk: bool = False, topic: str = "") -> None:
        topic = topic or self.options.policy.offset_syncs_topic()
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for sync in syncs:
            key, value = encode_sync(sync)
            producer.produce(topic, key=key, value=value)
        if junk:
            producer.produce(topic, key=b"k", value=b"no json")
        assert producer.flush(TIMEOUT_S) == 0
