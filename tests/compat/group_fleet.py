"""A group of each kind of client, side by side: the kinds, and the operations on all groups at once."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import NewTopic

from ottla.node.coordinators.key_partition import partition_for
from tests.compat.go.programs import go_program
from tests.compat.group_history import TIMEOUT_S, GroupHistory
from tests.compat.group_members import Members
from tests.compat.java.group_members import java_command
from tests.compat.java.jars import reason_to_skip
from tests.compat.wire_client import WireClient
from tests.integration.cluster.conftest import Cluster, eventually

PYTHON_MEMBERS = Path(__file__).resolve().parent / "clients" / "group_members.py"
JAVA_ASSIGNOR = "org.apache.kafka.clients.consumer.{}Assignor"
STAYING, KILLED = "staying", "killed"

TOPIC = "of-every-client"
PARTITIONS = 12
OFFSETS_PARTITIONS = 3
FEED_PAUSE_S = 0.1  # as many commits as two cores can handle beside all these clients
# Short enough that crashed members are removed soon, and long enough that no member is removed because a busy
# machine stands still for some seconds.
SESSION_TIMEOUT_MS = 15_000
OVERRIDES = (
    "offsets.topic.replication.factor=3",
    "min.insync.replicas=2",
    # librdkafka waits for the response to a heartbeat of the consumer protocol only until the next one is
    # due, and never learns the contents of a response that it missed.
    "group.consumer.min.session.timeout.ms=1000",
    f"group.consumer.session.timeout.ms={SESSION_TIMEOUT_MS}",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=2000",
)
OFFSETS_PARTITION = 1  # the partition of all groups, so that one node coordinates all of them


class Kind(NamedTuple):
    """A client, how its members share partitions, and the largest number of members."""

    client: str
    sharing: str
    size: int
    settings: Mapping[str, str]

    @property
    def label(self) -> str:
        return f"{self.client}-{self.sharing}"


def _classic(client: str, assignor: str, size: int) -> Kind:
    setting = assignor
    if client == "java":
        setting = JAVA_ASSIGNOR.format(assignor.title().replace("-", "").replace("robin", "Robin"))
    settings = {"partition.assignment.strategy": setting, "session.timeout.ms": str(SESSION_TIMEOUT_MS)}
    return Kind(client, assignor, size, settings)


def _consumer(client: str, size: int, **settings: str) -> Kind:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    sharing = "-".join(["consumer", *given.values()])
    return Kind(client, sharing, size, {"group.protocol": "consumer", **given})


KINDS = (
    _classic("java", "range", 4),
    _classic("java", "cooperative-sticky", 4),
    _consumer("java", 10),
    _consumer("java", 3, group_remote_assignor="range"),
    _classic("confluent", "range", 3),
    _classic("confluent", "roundrobin", 3),
    _classic("confluent", "cooperative-sticky", 4),
    _consumer("confluent", 4),
    _classic("kafka-python", "range", 3),
    _classic("kafka-python", "cooperative-sticky", 3),
    _classic("aiokafka", "roundrobin", 3),
    _classic("aiokafka", "sticky", 3),
    _classic("franz", "range", 4),
    _classic("franz", "cooperative-sticky", 10),
    _consumer("franz", 4),
    _classic("sarama", "range", 4),
    _classic("sarama", "sticky", 3),
)


def command_of(client: str) -> list[str] | str:
    """Return the command that runs members of this client, or the reason why none does."""
    if client == "java":
        return reason_to_skip() or java_command()
    if client in ("franz", "sarama"):
        program = go_program(client)
        return program if isinstance(program, str) else [str(program)]
    return python_command(client)


def python_command(client: str) -> list[str]:
    """Return the command that runs members of confluent, kafka-python or aiokafka."""
    return [sys.executable, str(PYTHON_MEMBERS), client]


@dataclass(slots=True, kw_only=True)
class Group:
    """One group of the test, with its members."""

    kind: Kind
    group_id: str
    history: GroupHistory
    processes: dict[str, Members]
    living: dict[str, str] = field(default_factory=dict)  # member -> the role of the process that runs it
    made: int = 0
    failure: str | None = None  # the first error; from then on the group is left alone

    def start(self, process: str) -> str:
        """Start one more member, and return its name."""
        name = f"{self.kind.label}-{self.made}"
        self.made += 1
        self.processes[process].start_member(name, self.history, self.group_id, TOPIC, self.kind.settings)
        self.living[name] = process
        return name

    def begin_to_close(self, name: str = "") -> str:
        """Make this member leave, or the oldest one, and return its name."""
        name = name or next(iter(self.living))
        self.processes[self.living.pop(name)].begin_to_close(name)
        return name

    def wait_until_closed(self, name: str) -> None:
        self.history.wait(lambda history: name in history.closed, f"{name} has left")

    def settle(self) -> None:
        """Wait until the living members share all partitions evenly."""
        share, more = divmod(PARTITIONS, len(self.living))
        shares = [share + (number < more) for number in range(len(self.living))]
        self.history.wait_for_shares(shares, of=PARTITIONS)


class Fleet:
    """The groups of all kinds whose client is installed, kept in one partition of `__consumer_offsets`."""

    def __init__(self, kinds: Sequence[Kind], bootstrap: str, data: Path) -> None:
        self.skipped: dict[str, str] = {}  # label -> the reason
        self.groups: list[Group] = []
        self._bootstrap, self._data = bootstrap, data
        self._commands: dict[str, list[str]] = {}
        self._processes: dict[str, dict[str, Members]] = {}
        self._started = 0
        for kind in kinds:
            command = command_of(kind.client)
            if isinstance(command, str):
                self.skipped[kind.label] = command
                continue
            self._commands[kind.client] = command
            processes = self._processes.setdefault(kind.client, {})
            for role in (STAYING, KILLED):
                if role not in processes:
                    processes[role] = self._start(kind.client)
            history = GroupHistory(name=kind.label)
            self.groups.append(
                Group(kind=kind, group_id=_group_id(kind.label), history=history, processes=processes)
            )

    @property
    def clients(self) -> Sequence[str]:
        return tuple(self._processes)

    def _start(self, client: str) -> Members:
        self._started += 1
        log = self._data / f"{self._started}-{client}.log"
        return Members(self._commands[client], self._bootstrap, log)

    def each(self, act: Callable[[Group], object]) -> None:
        """Run `act` at once for all groups that have not failed.

        An error is kept as the failure of its group.
        """

        def guarded(group: Group) -> None:
            try:
                act(group)
            except Exception as error:
                group.failure = f"{type(error).__name__}: {error}"

        with ThreadPoolExecutor(len(self.groups)) as threads:
            list(threads.map(guarded, [group for group in self.groups if group.failure is None]))

    def crash(self, *clients: str) -> None:
        """Send SIGKILL to the process of the role KILLED of each of these clients, so its members crash."""
        for client in clients:
            self._processes[client][KILLED].kill()
            for group in self.groups:
                if group.kind.client == client:
                    group.living = {name: role for name, role in group.living.items() if role != KILLED}

    def replace_crashed(self, *clients: str) -> None:
        """Start a new process in the place of each crashed one."""
        for client in clients:
            self._processes[client][KILLED] = self._start(client)

    def stop(self) -> None:
        for processes in self._processes.values():
            for process in processes.values():
                process.kill()


def _group_id(label: str) -> str:
    """Return a new name of a group that is kept in `OFFSETS_PARTITION`."""
    while True:
        name = f"{label}-{uuid4().hex[:8]}"
        if partition_for(name, OFFSETS_PARTITIONS) == OFFSETS_PARTITION:
            return name


# ---- the cluster -------------------------------------------------------------------------------------------


def create_topic(cluster: Cluster) -> None:
    """Create the topic and wait until each node knows it.

    A client that asks a node without it may not ask again for five minutes.
    """
    cluster.admin().create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(60)
    for node in cluster.nodes.values():
        with WireClient(node.bootstrap) as client:
            eventually(partial(_knows_leaders, client), f"{node.bootstrap} knows the topic", 60)


def _knows_leaders(client: WireClient) -> bool:
    [found] = client.call("metadata", 12, topics=[{"name": TOPIC}]).topics
    return sum(one.leader_id >= 0 for one in found.partitions) == PARTITIONS


def leader_of_offsets(cluster: Cluster) -> int:
    topic = cluster.admin().list_topics("__consumer_offsets", timeout=30).topics["__consumer_offsets"]
    return int(topic.partitions[OFFSETS_PARTITION].leader)


def committed(cluster: Cluster, group: Group) -> list[int]:
    """Return the committed offset of each partition, or nothing while no coordinator answers."""
    wanted = [ConsumerGroupTopicPartitions(group.group_id)]
    try:
        found = (
            cluster.admin().list_consumer_group_offsets(wanted)[group.group_id].result(30).topic_partitions
        )
    except (KafkaException, TimeoutError):
        return []
    return [one.offset for one in sorted(found, key=lambda one: int(one.partition))]


def ends(count: int) -> list[int]:
    return [len(range(partition, count, PARTITIONS)) for partition in range(PARTITIONS)]


def check_at_least_once(cluster: Cluster, group: Group, sent: Collection[str]) -> None:
    """Wait until all records are consumed and committed; check that no partition had two readers at once."""
    group.history.wait_for_all(sent)
    group.history.check_no_partition_had_two_readers()
    eventually(lambda: committed(cluster, group) == ends(len(sent)), "all is committed", TIMEOUT_S)
