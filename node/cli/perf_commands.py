"""`ottla perf ...`: measures how fast a cluster accepts and returns records, as Kafka's tools do.

The client is that of `ottla produce` and `consume`: it sends one request at a time to each leader and opens
each record. An interrupted command prints the figures so far. Each command returns the exit code.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.logstore.compression import Compression
from ottla.logstore.words.errors import ErrorCode, KafkaError
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.answers import answer, print_json
from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.cli.perf_figures import (
    END_TO_END_PERCENTILES,
    ConsumeFigures,
    Latencies,
    ProduceFigures,
    latency_document,
)
from ottla.node.cli.record_commands import find_start_offsets, parse_offset_spec, unknown_topic
from ottla.node.client import topic_admin
from ottla.node.client.ask_leaders import error_of, for_lookup
from ottla.node.client.cluster_client import Client
from ottla.node.client.consumer import Consumer
from ottla.node.client.producer import Producer, ProducerRecord

MAX_PAYLOAD_BYTES: Final = 64 * 1024 * 1024  # of --payload-file
PAYLOADS: Final = 1_000  # random ones, so that compression finds little in a batch
POOL_BYTES: Final = 16 * 1024 * 1024  # of all payloads
TURN_RECORDS: Final = 20_000  # added at a time: some 10 ms
PAUSE_S: Final = 0.001  # until the next records are due at a limited rate
EVERY: Final = 1_000  # records per line of `perf latency`
_LETTERS: Final = bytes(ord("A") + number % 26 for number in range(256))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """The topic that a measurement creates and deletes at its end; -1: the cluster's default."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceLoad:
    """The records that `ottla perf produce` sends; `throughput` in records per second, None for no limit."""

    topic: str
    records: int
    record_bytes: int
    throughput: float | None
    payload_file: Path | None
    acks: int
    compression: str
    creates: NewTopic | None
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeLoad:
    """The records that `ottla perf consume` reads; if `records` is None, all up to the current log ends."""

    topic: str
    records: int | None
    begin: str
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyLoad:
    """The records that `ottla perf latency` sends and reads, one after the other."""

    topic: str
    records: int
    record_bytes: int
    acks: int
    creates: NewTopic | None
    as_json: bool


# ---- produce -------------------------------------------------------------------------------------


async def produce(client: Client, load: ProduceLoad) -> int:
    """Send records; print the rate of acknowledged ones and their latencies."""
    payloads = _payloads(load.record_bytes, load.payload_file)
    async with client, _topic(client, load.topic, load.creates):
        producer = await _producer(client, load.topic, load.acks, load.compression)
        figures = ProduceFigures()
        try:
            await _send(producer, load, payloads, figures)
        finally:  # also after an interruption
            answer(figures.document(), figures.line(), as_json=load.as_json)
    return 0


async def _send(
    producer: Producer, load: ProduceLoad, payloads: Sequence[bytes], figures: ProduceFigures
) -> None:
    chance, begun_s, sent = random.Random(), time.monotonic(), 0
    while sent < load.records:
        due = load.records
        if load.throughput is not None:
            due = min(due, int((time.monotonic() - begun_s) * load.throughput) + 1)
        if due == sent:
            await asyncio.sleep(PAUSE_S)
            continue
        sizes: list[int] = []
        added_s: list[float] = []
        for _ in range(min(due - sent, TURN_RECORDS)):
            value = chance.choice(payloads)
            try:
                producer.add(ProducerRecord(None, value))
            except ValueError as error:
                raise CommandError(f"The records cannot be sent: {str(error).rstrip('.')}.") from None
            sizes.append(len(value))
            added_s.append(time.monotonic())
            if producer.is_full:
                break
        await producer.flush()
        now_s = time.monotonic()
        figures.add(sizes, [(now_s - one) * 1000 for one in added_s])
        sent += len(sizes)
        if not load.as_json and (line := figures.window()) is not None:
            print(line, flush=True)


async def _producer(client: Client, topic: str, acks: int, compression: str) -> Producer:
    producer = Producer(
        client, topic, acks=acks, compression=Compression[compression.upper()], idempotent=acks == -1
    )
    try:
        await producer.start()
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise CommandError(unknown_topic(topic)) from None
        raise
    return producer


@asynccontextmanager
async def _topic(client: Client, name: str, creates: NewTopic | None) -> AsyncIterator[None]:
    """Create the topic if wanted, and delete it at the end; a topic that existed before is never deleted."""
    if creates is None:
        yield
        return
    try:
        await topic_admin.create_topic(
            client,
            name,
            partitions=creates.partitions,
            replicas=creates.replicas,
            configs={},
            only_check=False,
        )
    except KafkaError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
        raise CommandError(
            f"Topic '{name}' exists already, and --create-topic would delete it at the end: leave the option "
            "out, or choose another name."
        ) from None
    try:
        await client.topic(name, may_create=True)  # waits for its leaders; the topic exists
        yield
    finally:
        await topic_admin.delete_topic(client.renewed(), name)


def _payloads(size_bytes: int, file: Path | None) -> list[bytes]:
    """Return the values of the records: the lines of a file, or random letters as in Kafka's tool."""
    if file is None:
        count = max(1, min(PAYLOADS, POOL_BYTES // size_bytes))
        chance = random.Random()
        return [chance.randbytes(size_bytes).translate(_LETTERS) for _ in range(count)]
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_PAYLOAD_BYTES + 1)
    except OSError as error:
        raise CommandError(f"--payload-file {file} cannot be read: {error.strerror}.", EXIT_USAGE) from None
    if len(content) > MAX_PAYLOAD_BYTES:
        raise CommandError(f"--payload-file {file} is larger than {MAX_PAYLOAD_BYTES:,} bytes.", EXIT_USAGE)
    found = [line for line in content.split(b"\n") if line]
    if not found:
        raise CommandError(f"--payload-file {file} has no line to send.", EXIT_USAGE)
    return found


# ---- consume -------------------------------------------------------------------------------------


async def consume(client: Client, load: ConsumeLoad) -> int:
    """Read records and print their rate; CommandError if fewer come than wanted."""
    try:
        begin = parse_offset_spec(load.begin)
    except ValueError as error:
        raise CommandError(f"{str(error).rstrip('.')}.", EXIT_USAGE) from None
    records = size_bytes = 0
    begun_s = time.time()
    async with client:
        topic = await client.topic_as_it_is(load.topic)
        places = [TopicPartition(load.topic, number) for number in sorted(topic.leaders)]
        found = (await find_start_offsets(client, places, begin, read_committed=False)).all()
        ends = await topic_admin.list_offsets(client, dict.fromkeys(places, topic_admin.LATEST))
        consumer = Consumer(client, read_committed=False)
        consumer.positions = dict(found)
        begun_s, last_s = time.time(), time.monotonic()
        try:
            while load.records is None or records < load.records:
                if load.records is None:
                    consumer.positions = {
                        one: at for one, at in consumer.positions.items() if at < ends[one].offset
                    }
                    if not consumer.positions:
                        break
                for _, batch in await consumer.fetch():
                    records += len(batch)
                    size_bytes += sum(len(one.key or b"") + len(one.value or b"") for one in batch)
                    last_s = time.monotonic()
                if time.monotonic() - last_s > client.timeout_s:
                    raise CommandError(
                        f"Only {records} of {load.records} records came, and none for the last "
                        f"{client.timeout_s:g} seconds (--timeout)."
                    )
        finally:  # also after an interruption
            figures = ConsumeFigures(begun_s, time.time(), records, size_bytes)
            answer(figures.document(), "\n".join(figures.lines()), as_json=load.as_json)
    return 0


# ---- latency -------------------------------------------------------------------------------------


async def latency(client: Client, load: LatencyLoad) -> int:
    """Send one record after the other and print the time until each was read."""
    payload = _payloads(load.record_bytes, None)
    latencies = Latencies()
    async with client, _topic(client, load.topic, load.creates):
        producer = await _producer(client, load.topic, load.acks, "none")
        consumer = Consumer(client, read_committed=False)
        consumer.positions = await _ends(client, load.topic)
        try:
            for number in range(load.records):
                value = payload[number % len(payload)]
                begun_s = time.monotonic()
                producer.add(ProducerRecord(None, value))
                await producer.flush()
                await _until_read(client, consumer, value)
                took_ms = (time.monotonic() - begun_s) * 1000
                latencies.add([took_ms])
                if not number % EVERY and not load.as_json:
                    print(f"{number}\t{took_ms:.4f}", flush=True)
        finally:  # also after an interruption
            _print_latencies(latencies, load)
    return 0


async def _ends(client: Client, topic: str) -> dict[TopicPartition, int]:
    """Return the log ends of the partitions with a leader: the others get no record either."""
    numbers = (await client.topic_as_it_is(topic)).leaders
    places = [TopicPartition(topic, number) for number, leader in sorted(numbers.items()) if leader >= 0]
    answers = await topic_admin.find_offsets(for_lookup(client), dict.fromkeys(places, topic_admin.LATEST))
    if not answers.found:
        raise error_of(answers.problems)
    return {one: each.offset for one, each in answers.found.items()}


async def _until_read(client: Client, consumer: Consumer, value: bytes) -> None:
    """Read until this record arrives, skipping those of other producers."""
    deadline = client.renewed().deadline
    while not deadline.is_over:
        for _, records in await consumer.fetch(deadline):
            if any(one.value == value for one in records):
                return
    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "a record that was acknowledged was not read")


def _print_latencies(latencies: Latencies, load: LatencyLoad) -> None:
    if load.as_json:
        print_json({"records": latencies.count, **latency_document(latencies, END_TO_END_PERCENTILES)})
        return
    found = latencies.percentiles_ms(END_TO_END_PERCENTILES)
    print(f"Avg latency: {latencies.average_ms:.4f} ms\n")
    print("Percentiles: " + ", ".join(f"{name}th = {value:.1f}" for name, value in found.items()))
