"""A node inside the test process: its start and end, data directory, limits, and what it holds in memory."""

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.node.broker import Broker
from ottla.node.net.connection import Connection
from ottla.node.net.connection_reserve import MAX_LOCAL
from tests.compat.batches import batch
from tests.compat.wire_client import Closed, WireClient, eventually, only
from tests.integration.embedded_broker import EmbeddedBroker

Start = Callable[..., EmbeddedBroker]


def create(client: WireClient, name: str, partitions: int = 1) -> None:
    topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1}]
    assert only(client.call("create_topics", 7, topics=topics, timeout_ms=5000).topics).error_code == 0


def produce(client: WireClient, name: str, records: bytes, index: int = 0) -> int:
    data = [{"name": name, "partition_data": [{"index": index, "records": records}]}]
    answer = only(client.call("produce", 9, acks=-1, timeout_ms=5000, topic_data=data).responses)
    partition = only(answer.partition_responses)
    assert partition.error_code == 0, partition
    return int(partition.base_offset)


def commit_an_offset(client: WireClient, group_id: str, topic: str) -> None:
    partitions = [{"partition_index": 0, "committed_offset": 0}]
    commit = {"group_id": group_id, "topics": [{"name": topic, "partitions": partitions}]}

    def code() -> int:
        answer = only(client.call("offset_commit", 8, **commit).topics)
        return int(only(answer.partitions).error_code)

    client.call("find_coordinator", 4, key_type=0, coordinator_keys=[group_id])
    assert eventually(code, lambda found: found == 0) == 0


def test_a_second_node_on_the_same_data_is_rejected(embedded: Start) -> None:
    embedded()

    with pytest.raises(KafkaError) as refused:
        embedded()
    assert "in use" in refused.value.detail


def test_a_node_with_another_id_is_rejected(embedded: Start, tmp_path: Path) -> None:
    first = embedded(node_id=1)
    first.call(lambda broker: None)
    other = tmp_path / "other"
    other.mkdir()
    (other / "meta.properties").write_bytes((tmp_path / "embedded" / "meta.properties").read_bytes())

    with pytest.raises(KafkaError):
        embedded(node_id=2, log_dirs=str(other))


def test_work_that_metadata_start_while_a_node_stops_ends_with_it(embedded: Start) -> None:
    """Committed metadata are applied until the node has ended, and can start work.

    For example, a follower then has something to report to its leader.
    """
    node = embedded()
    steps = []

    async def work() -> None:
        steps.append("begun")
        try:
            await asyncio.sleep(3600)
        finally:
            steps.append("ended")

    def begin_work_later(broker: Broker) -> None:
        close = broker.quorum_services.metadata.close

        def closed() -> None:
            node.loop.call_soon(lambda: broker.base.tasks.start(work()))
            close()

        broker.quorum_services.metadata.close = closed  # type: ignore[method-assign]

    node.call(begin_work_later)
    node.stop()

    assert steps == ["begun", "ended"]


def test_work_that_starts_after_a_failure_ends_with_the_node(embedded: Start) -> None:
    node = embedded()
    begun: list[asyncio.Task[None]] = []

    async def fail() -> None:
        raise OSError(5, "Input/output error")

    def begin_after_failure(broker: Broker) -> None:
        failing = broker.base.tasks.start(fail())
        failing.add_done_callback(lambda _: begun.append(broker.base.tasks.start(asyncio.sleep(3600))))

    node.call(begin_after_failure)
    with pytest.raises(BaseExceptionGroup) as raised:
        node.stop()

    assert [str(one) for one in raised.value.exceptions] == ["[Errno 5] Input/output error"]
    assert [task.cancelled() for task in begun] == [True]


class RefusingGroup:
    """A task group as on Python 3.13 after a task has failed: it rejects new tasks and closes them."""

    def create_task(self, work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        raise RuntimeError(f"{self!r} is shutting down")


def test_work_that_a_task_group_rejects_ends_as_if_it_had_started(embedded: Start) -> None:
    node = embedded()

    def begin_while_refused(broker: Broker) -> "asyncio.Task[None]":
        tasks = broker.base.tasks
        group, tasks._group = tasks._group, RefusingGroup()  # type: ignore[assignment]
        try:
            return tasks.start(asyncio.sleep(3600))
        finally:
            tasks._group = group

    refused = node.call(begin_while_refused)
    node.stop()

    assert refused.cancelled()


def test_coordinators_can_start_work_after_a_failure(
    embedded: Start,
) -> None:
    """Until the node has ended, metadata can order shards to load, and clients can need producer ids."""
    node = embedded()
    with contextlib.closing(WireClient(node.bootstrap)) as client:
        create(client, "t")
        commit_an_offset(client, "g", "t")
    begun: list[str] = []

    async def fail() -> None:
        raise OSError(5, "Input/output error")

    def begin(broker: Broker) -> None:
        broker.services.groups.shards.clear()
        broker.services.groups.refresh()
        begun.append("loads")
        broker.services.txns._take_id(lambda _: None)
        begun.append("ids")

    def begin_after_failure(broker: Broker) -> None:
        broker.base.tasks.start(fail()).add_done_callback(lambda _: begin(broker))

    node.call(begin_after_failure)
    with pytest.raises(BaseExceptionGroup):
        node.stop()

    assert begun == ["loads", "ids"]


def test_a_metadata_log_that_cannot_be_written_ends_the_node_with_a_sentence(embedded: Start) -> None:
    node = embedded()

    def fail(batch: object) -> None:
        raise OSError(28, "No space left on device")

    node.call(
        lambda broker: setattr(broker.quorum_services.metadata._quorum._settings.journal, "_write", fail)
    )
    with contextlib.closing(WireClient(node.bootstrap)) as client:
        topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
        with contextlib.suppress(Closed):
            client.call("create_topics", 7, topics=topics, timeout_ms=5000)
    task = node.call(lambda broker: broker.base.tasks._background)

    with pytest.raises(BaseExceptionGroup):
        node.stop()
    assert task is not None
    error = task.exception()
    assert isinstance(error, KafkaError) and "No space left on device" in error.detail


@pytest.mark.parametrize("lost", ["files", "directory"])
def test_a_node_with_partitions_but_without_metadata_does_not_start(
    embedded: Start, tmp_path: Path, lost: str
) -> None:
    node = embedded()
    with contextlib.closing(WireClient(node.bootstrap)) as client:
        create(client, "kept")
    node.stop()
    metadata = tmp_path / "embedded" / "__cluster_metadata-0"
    for path in metadata.iterdir():
        path.unlink()
    if lost == "directory":
        metadata.rmdir()

    with pytest.raises(KafkaError) as refused:
        embedded()

    assert "restore it from a backup" in refused.value.detail
    assert (tmp_path / "embedded" / "kept-0").exists()


def test_a_taken_port_is_reported_before_anything_is_written(embedded: Start, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(OSError):
            embedded(listeners=address)

    assert not (tmp_path / "embedded").exists()


def test_fifty_connections_that_announce_much_cost_little(broker: EmbeddedBroker) -> None:
    host, port = broker.bootstrap.split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            peer = stack.enter_context(socket.create_connection((host, int(port))))
            peer.sendall(struct.pack(">i", 100_000_000) + bytes(1024))
        deadline = time.monotonic() + 60
        while broker.call(lambda node: len(node.listeners[0].connections)) < 50:
            assert time.monotonic() < deadline
            time.sleep(0.01)

        assert broker.call(lambda node: node.base.receive_memory.used_bytes) <= 50 * 8192


def test_connections_are_counted_and_rejected_beyond_the_limit(embedded: Start) -> None:
    node = embedded(max_connections_per_ip=2)

    with WireClient(node.bootstrap) as first, WireClient(node.bootstrap) as second:
        assert first.call("api_versions", 0).error_code == 0
        assert second.call("api_versions", 0).error_code == 0
        raises = pytest.raises((Closed, OSError))
        with _reserve_in_use(node), raises, WireClient(node.bootstrap) as one_more:
            one_more.call("metadata", 4)

    deadline = time.monotonic() + 60
    while not _serves(node):  # the node may not have noticed yet that the others have disconnected
        assert time.monotonic() < deadline


@contextmanager
def _reserve_in_use(node: EmbeddedBroker) -> Iterator[None]:
    """Open all connections that the node accepts from this machine beyond the limits, and use each."""
    with ExitStack() as held:
        for _ in range(MAX_LOCAL):
            administrator = held.enter_context(WireClient(node.bootstrap))
            assert administrator.call("metadata", 4).brokers
        yield


def _serves(node: EmbeddedBroker) -> bool:
    try:
        with WireClient(node.bootstrap) as client:
            return bool(client.call("api_versions", 0).error_code == 0)
    except (Closed, OSError):
        return False


def test_the_limits_of_connections_change_while_the_node_runs(embedded: Start) -> None:
    node = embedded()

    with WireClient(node.bootstrap) as admin:

        def limit(name: str, value: str | None) -> None:
            change = {"name": name, "config_operation": 0 if value is not None else 1, "value": value}
            resource = {"resource_type": 4, "resource_name": "", "configs": [change]}
            answer = admin.call("incremental_alter_configs", 1, resources=[resource])
            assert answer.responses[0].error_code == 0, answer

        for name in ("max.connections", "max.connections.per.ip", "listener.name.plaintext.max.connections"):
            limit(name, "1")
            raises = pytest.raises((Closed, OSError))
            with _reserve_in_use(node), raises, WireClient(node.bootstrap) as refused:
                refused.call("metadata", 4)
            limit(name, None)
            with WireClient(node.bootstrap) as served:
                assert served.call("api_versions", 0).error_code == 0


@pytest.mark.slow
def test_idle_connections_are_closed(embedded: Start) -> None:
    node = embedded(connections_max_idle_ms=400)

    with WireClient(node.bootstrap) as client:
        client.call("api_versions", 0)
        assert client.is_closed()


def test_a_waiting_fetch_is_woken_by_an_append(broker: EmbeddedBroker) -> None:
    with WireClient(broker.bootstrap) as reader, WireClient(broker.bootstrap) as writer:
        create(writer, "woken")
        wanted = [{"topic": "woken", "partitions": [{"partition": 0, "partition_max_bytes": 10_000}]}]
        sent = reader.send("fetch", 11, max_wait_ms=50_000, min_bytes=1, topics=wanted)
        began = time.monotonic()

        produce(writer, "woken", batch())

        found = only(only(reader.receive("fetch", 11, sent).responses).partitions)
        assert len(found.records) == len(batch())
        assert time.monotonic() - began < 40


def test_a_waiting_consumer_is_answered_before_the_producer(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with WireClient(broker.bootstrap) as reader, WireClient(broker.bootstrap) as writer:
        create(writer, "first")
        produce(writer, "first", batch())
        wanted = [
            {
                "topic": "first",
                "partitions": [{"partition": 0, "fetch_offset": 1, "partition_max_bytes": 10_000}],
            }
        ]
        sent = reader.send("fetch", 11, max_wait_ms=50_000, min_bytes=1, topics=wanted)
        assert eventually(lambda: waiting_fetches(broker, "first"), lambda count: count == 1) == 1
        answered: list[Connection] = []
        write = Connection.write

        def note(connection: Connection, answer: Any) -> None:
            answered.append(connection)
            write(connection, answer)

        monkeypatch.setattr(Connection, "write", note)

        produce(writer, "first", batch())
        reader.receive("fetch", 11, sent)

        ports = [one._transport.get_extra_info("peername")[1] for one in answered]
        assert ports == [one.socket.getsockname()[1] for one in (reader, writer)]


def test_a_client_that_disconnects_while_it_waits_leaves_nothing_behind(broker: EmbeddedBroker) -> None:
    with WireClient(broker.bootstrap) as writer:
        create(writer, "left")
        with WireClient(broker.bootstrap) as reader:
            wanted = [{"topic": "left", "partitions": [{"partition": 0, "partition_max_bytes": 10_000}]}]
            reader.send("fetch", 11, max_wait_ms=60_000, min_bytes=1, topics=wanted)
            assert eventually(lambda: waiting_fetches(broker, "left"), lambda count: count == 1) == 1

        assert eventually(lambda: waiting_fetches(broker, "left"), lambda count: count == 0) == 0


def waiting_fetches(broker: EmbeddedBroker, topic: str) -> int:
    return broker.call(lambda node: len(node.services.replica_manager.partition((topic, 0)).delayed_fetches))


def test_acknowledged_records_survive_a_restart(embedded: Start, tmp_path: Path) -> None:
    data = str(tmp_path / "kept")
    node = embedded(log_dirs=data)
    with WireClient(node.bootstrap) as client:
        create(client, "kept", 3)
        offsets = [produce(client, "kept", batch(), index) for index in (0, 1, 1, 2)]
    assert offsets == [0, 0, 1, 0]
    node.stop()

    again = embedded(log_dirs=data)

    with WireClient(again.bootstrap) as client:
        assert produce(client, "kept", batch(), 1) == 2
        wanted = [{"topic": "kept", "partitions": [{"partition": 1, "partition_max_bytes": 10_000}]}]
        found = only(only(client.call("fetch", 11, max_wait_ms=0, topics=wanted).responses).partitions)
        assert (found.error_code, found.high_watermark) == (0, 3)
        assert len(found.records) == 3 * len(batch())


def test_a_replica_moves_to_another_log_directory(embedded: Start, tmp_path: Path) -> None:
    dirs = [str(tmp_path / name) for name in ("one", "two")]
    node = embedded(log_dirs=",".join(dirs))
    with WireClient(node.bootstrap) as client:
        create(client, "moved")
        produce(client, "moved", batch())
        place = node.call(
            lambda broker: str(broker.services.replica_manager.partition(("moved", 0)).log.directory.parent)
        )
        other = next(one for one in dirs if one != place)
        wanted = [{"path": other, "topics": [{"name": "moved", "partitions": [0]}]}]

        answer = client.call("alter_replica_log_dirs", 2, dirs=wanted)

        assert only(only(answer.results).partitions).error_code == ErrorCode.NONE
        deadline = time.monotonic() + 60
        while _place_of(client, "moved") != [other]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert produce(client, "moved", batch()) == 1
        unknown = client.call("alter_replica_log_dirs", 2, dirs=[{**wanted[0], "path": "/nowhere"}])
        assert only(only(unknown.results).partitions).error_code == ErrorCode.LOG_DIR_NOT_FOUND


def _place_of(client: WireClient, topic: str) -> list[str]:
    answer = client.call("describe_log_dirs", 4, topics=[{"topic": topic, "partitions": [0]}])
    assert all(one.total_bytes > 0 for one in answer.results)
    return [one.log_dir for one in answer.results if one.topics]


def test_a_failed_task_is_logged_and_stops_the_node_gracefully(
    embedded: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "failed"
    node = embedded(log_dirs=str(data))
    with WireClient(node.bootstrap) as client:
        create(client, "kept")

    async def fail() -> None:
        raise RuntimeError("this part has failed")

    node.call(lambda broker: broker.base.tasks.start(fail()))

    with pytest.raises(BaseExceptionGroup) as ended:
        node.stop()
    assert "this part has failed" in str(ended.value.exceptions)
    [line] = [one.getMessage() for one in caplog.records if "a part of it failed" in one.getMessage()]
    assert "fail" in line and line.endswith(": this part has failed")
    assert (data / ".kafka_cleanshutdown").exists(), "the logs are closed nevertheless"


def test_partitions_of_a_failed_log_directory_have_no_leader_in_the_metadata(
    embedded: Start, tmp_path: Path
) -> None:
    node = embedded(log_dirs=f"{tmp_path}/a,{tmp_path}/b")
    with WireClient(node.bootstrap) as client:
        create(client, "spread", partitions=4)
        failing = node.broker.base.log_manager.dirs[1]
        logs = node.broker.base.log_manager.logs
        lost = {name.partition for name, one in logs.items() if one.directory.parent == failing.path}
        assert len(lost) == 2

        node.call(lambda broker: broker.base.log_manager.take_offline(failing, "pulled out by the test"))
        deadline = time.monotonic() + 60
        while True:
            topic = only(client.call("metadata", 12, topics=[{"name": "spread"}]).topics)
            leaderless = {one.partition_index for one in topic.partitions if one.leader_id == -1}
            if leaderless or time.monotonic() > deadline:
                break

        assert leaderless == lost
        codes = {one.error_code for one in topic.partitions if one.partition_index in lost}
        assert codes == {ErrorCode.LEADER_NOT_AVAILABLE}
        assert _offline(topic) == lost
        described = only(
            client.call(
                "describe_topic_partitions", 0, topics=[{"name": "spread"}], response_partition_limit=9
            ).topics
        )
        assert _offline(described) == lost
        assert {(one.leader_id, one.error_code) for one in described.partitions} == {(0, 0), (-1, 0)}
        produce(client, "spread", batch(), index=min({0, 1, 2, 3} - lost))


def _offline(topic: Any) -> set[int]:
    """Return the partitions of a topic that have an offline replica."""
    return {one.partition_index for one in topic.partitions if list(one.offline_replicas)}


def test_a_log_directory_that_is_gone_at_start_has_offline_replicas_until_it_is_back(
    embedded: Start, tmp_path: Path
) -> None:
    settings = {"log_dirs": f"{tmp_path}/a,{tmp_path}/b"}
    node = embedded(**settings)
    with WireClient(node.bootstrap) as client:
        create(client, "spread", partitions=4)
        logs = node.broker.base.log_manager.logs
        lost = {name.partition for name, one in logs.items() if one.directory.parent == tmp_path / "b"}
    node.stop()
    (tmp_path / "b").rename(tmp_path / "unplugged")
    (tmp_path / "b").touch()
    seen = []

    for _ in range(2):
        node = embedded(**settings)
        with WireClient(node.bootstrap) as client:
            topic = only(client.call("metadata", 12, topics=[{"name": "spread"}]).topics)
            leaderless = {one.partition_index for one in topic.partitions if one.leader_id == -1}
            seen.append((leaderless, _offline(topic)))
        node.stop()
        if not (tmp_path / "b").is_dir():
            (tmp_path / "b").unlink()
            (tmp_path / "unplugged").rename(tmp_path / "b")

    assert seen == [(lost, lost), (set(), set())]
