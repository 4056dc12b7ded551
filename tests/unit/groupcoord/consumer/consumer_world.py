"""Consumer groups in a `GroupWorld`: topics that can change, heartbeats, and clients that obey answers.

Tasks for a thread are done at once, unless `holds_tasks`. Appended records are shown by the numbers of their
kinds, a tombstone with a "t": 5 the member, 16 an expression, 3 the group epoch, 7 and 6 the target, 8 the
partitions of a member.
"""

from collections.abc import Callable, Mapping, Sequence

from ottla.groupcoord.assignment import TopicPartitions
from ottla.groupcoord.commands import Command
from ottla.groupcoord.consumer.consumer_commands import ConsumerGroupHeartbeat, TopicsChanged
from ottla.groupcoord.consumer.consumer_group import ConsumerGroup
from ottla.groupcoord.consumer.consumer_records import LAYOUTS
from ottla.groupcoord.consumer.consumer_results import ConsumerGroupHeartbeatResult
from ottla.groupcoord.consumer.executor_tasks import run_task
from ottla.groupcoord.coordinator_config import CoordinatorConfig
from ottla.groupcoord.effects import Effect, Refuse, RunTask
from ottla.groupcoord.group_records import GroupMetadataRecord
from ottla.groupcoord.record_codec import GroupRecord
from ottla.groupcoord.topics_view import ListedTopics, TopicInfo
from ottla.logstore.words.errors import ErrorCode
from tests.unit.groupcoord.group_world import GroupWorld
from tests.unit.groupcoord.topic_ids import partitions_in, topic_id

REBALANCE_MS = 60_000


class ConsumerWorld:
    """A cluster with topics "a" (4 partitions) and "b" (2), and no assignment interval, by default."""

    def __init__(
        self, config: CoordinatorConfig | None = None, topics: Mapping[str, int] | None = None
    ) -> None:
        self.groups = GroupWorld(config or CoordinatorConfig(group_consumer_assignment_interval_ms=0))
        self.groups.take_tasks = self._run_tasks
        self.holds_tasks = False
        self.held: list[RunTask] = []
        self._version = 0
        self.topics: dict[str, int] = {}
        self.set_topics(topics or {"a": 4, "b": 2})

    def set_topics(self, topics: Mapping[str, int]) -> None:
        """Replace the topics of the cluster by these, with their numbers of partitions."""
        before, self.topics = self.topics, dict(topics)
        self._version += 1
        changed = {name for name in before | self.topics if before.get(name) != self.topics.get(name)}
        self.groups.handle(
            TopicsChanged(
                topics=self._view(),
                has_new_topics=bool(self.topics.keys() - before.keys()),
                changed=frozenset(changed),
            )
        )

    def _view(self) -> ListedTopics:
        infos = [TopicInfo(topic_id(name), name, count) for name, count in self.topics.items()]
        return ListedTopics(infos, self._version)

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.groups.coordinator.shard.consumer_group(group_id)
        assert group is not None
        return group

    def restart(self, *, loses: bool = False) -> None:
        self.groups.restart(loses=loses)
        self.held.clear()  # the new coordinator drops their results
        view = self._view()
        self.groups.coordinator.shard.topics = view
        self.groups.coordinator.shard.newest_topics_version = self._version

    def handle(self, command: Command) -> None:
        """Handle a command, and run the tasks that it has for a thread."""
        self.groups.handle(command)

    def ask(self, command: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResult | Refuse:
        self.groups.requested.add(command.token)
        self.handle(command)
        answer = self.groups.answers[command.token]
        assert isinstance(answer, ConsumerGroupHeartbeatResult | Refuse)
        return answer

    def release_tasks(self) -> None:
        """Run the tasks that were held back, and later ones at once."""
        self.holds_tasks = False
        self._run_tasks([])

    def _run_tasks(self, effects: Sequence[Effect]) -> None:
        self.held += [effect for effect in effects if isinstance(effect, RunTask)]
        while self.held and not self.holds_tasks:
            self.groups.handle(run_task(self.held.pop(0).task))

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        group_id: str = "g",
        instance: str | None = None,
        names: Sequence[str] | None = None,
        regex: str | None = None,
        owned: Mapping[str, Sequence[int]] | None = None,
        rebalance_ms: int = -1,
        assignor: str | None = None,
        rack: str | None = None,
        client_id: str = "c",
        member_id_required: bool = True,
        may_describe: Callable[[str], bool] | None = None,
    ) -> ConsumerGroupHeartbeatResult | Refuse:
        """Send one heartbeat with exactly these fields; return its answer."""
        return self.ask(
            ConsumerGroupHeartbeat(
                token=self.groups.token(),
                group_id=group_id,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=instance,
                rack_id=rack,
                rebalance_timeout_ms=rebalance_ms,
                subscribed_topic_names=names,
                subscribed_topic_regex=regex,
                server_assignor=assignor,
                owned=None
                if owned is None
                else [TopicPartitions(topic_id(name), list(numbers)) for name, numbers in owned.items()],
                client_id=client_id,
                client_host="/127.0.0.1",
                member_id_required=member_id_required,
                may_describe=may_describe,
            )
        )

    def join(self, member_id: str, *names: str, **fields: object) -> ConsumerGroupHeartbeatResult:
        """Join, or join again, with a full request."""
        subscribed = None if "regex" in fields and not names else list(names)
        full: dict[str, object] = {"names": subscribed, "owned": {}, "rebalance_ms": REBALANCE_MS, **fields}
        answer = self.heartbeat(member_id, 0, **full)  # type: ignore[arg-type]
        assert isinstance(answer, ConsumerGroupHeartbeatResult), answer
        return answer

    def stay(self, member_id: str, epoch: int, **fields: object) -> ConsumerGroupHeartbeatResult:
        answer = self.heartbeat(member_id, epoch, **fields)  # type: ignore[arg-type]
        assert isinstance(answer, ConsumerGroupHeartbeatResult), answer
        return answer

    def refused(self, member_id: str, epoch: int, **fields: object) -> ErrorCode:
        answer = self.heartbeat(member_id, epoch, **fields)  # type: ignore[arg-type]
        assert isinstance(answer, Refuse), answer
        return answer.error

    def written(self, since: int) -> str:
        """Return the kinds of the records since that length of the log."""
        return " ".join(_kind(record) for record in self.groups.log[since:])


def _kind(record: GroupRecord) -> str:
    kind = (
        2
        if isinstance(record, GroupMetadataRecord)
        else LAYOUTS[type(record)].kind
        if type(record) in LAYOUTS
        else 1
    )
    return f"{kind}t" if record.value is None else str(kind)


class Client:
    """A consumer that does as its answers say, and reports its partitions with each heartbeat."""

    def __init__(self, world: ConsumerWorld, member_id: str, *names: str, **fields: object) -> None:
        self.world = world
        self.member_id = member_id
        self.names = names
        self.fields = fields
        self.epoch = 0
        self.owned: dict[str, list[int]] = {}

    def join(self) -> None:
        self.epoch, self.owned = 0, {}
        self._receive(self.world.join(self.member_id, *self.names, **self.fields))

    def heartbeat(self) -> None:
        """Send a heartbeat with the owned partitions, and a second one if it had to give up some."""
        for _ in range(2):
            before = {name: list(numbers) for name, numbers in self.owned.items()}
            self._receive(self.world.stay(self.member_id, self.epoch, owned=before))
            if all(set(numbers) <= set(self.owned.get(name, ())) for name, numbers in before.items()):
                return

    def _receive(self, answer: ConsumerGroupHeartbeatResult) -> None:
        self.epoch = answer.member_epoch
        owned = partitions_in(answer)
        if owned is not None:
            self.owned = owned


def settle(clients: Sequence[Client], rounds: int = 6) -> None:
    for _ in range(rounds):
        for client in clients:
            client.heartbeat()
