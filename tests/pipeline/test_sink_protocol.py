"""The protocol of exactly-once on a cluster, without Spark: zombies, timeouts, leftovers, nodes that die."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from uuid import UUID, uuid4

import pyarrow as pa
import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.embedded import Cluster as Nodes
from ottla.node.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.pipeline.client.client_settings import Role
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.client.group_settings import KEEP_FOREVER, RETENTION, keep_offsets
from ottla.pipeline.client.list_offsets import LATEST, list_offsets
from ottla.pipeline.client.metadata import Cluster, CoordinatorType
from ottla.pipeline.sink.batch_messages import Begun, TaskReport
from ottla.pipeline.sink.decisions import (
    BatchExpired,
    BatchRun,
    TransactionsLost,
    WriteDecision,
    decide_batch,
)
from ottla.pipeline.sink.driver import SWEEP_INTERVAL_MS, Driver
from ottla.pipeline.sink.row_writer import Producer, RowWriter
from ottla.pipeline.sink.sink_cluster import KafkaSinkCluster
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.sink.slots import FIRST_UNPREPARED, INCARNATIONS, Names
from ottla.pipeline.sink.task_transaction import TaskTransaction
from ottla.pipeline.words import OptionError
from tests.compat.wire_client import WireClient, eventually
from tests.pipeline.conftest import MakeClient
from tests.pipeline.spark.topic_rows import read_topic, values_of
from tests.pipeline.topics import make_topic, settings_for

pytestmark = pytest.mark.slow

QUERY = UUID(int=1)
GROUP = 32  # the type of a resource
FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class Task:
    """One attempt of a task; `write` sends rows, which are in their logs when it returns."""

    def __init__(self, sink: "Sink", begun: Begun, run: BatchRun) -> None:
        self.transaction = TaskTransaction(sink.names, begun, run, KafkaSinkCluster(sink.cluster))
        participant = self.transaction.take_slot()
        self.name = sink.names.id_of_slot(participant.slot)
        self.writer = RowWriter(
            sink.cluster,
            sink.options,
            Producer(pair=participant.pair, transactional_id=self.name),
            begin_at=0,
            now_ms=lambda: 1_700_000_000_000,
            join=self.transaction.join,
        )

    def write(self, *values: str) -> "Task":
        self.writer.write(pa.record_batch({"value": pa.array(values)}))
        self.writer.finish()
        return self

    def report(self) -> TaskReport:
        return self.transaction.report()


class Sink:
    """A query's sink; `new_driver` makes the driver of a process without memory."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str = "", **settings: str) -> None:
        self.options = SinkOptions.from_options(
            {
                "kafka.bootstrap.servers": bootstrap,
                "kafka.retry.backoff.ms": "10",
                "delivery.guarantee": "exactly_once",
                "transactional.id": transactional_id or f"T.{uuid4().hex}",
                "topic": topic,
                **{f"kafka.{name.replace('_', '.')}": value for name, value in settings.items()},
            }
        )
        self.names = Names(self.options.transactional_id)
        self.cluster = Cluster(self.options.client)
        self.runs = 0
        self.driver = self.new_driver()

    def new_driver(self) -> Driver:
        self.runs += 1
        self.driver = Driver(self.options, KafkaSinkCluster(self.cluster), {})
        return self.driver

    def run(self, batch_id: int) -> BatchRun:
        return BatchRun(query_id=QUERY, run_id=UUID(int=100 + self.runs), batch_id=batch_id)

    def task(self, begun: Begun, batch_id: int) -> Task:
        return Task(self, begun, self.run(batch_id))

    def open_ids(self) -> set[str]:
        """Return the ids whose transaction is open, once every coordinator has answered."""
        cluster = KafkaSinkCluster(self.cluster)
        found = eventually(lambda: cluster.list_open(self.names.prefix), lambda found: found is not None)
        assert found is not None, "no coordinator tells what is open"
        return found


MakeSink = Callable[..., Sink]


@pytest.fixture
def make_sink() -> Iterator[MakeSink]:
    """Make sinks; their connections end with the test."""
    made: list[Sink] = []

    def make(bootstrap: str, topic: str, transactional_id: str = "", **settings: str) -> Sink:
        made.append(Sink(bootstrap, topic, transactional_id, **settings))
        return made[-1]

    yield make
    for one in made:
        one.cluster.close()


@pytest.fixture
def sink(bootstrap: str, make_sink: MakeSink) -> Sink:
    return make_sink(bootstrap, make_topic(bootstrap))


def without_markers(addresses: list[str]) -> list[str] | None:
    """Return the ids of all transactions that are decided but whose markers are not written yet.

    None while a coordinator is loading, as it lists none of its own then.
    """
    found = []
    for address in addresses:
        # a dead node coordinates nothing
        with suppress(ConnectionRefusedError), WireClient(address) as client:
            states = ["PrepareCommit", "PrepareAbort"]
            answer = client.call("list_transactions", 1, state_filters=states, producer_id_filters=[])
            if answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return None
            assert answer.error_code == ErrorCode.NONE, answer
            found += [one.transactional_id for one in answer.transaction_states]
    return found


def committed(sink: Sink) -> dict[bytes, int]:
    """Return how often a reader of committed records finds each value, after all markers are written."""
    assert sink.options.topic is not None
    addresses = [f"{host}:{port}" for host, port in sink.options.client.bootstrap_servers]
    bootstrap = ",".join(addresses)
    assert eventually(lambda: without_markers(addresses), lambda found: found == []) == []
    return dict(values_of(read_topic(bootstrap, sink.options.topic)))


def test_batches_are_written_one_after_another(sink: Sink) -> None:
    for batch_id in range(4):
        begun = sink.driver.begin()
        tasks = [sink.task(begun, batch_id).write(f"{batch_id}.{number}") for number in range(2)]
        sink.driver.commit([task.report() for task in tasks], batch_id)

    assert committed(sink) == {f"{batch}.{task}".encode(): 1 for batch in range(4) for task in range(2)}
    assert sink.open_ids() == set()
    # Two slots of the record, two and a spare one for the next batch: ids do not grow with the batches.
    assert {slot.number for slot in (one.slot for one in begun.slots)} <= {0, 1, 2, 3, 4}


def test_an_older_task_of_an_aborted_batch_can_neither_write_nor_disturb(sink: Sink) -> None:
    older = sink.task(sink.driver.begin(), 0).write("older")

    begun = sink.new_driver().begin()
    with pytest.raises(KafkaError) as rejected:
        older.write("after it was given up")
    task = sink.task(begun, 0).write("once")
    sink.driver.commit([task.report()], 0)

    assert rejected.value.code in (*FENCED, ErrorCode.INVALID_TXN_STATE)
    assert committed(sink) == {b"once": 1}


def test_a_batch_that_failed_holds_back_no_reader(sink: Sink) -> None:
    """The query may not be started again for a long time."""
    begun = sink.driver.begin()
    reports = [sink.task(begun, 0).write(value).report() for value in ("a", "b")]
    assert len(sink.open_ids()) == 2

    sink.driver.abort(reports, 0)

    assert sink.open_ids() == set()
    assert committed(sink) == {}


def test_a_task_that_failed_holds_back_no_reader(sink: Sink) -> None:
    """Its next attempt writes in another slot, and Spark may not inform the driver for a long time."""
    begun = sink.driver.begin()
    failed = sink.task(begun, 0).write("of the first attempt")

    failed.transaction.give_up()
    open_after = sink.open_ids()
    again = sink.task(begun, 0).write("of the second one")
    sink.driver.commit([again.report()], 0)

    assert open_after == set()
    assert committed(sink) == {b"of the second one": 1}


def test_two_attempts_of_one_task_write_apart(sink: Sink) -> None:
    begun = sink.driver.begin()
    first, second = sink.task(begun, 0).write("a"), sink.task(begun, 0).write("a")
    first.write("b")
    second.write("b")

    sink.driver.commit([second.report()], 0)

    assert first.name != second.name
    # The first attempt holds back no reader, even if no other batch ever comes.
    assert sink.open_ids() == set()
    assert committed(sink) == {b"a": 1, b"b": 1}
    with pytest.raises(KafkaError):
        first.write("c")
    sink.driver.begin()
    assert sink.open_ids() == set()


def test_more_attempts_than_slots_get_ids_of_their_own(sink: Sink) -> None:
    begun = sink.driver.begin()
    tasks = [sink.task(begun, 0).write(f"{number}") for number in range(len(begun.slots) + 2)]

    sink.driver.commit([task.report() for task in tasks[1:]], 0)
    following = sink.driver.begin()

    slots = [report.participant.slot.number for task in tasks if (report := task.report()).participant]
    assert sum(number >= FIRST_UNPREPARED for number in slots) == 2
    assert committed(sink) == {b"%d" % number: 1 for number in range(1, len(tasks))}
    assert sink.open_ids() == set()
    assert len(following.slots) > len(tasks)


def test_a_record_of_many_tasks_is_committed_whole_or_not_at_all(sink: Sink) -> None:
    cluster, name, group = KafkaSinkCluster(sink.cluster), sink.names.coordinating, sink.names.group_id

    def write(batch_id: int, characters: int, *, commit: bool = True) -> CommittedOffset:
        pair = cluster.init([name], timeout_ms=60_000, two_phase=False)[name]
        record = CommittedOffset(offset=batch_id, metadata=f"{batch_id}" * characters)
        cluster.write_record(name, pair, group, record)
        assert cluster.end({name: pair}, commit=commit)[name] is None
        return record

    for batch_id, characters in ((1, 9_000), (2, 16_000), (3, 100), (4, 5_000)):
        committed = write(batch_id, characters)
        write(batch_id + 4, 12_000, commit=False)

        assert cluster.read_record(group) == committed
    with pytest.raises(
        OptionError, match=r"to 6 partitions of __consumer_offsets, which has only 4: use coalesce"
    ):
        write(9, 24_000)


def test_an_older_driver_cannot_decide(sink: Sink) -> None:
    old = sink.driver
    task = sink.task(old.begin(), 0).write("old")
    begun = sink.new_driver().begin()

    with pytest.raises((BatchExpired, KafkaError)):
        old.commit([task.report()], 0)
    old.abort([task.report()], 0)
    fresh = sink.task(begun, 0).write("new")
    sink.driver.commit([fresh.report()], 0)

    assert committed(sink) == {b"new": 1}


def test_a_driver_without_a_record_of_its_own_does_not_believe_a_stale_node(sink: Sink) -> None:
    """Such a node may report an earlier batch as the last one."""
    settled: list[str] = []

    class SettlingCluster(KafkaSinkCluster):
        def refresh_coordinator(self, group_id: str) -> None:
            settled.append(group_id)
            super().refresh_coordinator(group_id)

    driver = Driver(sink.options, SettlingCluster(sink.cluster), {})
    driver.commit([sink.task(driver.begin(), 0).write("a").report()], 0)
    driver.begin()
    assert settled == [sink.names.group_id]  # the second record is its own

    Driver(sink.options, SettlingCluster(sink.cluster), {}).begin()
    assert settled == [sink.names.group_id] * 2


def test_an_incarnation_ends_with_an_undecided_batch(sink: Sink) -> None:
    """Its tasks may still be running, unless none has begun."""
    first = sink.driver.begin()
    second = sink.driver.begin()
    sink.task(second, 0).write("a")

    assert second.incarnation == first.incarnation
    assert sink.driver.begin().incarnation != first.incarnation


def test_open_transactions_are_looked_for_at_first_and_each_minute(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that Spark gave up may begin a transaction at any time."""
    lists = 0

    class Listed(KafkaSinkCluster):
        def list_open(self, prefix: str) -> set[str] | None:
            nonlocal lists
            lists += 1
            return super().list_open(prefix)

    driver = Driver(sink.options, Listed(sink.cluster), {})
    found = []
    for now_ms in (0, SWEEP_INTERVAL_MS, SWEEP_INTERVAL_MS + 1, SWEEP_INTERVAL_MS + 2):
        monkeypatch.setattr("ottla.pipeline.sink.driver.monotonic_ms", lambda now_ms=now_ms: now_ms)
        driver.begin()
        found.append(lists)

    assert found == [1, 1, 2, 2]


def decide_only(sink: Sink, batch_id: int, *values: str) -> list[Task]:
    """Write a batch with a task for each value; its driver crashes right after its decision."""

    class DriverCrashed(Exception):
        pass

    class CrashingCluster(KafkaSinkCluster):
        def end(self, pairs, *, commit):  # type: ignore[no-untyped-def]
            if sink.names.coordinating not in pairs:
                raise DriverCrashed
            return super().end(pairs, commit=commit)

    begun = Driver(sink.options, KafkaSinkCluster(sink.cluster), {}).begin()
    tasks = [sink.task(begun, batch_id).write(value) for value in values]
    with pytest.raises(DriverCrashed):
        Driver(sink.options, CrashingCluster(sink.cluster), {}).commit(
            [task.report() for task in tasks], batch_id
        )
    return tasks


def test_a_decided_batch_is_completed_and_drained(sink: Sink) -> None:
    decide_only(sink, 0, "a", "b")
    assert committed(sink) == {}

    begun = sink.new_driver().begin()

    assert decide_batch(sink.run(0), begun.record, takes_over=False) is WriteDecision.DRAIN
    assert committed(sink) == {b"a": 1, b"b": 1}
    sink.new_driver().begin()  # it is not taken for lost if it was completed before
    sink.new_driver().begin()


def test_a_second_write_of_a_batch_is_rejected_also_in_the_run_that_found_it_written(sink: Sink) -> None:
    """If it were skipped like the first one, its rows would be lost."""
    decide_only(sink, 0, "a")
    begun = sink.new_driver().begin()
    run = sink.run(0)
    drained = TaskTransaction(sink.names, begun, run, KafkaSinkCluster(sink.cluster)).report(is_drained=True)

    sink.driver.commit([drained], 0)
    record = sink.driver.begin().record

    with pytest.raises(OptionError, match=r"transactional\.id: has already written batch 0"):
        decide_batch(run, record, takes_over=False)
    # The next run drains it once more, and continues.
    begun = sink.new_driver().begin()
    assert decide_batch(sink.run(0), begun.record, takes_over=False) is WriteDecision.DRAIN
    sink.driver.commit([sink.task(begun, 1).write("b").report()], 1)
    assert committed(sink) == {b"a": 1, b"b": 1}


def test_a_run_that_found_a_batch_written_writes_no_record_after_a_newer_driver_began(sink: Sink) -> None:
    decide_only(sink, 0, "a")
    old, begun = sink.new_driver(), sink.driver.begin()
    drained = TaskTransaction(sink.names, begun, sink.run(0), KafkaSinkCluster(sink.cluster)).report(
        is_drained=True
    )
    record = sink.new_driver().begin().record

    with pytest.raises(KafkaError, match=r"a newer driver uses transactional\.id=T") as rejected:
        old.commit([drained], 0)

    assert rejected.value.code in FENCED
    assert sink.driver.begin().record == record


def test_open_transactions_of_older_drivers_are_ended_but_not_those_of_another_sink(
    sink: Sink, bootstrap: str, make_sink: MakeSink
) -> None:
    other_sink = make_sink(bootstrap, make_topic(bootstrap), f"{sink.options.transactional_id}-1")
    left = [sink.task(sink.new_driver().begin(), 0).write("x") for _ in range(3)]
    theirs = other_sink.task(other_sink.driver.begin(), 0).write("theirs")

    sink.new_driver().begin()

    assert len({task.name for task in left}) == 3
    assert sink.open_ids() == {theirs.name}
    other_sink.driver.commit([theirs.report()], 0)
    assert committed(other_sink) == {b"theirs": 1}


def open_rows(sink: Sink, bootstrap: str) -> list[str]:
    """Return the lines that `ottla txn list` shows of a sink."""
    command = [sys.executable, "-m", "ottla", "txn", "list", "--bootstrap", bootstrap, "--state", "ongoing"]
    ran = subprocess.run(
        [*command, "--match", f"{re.escape(sink.options.transactional_id)}-.*"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran
    return ran.stdout.splitlines()[1:]


def test_the_command_line_shows_open_transactions(sink: Sink, bootstrap: str) -> None:
    task = sink.task(sink.driver.begin(), 0).write("x")

    [row] = open_rows(sink, bootstrap)

    assert row.startswith(f"{task.name} ") and row.endswith(" s")  # its duration and its timeout


def test_incarnations_are_reused_after_sixty_four(sink: Sink) -> None:
    first = sink.driver.begin().incarnation
    assert [sink.new_driver().begin().incarnation for _ in range(3)] == [
        (first + by) % INCARNATIONS for by in (1, 2, 3)
    ]


def retention_of(cluster: Cluster, group_id: str) -> str | None:
    """Return the group's setting; None if the cluster has none."""
    resource = DescribeConfigsResource(
        resource_type=GROUP, resource_name=group_id, configuration_keys=[RETENTION]
    )
    request = DescribeConfigsRequest(resources=[resource])
    response: DescribeConfigsResponse = cluster.connections.to_any().request(request)
    [value] = [one.value for result in response.results for one in result.configs] or [None]
    return value


def test_a_group_keeps_its_record_where_the_cluster_can(sink: Sink, client: MakeClient) -> None:
    other = f"g-{uuid4().hex}"
    is_ottla = keep_offsets(client(), other)

    sink.driver.begin()  # continues either way

    kept = KEEP_FOREVER if is_ottla else None
    assert retention_of(client(), other) == kept
    assert retention_of(client(), sink.options.transactional_id) == kept


def test_two_phases_are_rejected_by_name_if_the_cluster_lacks_them(
    bootstrap: str, make_sink: MakeSink
) -> None:
    sink = make_sink(bootstrap, make_topic(bootstrap), transaction_two_phase_commit_enable="true")

    with pytest.raises(OptionError, match=r"kafka\.transaction\.two\.phase\.commit\.enable: is true, but"):
        sink.driver.begin()


# ---- expiry --------------------------------------------------------------------------------------------

EXPIRES_SOON = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


def wait_until_expired(sink: Sink, task: Task) -> None:
    cluster = KafkaSinkCluster(sink.cluster)
    while (described := cluster.describe([task.name])[task.name]) and described.state == "Ongoing":
        pass


def test_a_batch_whose_transactions_expire_before_the_decision_runs_again(
    ottla_cluster_factory: Callable[..., Nodes], make_sink: MakeSink
) -> None:
    bootstrap = ottla_cluster_factory(nodes=1, overrides=EXPIRES_SOON).bootstrap
    sink = make_sink(bootstrap, make_topic(bootstrap), transaction_timeout_ms="500")
    task = sink.task(sink.driver.begin(), 0).write("a")

    wait_until_expired(sink, task)
    with pytest.raises(BatchExpired, match=f"Batch 0 was not written: {task.name} ended"):
        sink.driver.commit([task.report()], 0)
    sink.driver.abort([task.report()], 0)
    again = sink.task(sink.new_driver().begin(), 0).write("a")
    sink.driver.commit([again.report()], 0)

    assert committed(sink) == {b"a": 1}


def test_a_decided_batch_whose_transactions_expired_stops_every_start_by_name(
    ottla_cluster_factory: Callable[..., Nodes], make_sink: MakeSink
) -> None:
    bootstrap = ottla_cluster_factory(nodes=1, overrides=EXPIRES_SOON).bootstrap
    sink = make_sink(bootstrap, make_topic(bootstrap), transaction_timeout_ms="500")
    tasks = decide_only(sink, 0, "a")

    wait_until_expired(sink, tasks[0])

    for _ in range(2):
        with pytest.raises(TransactionsLost, match=f"Batch 0 was decided, .*{tasks[0].name}"):
            sink.new_driver().begin()


# Long enough for a batch, during which nothing may be forgotten.
FORGETS_SOON = {
    **EXPIRES_SOON,
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
}


def wait_until_forgotten(sink: Sink, tasks: list[Task]) -> None:
    cluster = KafkaSinkCluster(sink.cluster)
    while any(cluster.describe([task.name for task in tasks]).values()):
        time.sleep(0.05)


def test_a_query_continues_after_its_ids_were_forgotten_but_not_without_its_rows(
    ottla_cluster_factory: Callable[..., Nodes], make_sink: MakeSink
) -> None:
    bootstrap = ottla_cluster_factory(nodes=1, overrides=FORGETS_SOON).bootstrap
    whole, late = (make_sink(bootstrap, make_topic(bootstrap)) for _ in range(2))
    lost = make_sink(bootstrap, make_topic(bootstrap), transaction_timeout_ms="500")
    of_lost = decide_only(lost, 0, "a")
    of_late = decide_only(late, 0, "a")
    late.new_driver().begin()  # completes it
    of_whole = [whole.task(whole.driver.begin(), 0).write("a")]
    whole.driver.commit([task.report() for task in of_whole], 0)

    for sink, tasks in ((lost, of_lost), (late, of_late), (whole, of_whole)):
        wait_until_forgotten(sink, tasks)

    for sink in (whole, late):
        task = sink.task(sink.new_driver().begin(), 1).write("b")
        sink.driver.commit([task.report()], 1)
        assert committed(sink) == {b"a": 1, b"b": 1}
    with pytest.raises(TransactionsLost, match="the coordinator does not know it"):
        lost.new_driver().begin()


def test_with_two_phases_a_decided_batch_outlives_any_pause(
    ottla_cluster_factory: Callable[..., Nodes], make_sink: MakeSink
) -> None:
    overrides = {**EXPIRES_SOON, "transaction.two.phase.commit.enable": "true"}
    bootstrap = ottla_cluster_factory(nodes=1, overrides=overrides).bootstrap
    topic = make_topic(bootstrap)
    sink = make_sink(bootstrap, topic, transaction_timeout_ms="500")
    tasks = decide_only(sink, 0, "a", "b")
    other = make_sink(
        bootstrap, topic, transaction_timeout_ms="500", transaction_two_phase_commit_enable="false"
    )
    expiring = other.task(other.driver.begin(), 0).write("expires")

    wait_until_expired(other, expiring)  # long enough for one with a timeout, so also for those without one

    assert sink.open_ids() == {task.name for task in tasks}
    assert [row.split()[-2:] for row in open_rows(sink, bootstrap)] == [["none", "(two-phase)"]] * len(tasks)
    begun = sink.new_driver().begin()
    assert begun.two_phase
    assert committed(sink) == {b"a": 1, b"b": 1}


# ---- nodes that die ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "victim", ["the leader", "a coordinator of transactions", "the coordinator of the group"]
)
def test_a_node_dies_in_the_middle_of_a_batch(
    ottla_cluster_factory: Callable[..., Nodes], victim: str, make_sink: MakeSink
) -> None:
    nodes = ottla_cluster_factory(nodes=3)
    topic = make_topic(nodes.bootstrap, replicas=3)
    sink = make_sink(nodes.bootstrap, topic)
    begun = sink.driver.begin()
    first = sink.task(begun, 0).write("a")
    node_id = {
        "the leader": nodes.leader_of(topic, 0),
        "a coordinator of transactions": sink.cluster._coordinators[CoordinatorType.TRANSACTION, first.name],
        "the coordinator of the group": sink.cluster._coordinators[
            CoordinatorType.GROUP, sink.names.group_id
        ],
    }[victim]

    nodes.kill(node_id)
    first.write("b")
    sink.driver.commit([first.report()], 0)
    second = sink.task(sink.driver.begin(), 1).write("c")
    nodes.restart(node_id)
    sink.driver.commit([second.report()], 1)

    end = TopicPartition(topic, 0)
    reader = Cluster(settings_for(nodes.bootstrap, Role.SOURCE, isolation_level="read_committed"))
    while (
        list_offsets(reader, {end: LATEST})[end] < 5
    ):  # the last marker is still under way when EndTxn is answered
        pass
    reader.close()
    assert committed(sink) == {b"a": 1, b"b": 1, b"c": 1}
