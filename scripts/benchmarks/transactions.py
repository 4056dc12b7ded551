"""Transactions: commits a second, their latency, their cost to the servers, and reads of committed records.

`raw` rows drive producers with prebuilt frames over raw sockets, one transaction after the other each. With
transactions version 2 (KIP-890) these are a Produce that adds the partition and an EndTxn that bumps the
epoch; version 1 needs an AddPartitionsToTxn besides. `client` rows run librdkafka, which uses version 1.
Committed records are read by both: the client is limited by its own speed, raw sockets by the server's.
"""

import select
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from confluent_kafka import Consumer, Producer, TopicPartition
from crc32c import crc32c

from benchmarks import clients, committed_reads, frames, load
from benchmarks.workload import Figures, Plan

PARTITIONS = 6
PRODUCERS = 32
CLIENT_PRODUCERS = 8
RECORD_BYTES = 100
TIMEOUT_MS = 60_000
WARM_UP_S = 3.0
WAIT_LIMIT_S = 60.0
ATTRIBUTES_AT = 21
TRANSACTIONAL = 0x10
# Coordinators that load, markers in flight, partitions being verified: sent again after a pause.
RETRIABLE = {3, 5, 6, 14, 15, 16, 19, 20, 51}
RETRY_S = 0.02  # as Java's producer for the first partition of a transaction
COMMIT_GOALS = {"commits/s": 2.0, "CPU us/commit": 0.5}
READ_GOALS = {"MB/s": 1.0}
RECORDS_READ = 1_500_000
RECORDS_IN_ABORTED = 1_000

Frame = tuple[socket.socket, bytes]
Dialogue = Generator[Frame | float, bytes, None]


class Target(Protocol):
    """A server or a cluster."""

    @property
    def bootstrap(self) -> str: ...

    def cpu_seconds(self) -> float: ...


# ---- frames ------------------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def compact(value: bytes) -> bytes:
    return uvarint(len(value) + 1) + value


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def framed(header: bytes, body: bytes) -> bytes:
    return struct.pack(">i", len(header) + len(body)) + header + body


def flexible(api_key: int, version: int, body: bytes) -> bytes:
    return framed(frames.header(api_key, version) + b"\0", body + b"\0")


def stamped(batch: bytes, pair: tuple[int, int], sequence: int) -> bytes:
    """Return a batch as part of a transaction of this producer."""
    data = bytearray(batch)
    attributes = struct.unpack_from(">h", data, ATTRIBUTES_AT)[0]
    struct.pack_into(">h", data, ATTRIBUTES_AT, attributes | TRANSACTIONAL)
    struct.pack_into(">qhi", data, frames.PRODUCER_ID_AT, *pair, sequence)
    struct.pack_into(">I", data, frames.CRC_AT, crc32c(memoryview(data)[frames.CRC_FROM :]))
    return bytes(data)


class Version1:
    """The requests of transactions version 1: AddPartitionsToTxn 0, Produce 8, EndTxn 0."""

    moves_epoch = False

    def add(self, name: str, pair: tuple[int, int], topic: str, partition: int) -> bytes:
        body = text(name) + struct.pack(">qhi", *pair, 1) + text(topic) + struct.pack(">ii", 1, partition)
        return framed(frames.header(24, 0), body)

    def produce(self, name: str, topic: str, partition: int, batch: bytes) -> bytes:
        body = text(name) + struct.pack(">hii", -1, 30_000, 1) + text(topic)
        body += struct.pack(">iii", 1, partition, len(batch)) + batch
        return framed(frames.header(0, 8), body)

    def produce_error(self, answer: bytes, topic: str) -> int:
        return int(struct.unpack_from(">h", answer, 4 + 4 + 2 + len(topic) + 4 + 4)[0])

    def end(self, name: str, pair: tuple[int, int], committed: bool) -> bytes:
        return framed(frames.header(26, 0), text(name) + struct.pack(">qh?", *pair, committed))

    def ended(self, answer: bytes, pair: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        return struct.unpack_from(">h", answer, 8)[0], pair


class Version2:
    """The requests of transactions version 2: Produce 12, which adds its partition, and EndTxn 5."""

    moves_epoch = True

    def produce(self, name: str, topic: str, partition: int, batch: bytes) -> bytes:
        body = compact(name.encode()) + struct.pack(">hi", -1, 30_000) + b"\x02" + compact(topic.encode())
        body += b"\x02" + struct.pack(">i", partition) + compact(batch) + b"\0\0"
        return flexible(0, 12, body)

    def produce_error(self, answer: bytes, topic: str) -> int:
        return int(struct.unpack_from(">h", answer, 4 + 1 + 1 + 1 + len(topic) + 1 + 4)[0])

    def end(self, name: str, pair: tuple[int, int], committed: bool) -> bytes:
        return flexible(26, 5, compact(name.encode()) + struct.pack(">qh?", *pair, committed))

    def ended(self, answer: bytes, pair: tuple[int, int]) -> tuple[int, tuple[int, int]]:
        error, producer_id, epoch = struct.unpack_from(">hqh", answer, 4 + 1 + 4)
        return error, (producer_id, epoch) if error == 0 else pair


# ---- producers ---------------------------------------------------------------------------------------------


def request_until_ready(port: int, frame: bytes, error_at: int) -> bytes:
    """Send a request on its own connection until no retriable error comes; return the response."""
    deadline = time.monotonic() + WAIT_LIMIT_S
    with load.connect(port) as connection:
        while True:
            connection.sendall(frame)
            size = bytearray(4)
            load.receive_exactly(connection, memoryview(size))
            answer = bytearray(int.from_bytes(size))
            load.receive_exactly(connection, memoryview(answer))
            error = struct.unpack_from(">h", answer, error_at)[0]
            if error not in RETRIABLE or time.monotonic() > deadline:
                load.check(answer, error_at)
                return bytes(answer)
            time.sleep(RETRY_S)


def coordinator(port: int, name: str) -> int:
    """Return the port of a transactional id's coordinator."""
    answer = request_until_ready(port, framed(frames.header(10, 1), text(name) + b"\x01"), error_at=8)
    at = 10 + 2 + max(0, struct.unpack_from(">h", answer, 10)[0]) + 4
    at += 2 + struct.unpack_from(">h", answer, at)[0]
    return int(struct.unpack_from(">i", answer, at)[0])


def first_pair(port: int, name: str) -> tuple[int, int]:
    frame = framed(frames.header(22, 0), text(name) + struct.pack(">i", TIMEOUT_MS))
    producer_id, epoch = struct.unpack_from(">qh", request_until_ready(port, frame, error_at=8), 10)
    return producer_id, epoch


class Transactor:
    """A producer of transactions of one batch each, with the latencies of its commits."""

    def __init__(
        self, speaks: Version1 | Version2, name: str, topic: str, partition: int, leader: int, port: int
    ) -> None:
        self._speaks, self._name, self._topic, self._partition = speaks, name, topic, partition
        self._coordinator_port = coordinator(port, name)
        self._pair = first_pair(self._coordinator_port, name)
        self._leader = load.connect(leader)
        self._coordinator = (
            self._leader if leader == self._coordinator_port else load.connect(self._coordinator_port)
        )
        self._sequence = 0
        self.taken_ms: list[float] = []
        self.retries = 0

    def connections(self) -> list[socket.socket]:
        return list(
            {self._leader.fileno(): self._leader, self._coordinator.fileno(): self._coordinator}.values()
        )

    def run(self, batch: frames.Batch, until: float) -> Dialogue:
        """Run transactions one after the other; yields frames and pauses, and is sent the responses."""
        while time.perf_counter() < until:
            yield from self.transaction(batch)

    def transaction(self, batch: frames.Batch, *, commits: bool = True) -> Dialogue:
        speaks, name, topic = self._speaks, self._name, self._topic
        if isinstance(speaks, Version1):
            frame = speaks.add(name, self._pair, topic, self._partition)
            yield from self._until_done(self._coordinator, frame, lambda answer: answer[-2] << 8 | answer[-1])
        data = stamped(batch.data, self._pair, self._sequence)
        frame = speaks.produce(name, topic, self._partition, data)
        yield from self._until_done(self._leader, frame, lambda answer: speaks.produce_error(answer, topic))
        began = time.perf_counter()
        frame = speaks.end(name, self._pair, commits)
        answer = yield from self._until_done(
            self._coordinator, frame, lambda answer: speaks.ended(answer, self._pair)[0]
        )
        self._pair = speaks.ended(answer, self._pair)[1]
        self._sequence = 0 if speaks.moves_epoch else self._sequence + batch.records
        self.taken_ms.append(1000 * (time.perf_counter() - began))

    def _until_done(
        self, connection: socket.socket, frame: bytes, error_of: Callable[[bytes], int]
    ) -> Generator[Frame | float, bytes, bytes]:
        while True:
            answer = yield connection, frame
            error = error_of(answer)
            if error == 0:
                return answer
            if error not in RETRIABLE:
                raise RuntimeError(f"{self._name} got error {error}")
            self.retries += 1
            yield RETRY_S


def run_dialogues(dialogues: Sequence[tuple[Transactor, Dialogue]]) -> None:
    """Run all dialogues at once, until each has ended."""
    poll = select.epoll()
    waiting: dict[int, Dialogue] = {}
    pending: dict[int, bytes] = {}
    by_number = {one.fileno(): one for transactor, _ in dialogues for one in transactor.connections()}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
        pending[number] = b""
    delayed: list[tuple[float, Dialogue]] = []
    alive = len(dialogues)

    def go_on(dialogue: Dialogue, answer: bytes | None) -> None:
        nonlocal alive
        try:
            step = dialogue.send(answer)  # type: ignore[arg-type]  # None starts it
        except StopIteration:
            alive -= 1
            return
        if isinstance(step, float):
            delayed.append((time.perf_counter() + step, dialogue))
            return
        connection, frame = step
        waiting[connection.fileno()] = dialogue
        connection.sendall(frame)

    for _, dialogue in dialogues:
        go_on(dialogue, None)
    while alive:
        timeout = max(0.0, delayed[0][0] - time.perf_counter()) if delayed else load.SOCKET_TIMEOUT_S
        for number, _ in poll.poll(timeout):
            data = pending[number] + by_number[number].recv(1 << 16)
            if not data:
                raise ConnectionError("the server closed the connection")
            size = 4 + int.from_bytes(data[:4]) if len(data) >= 4 else 4
            if len(data) < size or size == 4:
                pending[number] = data
                continue
            pending[number] = b""
            go_on(waiting.pop(number), data[4:])
        while delayed and delayed[0][0] <= time.perf_counter():
            go_on(delayed.pop(0)[1], b"")
    poll.close()


def close(transactors: Sequence[Transactor]) -> None:
    for one in transactors:
        for connection in one.connections():
            connection.close()


# ---- workloads ---------------------------------------------------------------------------------------------


def new_topic(target: Target) -> str:
    nodes = target.bootstrap.count(",") + 1
    settings = {"min.insync.replicas": "2"} if nodes > 1 else {}
    return clients.create_topic(target.bootstrap, PARTITIONS, settings, replicas=min(3, nodes))


def figures_of(
    target: Target, cpu_before: float, seconds: float, taken_ms: list[float], retries: int | None
) -> Figures:
    cpu, taken = target.cpu_seconds() - cpu_before, sorted(taken_ms)
    figures = {
        "commits/s": len(taken) / seconds,
        "p50 ms": taken[len(taken) // 2],
        "p99 ms": taken[len(taken) * 99 // 100],
        "CPU us/commit": cpu * 1e6 / len(taken),
    }
    return figures if retries is None else {**figures, "retries/commit": retries / len(taken)}


def raw(
    speaks: Version1 | Version2, records: int, producers: int = PRODUCERS
) -> Callable[[Target, Plan], Figures]:
    """Return a workload of `producers` producers at once, with transactions of `records` records."""

    def run(target: Target, plan: Plan) -> Figures:
        topic = new_topic(target)
        ports = clients.leader_ports(target.bootstrap, topic)
        entry = int(target.bootstrap.partition(",")[0].rpartition(":")[2])
        batch = frames.build_batch(RECORD_BYTES, records * (RECORD_BYTES + 14) + frames.BATCH.size)
        run_id = uuid.uuid4().hex[:8]
        transactors = [
            Transactor(
                speaks,
                f"bench-{run_id}-{number}",
                topic,
                number % PARTITIONS,
                ports[number % PARTITIONS],
                entry,
            )
            for number in range(producers)
        ]
        for seconds in (WARM_UP_S, plan.seconds):
            for one in transactors:
                one.taken_ms, one.retries = [], 0
            cpu, began = target.cpu_seconds(), time.perf_counter()
            run_dialogues([(one, one.run(batch, began + seconds)) for one in transactors])
            taken_s = time.perf_counter() - began
        figures = figures_of(
            target,
            cpu,
            taken_s,
            [ms for one in transactors for ms in one.taken_ms],
            sum(one.retries for one in transactors),
        )
        close(transactors)
        clients.delete_topic(target.bootstrap, topic)
        return figures

    return run


def client(records: int, producers: int = CLIENT_PRODUCERS) -> Callable[[Target, Plan], Figures]:
    """Return the workload of `raw` through librdkafka, with the client's own cost."""

    def run(target: Target, plan: Plan) -> Figures:
        topic, payloads = new_topic(target), frames.values(records, RECORD_BYTES)
        made = []
        for number in range(producers):
            name = f"{topic}-{number}"
            settings: dict[str, Any] = {"transactional.id": name, "linger.ms": 0, **clients.QUIET}
            made.append(Producer({"bootstrap.servers": target.bootstrap, **settings}))
            made[-1].init_transactions(WAIT_LIMIT_S)
        taken: list[float] = []

        def drive(producer: Producer, partition: int, until: float, commit_times: list[float]) -> None:
            while time.perf_counter() < until:
                producer.begin_transaction()
                for payload in payloads:
                    producer.produce(topic, payload, partition=partition)
                producer.flush(WAIT_LIMIT_S)
                began = time.perf_counter()
                producer.commit_transaction(WAIT_LIMIT_S)
                commit_times.append(1000 * (time.perf_counter() - began))

        for seconds in (WARM_UP_S, plan.seconds):
            taken.clear()
            cpu, began = target.cpu_seconds(), time.perf_counter()
            threads = [
                threading.Thread(target=drive, args=(one, number % PARTITIONS, began + seconds, taken))
                for number, one in enumerate(made)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            taken_s = time.perf_counter() - began
        figures = figures_of(target, cpu, taken_s, taken, None)
        clients.delete_topic(target.bootstrap, topic)
        return figures

    return run


def consume(aborted_percent: int) -> Callable[[Target, Plan], Figures]:
    """Return a workload that reads a topic with aborted transactions by librdkafka, read_committed."""

    def run(target: Target, plan: Plan) -> Figures:
        topic, _, records = _filled_topic(target, aborted_percent)
        before = target.cpu_seconds()
        done = _read_committed(target, topic, sum(records), 4 * plan.seconds)
        return _read_figures(target, topic, target.cpu_seconds() - before, done, sum(records))

    return run


def raw_consume(aborted_percent: int) -> Callable[[Target, Plan], Figures]:
    """Return the workload of `consume` over raw sockets, which cost next to nothing themselves."""

    def run(target: Target, plan: Plan) -> Figures:
        topic, ports, records = _filled_topic(target, aborted_percent)
        committed_reads.read(ports, topic, records, 0.0)  # the first reading is from cold files
        before = target.cpu_seconds()
        seconds, count = committed_reads.read(ports, topic, records, plan.seconds)
        cpu = target.cpu_seconds() - before
        return _read_figures(target, topic, cpu, count * RECORD_BYTES / seconds, count)

    return run


def _read_figures(target: Target, topic: str, cpu: float, bytes_a_second: float, records: int) -> Figures:
    clients.delete_topic(target.bootstrap, topic)
    return {"MB/s": bytes_a_second / 1e6, "CPU s/GB": cpu / (records * RECORD_BYTES / 1e9)}


def _filled_topic(target: Target, aborted_percent: int) -> tuple[str, list[int], list[int]]:
    """Create and fill a topic.

    Return its name, the port of each partition's leader, and the number of committed records in each.
    """
    topic = new_topic(target)
    ports = clients.leader_ports(target.bootstrap, topic)
    entry = int(target.bootstrap.partition(",")[0].rpartition(":")[2])
    size_bytes = RECORDS_IN_ABORTED * (RECORD_BYTES + 14) + frames.BATCH.size
    # With the current time, so that retention does not delete the records meanwhile.
    batch = frames.build_batch(RECORD_BYTES, size_bytes, timestamp_ms=int(time.time() * 1000))
    transactors = [
        Transactor(Version1(), f"{topic}-{index}", topic, index, ports[index], entry)
        for index in range(PARTITIONS)
    ]
    wanted = RECORDS_READ // batch.records // PARTITIONS
    run_dialogues([(one, _fill(one, batch, wanted, aborted_percent)) for one in transactors])
    close(transactors)
    aborted = sum(number * aborted_percent % 100 < aborted_percent for number in range(wanted))
    return topic, ports, [(wanted - aborted) * batch.records] * PARTITIONS


def _fill(one: Transactor, batch: frames.Batch, count: int, aborted_percent: int) -> Dialogue:
    for number in range(count):
        is_aborted = number * aborted_percent % 100 < aborted_percent
        yield from one.transaction(batch, commits=not is_aborted)


def _read_committed(target: Target, topic: str, records: int, seconds: float) -> float:
    """Read all committed records and return the bytes a second; RuntimeError for more or fewer records."""
    consumer = Consumer(
        {
            "bootstrap.servers": target.bootstrap,
            "group.id": f"bench-{uuid.uuid4().hex[:8]}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
            **clients.QUIET,
        }
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    began = time.perf_counter()
    count = clients.read(consumer, records, WAIT_LIMIT_S + seconds)
    taken = time.perf_counter() - began
    count += len(consumer.consume(1, 0.2))  # aborted records would come after the committed ones
    consumer.close()
    if count != records:
        raise RuntimeError(f"read {count} committed records, not {records}")
    return records * RECORD_BYTES / taken


V1, V2 = Version1(), Version2()
ROWS: list[tuple[str, Callable[[Target, Plan], Figures], dict[str, float]]] = [
    ("txn: raw v2, 32 producers, 1 record", raw(V2, 1), COMMIT_GOALS),
    ("txn: raw v2, 32 producers, 10 records", raw(V2, 10), COMMIT_GOALS),
    ("txn: raw v2, 32 producers, 100 records", raw(V2, 100), COMMIT_GOALS),
    ("txn: raw v1, 32 producers, 1 record", raw(V1, 1), COMMIT_GOALS),
    ("txn: raw v2, one producer, 1 record", raw(V2, 1, 1), COMMIT_GOALS),
    ("txn: raw v1, one producer, 1 record", raw(V1, 1, 1), COMMIT_GOALS),
    ("txn: client, 8 producers, 1 record", client(1), COMMIT_GOALS),
    ("txn: client, 8 producers, 10 records", client(10), COMMIT_GOALS),
    ("txn: client, 8 producers, 100 records", client(100), COMMIT_GOALS),
    ("txn: client, 32 producers, 1 record", client(1, PRODUCERS), COMMIT_GOALS),
    ("txn: client, 32 producers, 10 records", client(10, PRODUCERS), COMMIT_GOALS),
    ("txn: client, 32 producers, 100 records", client(100, PRODUCERS), COMMIT_GOALS),
    ("txn: client, one producer, 1 record", client(1, 1), COMMIT_GOALS),
    ("txn: raw fetch committed, none aborted", raw_consume(0), READ_GOALS),
    ("txn: raw fetch committed, 10 % aborted", raw_consume(10), READ_GOALS),
    ("txn: raw fetch committed, 50 % aborted", raw_consume(50), READ_GOALS),
    ("txn: consume committed, none aborted", consume(0), READ_GOALS),
    ("txn: consume committed, 10 % aborted", consume(10), READ_GOALS),
    ("txn: consume committed, 50 % aborted", consume(50), READ_GOALS),
]
