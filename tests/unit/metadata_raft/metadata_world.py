"""A controller with an image, which checks the invariants after every command."""

import random
from collections.abc import Sequence
from typing import Any

from ottla.logstore.words.topic_partition import ZERO_UUID
from ottla.metadata_raft.cluster_features import ELIGIBLE_LEADER_REPLICAS_VERSION, SECURITY_VERSION
from ottla.metadata_raft.commands import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    Command,
    FeatureUpdate,
    NewTopic,
    NewTopicConfig,
    RegisterBroker,
    ReplicaAssignment,
    Reply,
    RequestId,
    UpdateFeatures,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.controller_config import ControllerConfig
from ottla.metadata_raft.image import MetadataImage, check_invariants
from ottla.metadata_raft.record_codec import MetadataBatch, decode_batch, encode_batch
from ottla.metadata_raft.records import BrokerEndpoint, BrokerFeature, MetadataRecord
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.client_metrics_config_def import check_client_metrics_configs
from ottla.node.settings.group_config_def import GROUP_CONFIG_DEF

CLUSTER_ID = b"cluster-id-16-by"
NOW_MS = 1_700_000_000_000
EMPTY = MetadataImage(cluster_id=CLUSTER_ID)

CONFIG = ControllerConfig(
    num_partitions=2,
    default_replication_factor=1,
    broker_config_def=BROKER_CONFIG_DEF,
    group_config_def=GROUP_CONFIG_DEF,
    check_client_metrics_configs=check_client_metrics_configs,
    broker_values={key.name: key.default for key in BROKER_CONFIG_DEF},
)


def log_dir_id(broker_id: int, number: int = 0) -> bytes:
    """Return the id of one of a broker's log directories."""
    return f"log dir {broker_id}/{number}".encode().ljust(16, b".")


class MetadataWorld:
    """A controller that decides commands; every batch is encoded, decoded and kept in `log`."""

    def __init__(self, config: ControllerConfig = CONFIG, brokers: int = 1, seed: int = 0) -> None:
        self.controller = Controller(EMPTY, config)
        self.log: list[bytes] = []
        self.now_ms = 1_000  # monotonic
        self._chance = random.Random(seed)
        for broker_id in range(brokers):
            self.start_broker(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def uuid(self) -> bytes:
        return self._chance.randbytes(16)

    def submit(self, command: Command, request: RequestId | None = None) -> Reply:
        decision = self.controller.decide(command, self.now_ms, request)
        # A session counts heartbeats, so repeating one is not without effect.
        if not isinstance(command, BrokerHeartbeat):
            again = self.controller.decide(command, self.now_ms, request)
            assert decision == again, "deciding is not pure"
        self.append(decision.records)
        return decision.reply

    def tick(self) -> bool:
        """Carry out what is due by time; return True if anything was."""
        next_ms = self.controller.next_tick_ms()
        due = self.controller.tick(self.now_ms)
        assert due is None or next_ms <= self.now_ms, "a controller that sleeps until then would be late"
        self.append(due.records if due else ())
        return due is not None

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """Apply records as one batch."""
        if records:
            batch = MetadataBatch(self.image.version + 1, 1, NOW_MS, list(records))
            encoded = bytes(encode_batch(batch))
            self.log.append(encoded)
            self.controller.replay(decode_batch(encoded)[0])
        check_invariants(self.image)

    def start_broker(
        self,
        broker_id: int,
        *,
        rack: str | None = None,
        unfence: bool = True,
        log_dirs: int = 1,
        previous_broker_epoch: int = -1,
        page_cache_id: bytes = ZERO_UUID,
    ) -> int:
        """Register a new run of a broker with its first `log_dirs` directories; return its broker epoch."""
        reply = self.submit(
            RegisterBroker(
                broker_id=broker_id,
                incarnation_id=self.uuid(),
                listeners=[BrokerEndpoint(name="PLAINTEXT", host=f"host{broker_id}", port=9092)],
                rack=rack,
                log_dirs=[log_dir_id(broker_id, number) for number in range(log_dirs)],
                features=[
                    BrokerFeature(name="some.feature", min_supported_version=1, max_supported_version=3),
                    *(
                        BrokerFeature(name=name, min_supported_version=0, max_supported_version=1)
                        for name in (SECURITY_VERSION, ELIGIBLE_LEADER_REPLICAS_VERSION)
                    ),
                ],
                previous_broker_epoch=previous_broker_epoch,
                page_cache_id=page_cache_id,
            )
        )
        if unfence:
            self.heartbeat(broker_id)
        return reply.broker_epoch

    def heartbeat(self, broker_id: int, **fields: Any) -> BrokerHeartbeatReply:
        """Send a heartbeat of a broker that has applied all metadata; return the reply."""
        fields = {"current_metadata_offset": self.image.version, **fields}
        epoch = self.image.brokers[broker_id].broker_epoch
        reply = self.submit(BrokerHeartbeat(broker_id=broker_id, broker_epoch=epoch, **fields))
        assert isinstance(reply, BrokerHeartbeatReply)
        return reply

    def raise_feature(self, name: str, level: int) -> None:
        """Finalize a level of a feature."""
        self.submit(UpdateFeatures(feature_updates=[FeatureUpdate(feature=name, max_version_level=level)]))

    def topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        configs: Sequence[tuple[str, str | None]] = (),
        assignments: Sequence[tuple[int, Sequence[int]]] = (),
    ) -> NewTopic:
        return NewTopic(
            name=name,
            topic_id=self.uuid(),
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[NewTopicConfig(name=key, value=value) for key, value in configs],
            assignments=[
                ReplicaAssignment(partition_index=index, broker_ids=broker_ids)
                for index, broker_ids in assignments
            ],
        )
