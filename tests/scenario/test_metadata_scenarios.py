"""Scenarios of the metadata as text: commands, `----`, and their results. `REWRITE=1` renews the results.

    broker ID [rack=R] [fenced]            a new process of a broker registers
    create NAME [partitions=N] [replicas=N] [assign=0,1/1,2] [NAME=VALUE ...]
    grow NAME COUNT | delete NAME | alter NAME [NAME=VALUE | -NAME ...] | ids ID
    heartbeat ID [behind] [fence] [stop]   a broker's heartbeat, perhaps with a request
    lost ID | wait MS                      its connection breaks; time passes, and timers that are due run
    isr NAME-N BROKERS                     the leader reports the in-sync replicas
    move NAME-N BROKERS|cancel             the partition is reassigned to these brokers
    elect NAME-N [unclean]                 the preferred leader, or any broker that is alive
    unregister ID | failover               a broker leaves for good; another node leads the quorum
    restart                                all is read again from the log

Results are answers, appended records, and the partitions of topics that changed.
"""

import shlex
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.metadata_raft.commands import (
    AllocateProducerIds,
    AlterConfigs,
    AlteredPartition,
    AlteredTopic,
    AlterPartition,
    AlterPartitionReassignments,
    BrokerConnectionLost,
    BrokerState,
    ConfigChange,
    ConfigOperation,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectionType,
    ElectLeaders,
    NewPartitions,
    ReassignablePartition,
    ReassignableTopic,
    ResourceChanges,
    TopicPartitions,
    TopicReference,
    UnregisterBroker,
)
from ottla.metadata_raft.controller import Controller
from ottla.metadata_raft.delta import replay_batch
from ottla.metadata_raft.image import PartitionImage, TopicImage
from ottla.metadata_raft.record_codec import decode_batch
from ottla.metadata_raft.records import ConfigResourceType
from tests.scenario.scenario import assert_results
from tests.unit.metadata_raft.metadata_world import CONFIG, EMPTY, MetadataWorld

SCENARIOS = sorted((Path(__file__).parent / "metadata").glob("*.txt"))


class Runner:
    """Carries out the commands of a scenario and returns their results."""

    def __init__(self) -> None:
        self.world = MetadataWorld(brokers=0)
        self._seen_batches = 0
        self._seen_topics: dict[str, TopicImage] = {}

    def run(self, line: str) -> list[str]:
        verb, *words = shlex.split(line)
        try:
            answer = getattr(self, f"_{verb}")(*words)
        except KafkaError as error:
            answer = f"{error.code.name}: {error.detail}"
        return [f"{verb}: {answer}", *self._appended(), *self._changed()]

    def _broker(self, broker_id: str, *words: str) -> str:
        options = dict(word.partition("=")[::2] for word in words)
        epoch = self.world.start_broker(
            int(broker_id), rack=options.get("rack"), unfence="fenced" not in options
        )
        return f"epoch {epoch}"

    def _create(self, name: str, *words: str) -> str:
        options = dict(word.split("=", 1) for word in words)
        assign = options.pop("assign", "")
        topic = self.world.topic(
            name,
            int(options.pop("partitions", -1)),
            int(options.pop("replicas", -1)),
            assignments=[
                (index, [int(replica) for replica in replicas.split(",")])
                for index, replicas in enumerate(filter(None, assign.split("/")))
            ],
            configs=list(options.items()),
        )
        (result,) = self.world.submit(CreateTopics(topics=[topic])).topics  # type: ignore[union-attr]
        return _outcome(result.error_code, result.error_message)

    def _grow(self, name: str, count: str) -> str:
        command = CreatePartitions(topics=[NewPartitions(name=name, count=int(count))])
        (result,) = self.world.submit(command).topics  # type: ignore[union-attr]
        return _outcome(result.error_code, result.error_message)

    def _delete(self, name: str) -> str:
        (result,) = self.world.submit(DeleteTopics(topics=[TopicReference(name=name)])).topics  # type: ignore[union-attr]
        return _outcome(result.error_code, result.error_message)

    def _alter(self, name: str, *words: str) -> str:
        changes = [
            ConfigChange(name=word[1:], operation=ConfigOperation.DELETE)
            if word.startswith("-")
            else ConfigChange(
                name=word.split("=")[0], operation=ConfigOperation.SET, value=word.split("=", 1)[1]
            )
            for word in words
        ]
        resource = ResourceChanges(
            resource_type=ConfigResourceType.TOPIC, resource_name=name, changes=changes
        )
        (result,) = self.world.submit(AlterConfigs(resources=[resource])).resources  # type: ignore[union-attr]
        return _outcome(result.error_code, result.error_message)

    def _ids(self, broker_id: str) -> str:
        broker = self.world.image.brokers[int(broker_id)]
        command = AllocateProducerIds(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
        reply = self.world.submit(command)
        return f"{reply.producer_id_len} from {reply.producer_id_start}"  # type: ignore[union-attr]

    def _heartbeat(self, broker_id: str, *words: str) -> str:
        fields: dict[str, Any] = {"want_fence": "fence" in words, "want_shut_down": "stop" in words}
        if "behind" in words:
            fields["current_metadata_offset"] = 0
        reply = self.world.heartbeat(int(broker_id), **fields)
        answers = {
            "fenced": reply.is_fenced,
            "leaves": reply.is_in_controlled_shutdown,
            "may go": reply.should_shut_down,
        }
        return ", ".join(name for name, is_set in answers.items() if is_set) or "serves"

    def _lost(self, broker_id: str) -> str:
        broker = self.world.image.brokers[int(broker_id)]
        self.world.submit(BrokerConnectionLost(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch))
        return "noted"

    def _wait(self, time_ms: str) -> str:
        self.world.now_ms += int(time_ms)
        ticks = 0
        while self.world.tick():
            ticks += 1
        return f"{ticks} due"

    def _isr(self, name: str, replicas: str) -> str:
        topic, index, now = self._partition(name)
        states = [BrokerState(broker_id=int(replica)) for replica in replicas.split(",")]
        wanted = AlteredPartition(
            partition_index=index,
            leader_epoch=now.leader_epoch,
            partition_epoch=now.partition_epoch,
            new_isr_with_epochs=states,
        )
        reply = self.world.submit(
            AlterPartition(
                broker_id=now.leader,
                broker_epoch=self.world.image.brokers[now.leader].broker_epoch,
                topics=[AlteredTopic(topic_id=topic.topic_id, partitions=[wanted])],
            )
        )
        return ErrorCode(reply.topics[0].partitions[0].error_code).name.lower()  # type: ignore[union-attr]

    def _move(self, name: str, replicas: str) -> str:
        topic, index, _ = self._partition(name)
        target = None if replicas == "cancel" else [int(replica) for replica in replicas.split(",")]
        one = ReassignablePartition(partition_index=index, replicas=target)
        reply = self.world.submit(
            AlterPartitionReassignments(topics=[ReassignableTopic(name=topic.name, partitions=[one])])
        )
        (result,) = reply.responses[0].partitions  # type: ignore[union-attr]
        return _outcome(result.error_code, result.error_message)

    def _elect(self, name: str, *words: str) -> str:
        topic, index, _ = self._partition(name)
        kind = ElectionType.UNCLEAN if "unclean" in words else ElectionType.PREFERRED
        topics = [TopicPartitions(topic=topic.name, partitions=[index])]
        reply = self.world.submit(ElectLeaders(election_type=kind, topic_partitions=topics))
        (result,) = reply.replica_election_results[0].partition_result  # type: ignore[union-attr]
        return _outcome(result.error_code, result.error_message)

    def _unregister(self, broker_id: str) -> str:
        self.world.submit(UnregisterBroker(broker_id=int(broker_id)))
        return "ok"

    def _failover(self) -> str:
        self.world.controller = Controller(self.world.image, CONFIG)
        self.world.controller.activate(self.world.image, self.world.now_ms)
        return "another controller"

    def _partition(self, name: str) -> tuple[TopicImage, int, PartitionImage]:
        topic_name, _, index = name.rpartition("-")
        topic = self.world.image.topics.by_name[topic_name]
        return topic, int(index), topic.partitions[int(index)]

    def _restart(self) -> str:
        image = EMPTY
        for encoded in self.world.log:
            image, _ = replay_batch(image, decode_batch(encoded)[0])
        return "equal" if image == self.world.image else "different"

    def _appended(self) -> list[str]:
        batches = self.world.log[self._seen_batches :]
        self._seen_batches = len(self.world.log)
        return [
            "log: " + ", ".join(type(record).__name__.removesuffix("Record") for record in batch.records)
            for batch, _ in map(decode_batch, batches)
        ]

    def _changed(self) -> list[str]:
        now = self.world.image.topics.by_name
        lines = [f"{name}: gone" for name in sorted(self._seen_topics.keys() - now.keys())]
        for name, topic in sorted(now.items()):
            before = self._seen_topics.get(name)
            for one in topic.partitions:
                known = before is not None and one in before.partitions
                if not known:
                    moving = (
                        f" adding {_joined(one.adding_replicas)} removing {_joined(one.removing_replicas)}"
                    )
                    lines.append(
                        f"{name}-{one.partition}: leader {one.leader} epoch {one.leader_epoch}"
                        f" replicas {_joined(one.replicas)} isr {_joined(one.isr)}"
                        + (moving if one.adding_replicas or one.removing_replicas else "")
                        + (" recovering" if one.leader_recovery_state else "")
                    )
        self._seen_topics = dict(now)
        return lines


def _joined(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas)) or "none"


def _outcome(error: int, message: str | None) -> str:
    return "ok" if error == ErrorCode.NONE else f"{ErrorCode(error).name}: {message}"


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_the_scenario_has_the_results_in_its_file(path: Path) -> None:
    assert_results(path, Runner().run)
