"""Programs of several clients that write or read as fast as they can, each in a process of its own.

The Python programs are `python -m benchmarks.client_programs CLIENT produce|consume BOOTSTRAP TOPIC RECORDS
RECORD-BYTES [SETTING=VALUE ...]`, the Go program has the same arguments, and the Java programs are Apache
Kafka's own performance tests. Those of librdkafka and Java take settings, the others use their defaults. The
values of the records come on standard input, one a line.
"""

import asyncio
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import clients, frames
from benchmarks.program_environment import program_environment
from tests.compat.go.programs import go_program
from tests.compat.java.jars import kafka_classpath, reason_without_java

ROOT: Final = Path(__file__).resolve().parents[2]
TIMEOUT_S: Final = 120
DISTINCT_VALUES: Final = 1000
# A heap as users have it: the default of the JVM is a quarter of the memory.
JVM: Final = ("java", "-Xmx1g", "-Xshare:auto")
_SENT: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """The measurements of one run: the seconds for its records, and the time and CPU of the whole process."""

    seconds: float
    process_seconds: float
    cpu_seconds: float


def missing_reason(client: str) -> str:
    """Return the reason why a client cannot run on this machine, or ""."""
    if client == "java":
        return reason_without_java() or ("" if kafka_classpath() else "Maven does not resolve Apache Kafka")
    if client == "franz-go":
        program = go_program("perf")
        return program if isinstance(program, str) else ""
    return ""


def run_client(
    client: str,
    work: str,
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    settings: Mapping[str, str],
) -> ClientRun:
    """Let a client `produce` or `consume` records; RuntimeError with its output if it fails."""
    if client == "java":
        command = _java_command(work, bootstrap, topic, records, record_bytes, settings)
    else:
        program = [str(go_program("perf"))] if client == "franz-go" else [*_PYTHON, client]
        named = [f"{name}={value}" for name, value in settings.items()]
        command = [*program, work, bootstrap, topic, str(records), str(record_bytes), *named]
    values = b"".join(value + b"\n" for value in frames.values(DISTINCT_VALUES, record_bytes))
    before, began = _cpu_seconds_of_children(), time.perf_counter()
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=program_environment(),
        input=values,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    process_seconds = time.perf_counter() - began
    cpu_seconds = _cpu_seconds_of_children() - before
    output = done.stdout.decode()
    if done.returncode:
        raise RuntimeError(f"{client}: {(output + done.stderr.decode()).strip()[-600:]}")
    seconds = _seconds_of_java(work, output) if client == "java" else float(output.split()[-1])
    return ClientRun(seconds=seconds, process_seconds=process_seconds, cpu_seconds=cpu_seconds)


def _cpu_seconds_of_children() -> float:
    """Return the CPU time of the child processes that have ended and were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_PYTHON: Final = (sys.executable, "-m", "benchmarks.client_programs")


def _java_command(
    work: str, bootstrap: str, topic: str, records: int, record_bytes: int, settings: Mapping[str, str]
) -> list[str]:
    classpath = kafka_classpath()
    assert classpath is not None, missing_reason("java")
    java = [*JVM, "-cp", classpath]
    if work == "consume":
        command = [*java, "org.apache.kafka.tools.ConsumerPerformance", "--hide-header", "--num-records"]
        return [*command, str(records), "--topic", topic, "--bootstrap-server", bootstrap]
    command = [*java, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--throughput", "-1"]
    named = [f"{name}={value}" for name, value in {"bootstrap.servers": bootstrap, **settings}.items()]
    sizes = ["--num-records", str(records), "--record-size", str(record_bytes)]
    return [*command, *sizes, "--command-property", *named]


def _seconds_of_java(work: str, output: str) -> float:
    """Return the time that a performance test reports: from its first record, without the JVM's start."""
    if work == "consume":
        # Start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, ...
        return float(output.strip().splitlines()[-1].split(",")[7]) / 1000
    records, per_second = _SENT.findall(output)[-1]
    return int(records) / float(per_second)


# ---- clients of Python -------------------------------------------------------------------------------------


def _librdkafka_produce(bootstrap: str, topic: str, records: int, settings: Mapping[str, str]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, **clients.BUSY_PRODUCER, **settings})
    values = _values()
    failures: list[Any] = []
    began = time.perf_counter()
    for number in range(records):
        # Only the last record has a delivery report; reports of all would add to the client's cost.
        on_delivery = (
            (lambda error, _: failures.append(error) if error else None) if number == records - 1 else None
        )
        while True:
            try:
                producer.produce(topic, values[number % len(values)], on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
    if producer.flush(TIMEOUT_S) or failures:
        raise RuntimeError(f"not delivered: {failures or 'timeout'}")
    print(records, time.perf_counter() - began)


def _librdkafka_consume(bootstrap: str, topic: str, records: int, settings: Mapping[str, str]) -> None:
    done = clients.consume(
        bootstrap, topic, records=records, record_bytes=0, seconds=TIMEOUT_S, settings=dict(settings)
    )
    if done.records < records:
        raise RuntimeError(f"only {done.records} of {records} records arrived")
    print(records, done.seconds)


def _kafka_python_produce(bootstrap: str, topic: str, records: int, settings: Mapping[str, str]) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", enable_idempotence=True)
    values = _values()
    began = time.perf_counter()
    for number in range(records):
        last = producer.send(topic, values[number % len(values)])
    producer.flush(TIMEOUT_S)
    last.get(TIMEOUT_S)
    print(records, time.perf_counter() - began)


def _kafka_python_consume(bootstrap: str, topic: str, records: int, settings: Mapping[str, str]) -> None:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Place

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap.split(","), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    consumer.assign([Place(topic, partition) for partition in consumer.partitions_for_topic(topic)])
    began, count = time.perf_counter(), 0
    while count < records:
        count += sum(map(len, consumer.poll(200, max_records=clients.CONSUME_AT_ONCE).values()))
    print(records, time.perf_counter() - began)


def _aiokafka_produce(bootstrap: str, topic: str, records: int, settings: Mapping[str, str]) -> None:
    from aiokafka import AIOKafkaProducer

    async def work() -> float:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        await producer.start()
        values = _values()
        began = time.perf_counter()
        for number in range(records):
            last = await producer.send(topic, values[number % len(values)])
        await producer.flush()
        await last
        took = time.perf_counter() - began
        await producer.stop()
        return took

    print(records, asyncio.run(work()))


def _aiokafka_consume(bootstrap: str, topic: str, records: int, settings: Mapping[str, str]) -> None:
    from aiokafka import AIOKafkaConsumer

    async def work() -> float:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest"
        )
        await consumer.start()
        began, count = time.perf_counter(), 0
        while count < records:
            found = await consumer.getmany(timeout_ms=200, max_records=clients.CONSUME_AT_ONCE)
            count += sum(map(len, found.values()))
        took = time.perf_counter() - began
        await consumer.stop()
        return took

    print(records, asyncio.run(work()))


def _values() -> Sequence[bytes]:
    return sys.stdin.buffer.read().splitlines()


_Work = Callable[[str, str, int, Mapping[str, str]], None]
_CLIENTS: Final[Mapping[tuple[str, str], _Work]] = {
    ("librdkafka", "produce"): _librdkafka_produce,
    ("librdkafka", "consume"): _librdkafka_consume,
    ("kafka-python", "produce"): _kafka_python_produce,
    ("kafka-python", "consume"): _kafka_python_consume,
    ("aiokafka", "produce"): _aiokafka_produce,
    ("aiokafka", "consume"): _aiokafka_consume,
}


if __name__ == "__main__":
    _client, _work, _bootstrap, _topic, _records, _, *_settings = sys.argv[1:]
    _named = dict(one.split("=", 1) for one in _settings)
    _CLIENTS[_client, _work](_bootstrap, _topic, int(_records), _named)
