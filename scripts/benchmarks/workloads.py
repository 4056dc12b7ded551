"""The table of workloads on one server, each a function of a running server that returns its figures.

`wire` workloads replay prebuilt frames, so the server is the bottleneck; `client` workloads run librdkafka,
and show the view of an application, the client's own CPU included.
"""

import socket
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import AdminClient

from benchmarks import (
    clients,
    frames,
    group_heartbeats,
    group_load,
    group_members,
    groups,
    load,
    transactions,
)
from benchmarks.servers import Server
from benchmarks.workload import Figures, Plan, Workload

MB = 1_000_000
KILOBYTE_BATCH, MEGABYTE_BATCH = 64 << 10, 1_000_000  # under the default max.message.bytes of 1,048,588
PARTITIONS = 4
SMALL_CONNECTIONS = 32
IDLE_CONNECTIONS = 200
MANY_PARTITIONS = 1000
LATENCY_RATE = 1000
LATENCY_SECONDS = 3.0  # so that 30 records lie beyond the 99th percentile
MEMORY_AFTER_BYTES = 1 << 30


def throughput(server: Server, cpu_before: float, done: load.Done) -> Figures:
    cpu = server.cpu_seconds() - cpu_before
    figures = {
        "MB/s": done.payload_bytes / MB / done.seconds,
        "CPU s/GB": cpu / (done.payload_bytes / 1e9),
    }
    if done.requests:
        figures["requests/s"] = done.requests / done.seconds
    return figures


def wire_produce(
    record_bytes: int, batch_bytes: int, acks: int = 1, compression: str = "none", idempotent: bool = False
) -> Callable[[Server, Plan], Figures]:
    batches: list[frames.Batch] = []  # built by the first run, reused by the others

    def run(server: Server, plan: Plan) -> Figures:
        if not batches:
            batches.append(
                frames.build_batch(record_bytes, batch_bytes, compression, int(time.time() * 1000))
            )
        topic = clients.create_topic(server.bootstrap, PARTITIONS)
        ids = [producer_id(server.port) for _ in range(PARTITIONS)] if idempotent else None
        before = server.cpu_seconds()
        done = load.produce(
            [server.port],
            topic,
            batches[0],
            acks=acks,
            connections=PARTITIONS,
            seconds=plan.seconds,
            limit_bytes=plan.limit_bytes,
            producer_ids=ids,
        )
        figures = throughput(server, before, done)
        clients.delete_topic(server.bootstrap, topic)
        return figures

    return run


def producer_id(port: int) -> int:
    with load.connect(port) as connection:
        body = frames.header(22, 0) + b"\xff\xff" + (60_000).to_bytes(4)
        for _ in range(50):
            connection.sendall(len(body).to_bytes(4) + body)
            answer = bytearray(4 + 4 + 4 + 2 + 8 + 2)
            load.receive_exactly(connection, memoryview(answer))
            if answer[12:14] == b"\0\0":
                return int.from_bytes(answer[14:22])
            time.sleep(0.1)  # a fresh broker may still be loading its coordinators
    raise RuntimeError("InitProducerId still fails after 5 s")


def client_produce(record_bytes: int, batch_bytes: int, **settings: Any) -> Callable[[Server, Plan], Figures]:
    def run(server: Server, plan: Plan) -> Figures:
        topic = clients.create_topic(server.bootstrap, PARTITIONS)
        before = server.cpu_seconds()
        done = clients.produce(
            server.bootstrap,
            topic,
            partitions=PARTITIONS,
            record_bytes=record_bytes,
            seconds=plan.seconds,
            limit_bytes=plan.limit_bytes,
            settings={
                "batch.size": batch_bytes,
                **{name.replace("_", "."): value for name, value in settings.items()},
            },
        )
        figures = throughput(server, before, done)
        clients.delete_topic(server.bootstrap, topic)
        return figures

    return run


def filled_topic(server: Server, record_bytes: int, limit_bytes: int) -> tuple[str, int]:
    """Create a topic with `limit_bytes` of records in 64 KB batches; return its name and record count."""
    topic = clients.create_topic(server.bootstrap, PARTITIONS)
    batch = frames.build_batch(record_bytes, KILOBYTE_BATCH, timestamp_ms=int(time.time() * 1000))
    done = load.produce(
        [server.port], topic, batch, acks=1, connections=PARTITIONS, seconds=60, limit_bytes=limit_bytes
    )
    return topic, done.records


def wire_consume(record_bytes: int) -> Callable[[Server, Plan], Figures]:
    def run(server: Server, plan: Plan) -> Figures:
        topic, _ = filled_topic(server, record_bytes, plan.limit_bytes)
        before = server.cpu_seconds()
        done = load.consume(
            server.port, topic, partitions=PARTITIONS, seconds=plan.seconds, record_bytes=record_bytes
        )
        figures = throughput(server, before, done)
        clients.delete_topic(server.bootstrap, topic)
        return figures

    return run


def client_consume(record_bytes: int) -> Callable[[Server, Plan], Figures]:
    def run(server: Server, plan: Plan) -> Figures:
        topic, records = filled_topic(server, record_bytes, plan.limit_bytes)
        before = server.cpu_seconds()
        done = clients.consume(
            server.bootstrap, topic, records=records, record_bytes=record_bytes, seconds=2 * plan.seconds
        )
        figures = throughput(server, before, done)
        clients.delete_topic(server.bootstrap, topic)
        return figures

    return run


def small_requests(server: Server, plan: Plan, *, in_flight: int = load.IN_FLIGHT) -> Figures:
    """Produce one record a request with acks=1."""
    topic = clients.create_topic(server.bootstrap, PARTITIONS)
    before = server.cpu_seconds()
    done = load.small_requests(
        [server.port],
        topic,
        PARTITIONS,
        connections=SMALL_CONNECTIONS,
        seconds=plan.seconds,
        in_flight=in_flight,
    )
    cpu = server.cpu_seconds() - before
    clients.delete_topic(server.bootstrap, topic)
    return {"requests/s": done.requests / done.seconds, "CPU us/request": cpu * 1e6 / done.requests}


def warm_up(server: Server) -> None:
    """Send small requests until their rate stops rising."""
    load.warm_up(lambda: small_requests(server, Plan(seconds=1.0))["requests/s"])


def small_requests_one_by_one(server: Server, plan: Plan) -> Figures:
    """Produce as clients that wait for each response: a read and a write of the socket for every request."""
    return small_requests(server, plan, in_flight=1)


def idle_clients(server: Server, plan: Plan) -> Figures:
    """Produce small requests beside 200 idle connections, and measure the memory of these."""
    rss = server.rss_mb()
    idle: list[socket.socket] = []
    try:
        for _ in range(IDLE_CONNECTIONS):
            connection = load.connect(server.port)
            request = frames.header(18, 0)
            connection.sendall(len(request).to_bytes(4) + request)
            answer = bytearray(4)
            load.receive_exactly(connection, memoryview(answer))
            load.receive_exactly(connection, memoryview(bytearray(int.from_bytes(answer))))
            idle.append(connection)
        return {**small_requests(server, plan), "MB RSS more": max(0.0, server.rss_mb() - rss)}
    finally:
        for connection in idle:
            connection.close()


def many_partitions(server: Server, plan: Plan) -> Figures:
    """Measure a topic of 1000 partitions: creation, metadata, and requests that write to 100 of them."""
    began = time.perf_counter()
    topic = clients.create_topic(server.bootstrap, MANY_PARTITIONS)
    created = time.perf_counter() - began
    admin = AdminClient({"bootstrap.servers": server.bootstrap, **clients.QUIET})
    began = time.perf_counter()
    for _ in range(10):
        admin.list_topics(topic, timeout=clients.CALL_TIMEOUT_S)
    listed = (time.perf_counter() - began) / 10
    before = server.cpu_seconds()
    done = load.small_requests(
        [server.port], topic, MANY_PARTITIONS, connections=10, seconds=plan.seconds, spread=100
    )
    cpu = server.cpu_seconds() - before
    began = time.perf_counter()
    clients.delete_topic(server.bootstrap, topic)
    return {
        "create s": created,
        "metadata ms": listed * 1000,
        "partition writes/s": done.records / done.seconds,
        "CPU us/request": cpu * 1e6 / done.requests,
        "delete s": time.perf_counter() - began,
    }


def latency(server: Server, plan: Plan) -> Figures:
    topic = clients.create_topic(server.bootstrap, 1)
    before = server.cpu_seconds()
    began = time.perf_counter()
    taken = clients.end_to_end_ms(server.bootstrap, topic, rate=LATENCY_RATE, seconds=LATENCY_SECONDS)
    busy = (server.cpu_seconds() - before) / (time.perf_counter() - began)
    clients.delete_topic(server.bootstrap, topic)

    def percentile(share: float) -> float:
        return taken[min(len(taken) - 1, int(len(taken) * share))]

    return {
        "p50 ms": percentile(0.5),
        "p99 ms": percentile(0.99),
        "p99.9 ms": percentile(0.999),
        "CPU s/s": busy,
    }


def memory(server: Server, plan: Plan) -> Figures:
    """Measure the resident memory after 1 GB was produced and read once."""
    topic = clients.create_topic(server.bootstrap, PARTITIONS)
    batch = frames.build_batch(1000, KILOBYTE_BATCH, timestamp_ms=int(time.time() * 1000))
    load.produce(
        [server.port],
        topic,
        batch,
        acks=1,
        connections=PARTITIONS,
        seconds=120,
        limit_bytes=MEMORY_AFTER_BYTES,
    )
    load.consume(server.port, topic, partitions=PARTITIONS, seconds=plan.seconds, record_bytes=1000)
    figures = {"MB RSS": server.rss_mb()}
    clients.delete_topic(server.bootstrap, topic)
    return figures


PRODUCE_GOALS = {"MB/s": 1.5, "CPU s/GB": 0.5}
CONSUME_GOALS = {"MB/s": 1.0, "CPU s/GB": 0.5}
SMALL_GOALS = {"requests/s": 2.0, "CPU us/request": 0.5}
B64, B1M = KILOBYTE_BATCH, MEGABYTE_BATCH
# The speed of a shared machine changes from minute to minute, by more than the differences of interest.
SLICES = 3


def produces(name: str, run: Callable[[Server, Plan], Figures]) -> Workload[Server]:
    return Workload(name=f"wire produce {name}", run=run, goals=PRODUCE_GOALS, slices=SLICES)


def client_produces(name: str, run: Callable[[Server, Plan], Figures]) -> Workload[Server]:
    return Workload(name=f"client produce {name}", run=run, slices=SLICES)


def consumes(name: str, run: Callable[[Server, Plan], Figures]) -> Workload[Server]:
    return Workload(name=name, run=run, goals=CONSUME_GOALS, slices=SLICES)


def small(name: str, run: Callable[[Server, Plan], Figures], goals: dict[str, float]) -> Workload[Server]:
    return Workload(name=f"small requests{name}", run=run, goals=goals, slices=SLICES, prepare=warm_up)


WORKLOADS: list[Workload[Server]] = [
    produces("100 B, 64 KB, acks=1", wire_produce(100, B64)),
    produces("100 B, 64 KB, acks=all", wire_produce(100, B64, -1)),
    produces("100 B, 1 MB, acks=1", wire_produce(100, B1M)),
    produces("100 B, 1 MB, acks=all", wire_produce(100, B1M, -1)),
    produces("1 KB, 64 KB, acks=1", wire_produce(1000, B64)),
    produces("1 KB, 64 KB, acks=all", wire_produce(1000, B64, -1)),
    produces("1 KB, 1 MB, acks=1", wire_produce(1000, B1M)),
    produces("1 KB, 1 MB, acks=all", wire_produce(1000, B1M, -1)),
    produces("1 KB, 64 KB, idempotent", wire_produce(1000, B64, -1, idempotent=True)),
    produces("1 KB, 64 KB, lz4", wire_produce(1000, B64, -1, "lz4")),
    produces("1 KB, 64 KB, zstd", wire_produce(1000, B64, -1, "zstd")),
    client_produces("100 B, 64 KB, acks=1", client_produce(100, B64, acks="1")),
    client_produces("1 KB, 64 KB, acks=1", client_produce(1000, B64, acks="1")),
    client_produces("1 KB, 64 KB, acks=all", client_produce(1000, B64, acks="all")),
    client_produces("1 KB, 1 MB, acks=all", client_produce(1000, B1M, acks="all")),
    client_produces("1 KB, 64 KB, idempotent", client_produce(1000, B64, enable_idempotence=True)),
    client_produces("1 KB, 64 KB, lz4", client_produce(1000, B64, acks="all", compression_type="lz4")),
    client_produces("1 KB, 64 KB, zstd", client_produce(1000, B64, acks="all", compression_type="zstd")),
    consumes("wire consume 1 KB", wire_consume(1000)),
    consumes("client consume 1 KB", client_consume(1000)),
    consumes("client consume 100 B", client_consume(100)),
    small("", small_requests, SMALL_GOALS),
    small(", one in flight", small_requests_one_by_one, SMALL_GOALS),
    small(", 200 idle clients", idle_clients, {"requests/s": 2.0}),
    Workload(name="1000 partitions", run=many_partitions),
    Workload(
        name="end to end, 1000 records/s",
        run=latency,
        goals={"p99 ms": 1 / 3},
        slices=SLICES,
        prepare=warm_up,  # a JVM that still compiles would take the cores in the other's turns, too
    ),
    Workload(name="groups: commits of 1 partition", run=groups.commits(1), goals=groups.COMMIT_GOALS),
    Workload(name="groups: commits of 100 partitions", run=groups.commits(100), goals=groups.COMMIT_GOALS),
    Workload(
        name="groups: classic, one joins and leaves ten",
        run=group_members.one_joins_and_leaves("classic"),
        goals=group_members.GOALS,
    ),
    Workload(
        name="groups: consumer, one joins and leaves ten",
        run=group_members.one_joins_and_leaves("consumer"),
        goals=group_members.GOALS,
    ),
    Workload(name="groups: classic, 10,000 heartbeat", run=group_heartbeats.heartbeats("classic")),
    Workload(name="groups: consumer, 10,000 heartbeat", run=group_heartbeats.heartbeats("consumer")),
    Workload(name="groups: a million offsets are loaded", run=group_load.load_of_offsets),
    *(Workload(name=name, run=run, goals=goals) for name, run, goals in transactions.ROWS),
    Workload(name="memory after 1 GB", run=memory),
]
