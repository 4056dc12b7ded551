"""The REST API of one node: producing and reading records over HTTP, and a list of a thousand topics.

The client is aiohttp's and runs in this process, beside the node's. Bodies are built beforehand; responses
are read completely, and must report every record as stored.
"""

import asyncio
import json
import multiprocessing
import statistics
import tempfile
import time
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
import orjson
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from benchmarks import clients, load, servers
from benchmarks.choice import chosen_workloads
from benchmarks.report import machine, number
from benchmarks.workload import Figures

CONNECTIONS = 4
BATCH_RECORDS = 1_000
STREAM_RECORDS = 200  # in each chunk of a stream
MAX_AHEAD = 10_000  # records of a stream that wait for their reports
PARTITIONS = 6
TOPICS = 1_000
LISTS = 200
PAGE_RECORDS = 1_000
PER_SECOND = 1_000
SCRAPED_S = {
    0: 5,
    15: 15,
    1: 5,
}  # seconds of measuring, by the seconds between two scrapes; 0: no scrapes
WARM_UP_S = 1.0
HEADERS = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A node with the REST API, and the time to measure."""

    server: servers.Server
    url: str  # of the cluster, below /v3
    http: aiohttp.ClientSession
    seconds: float

    def records_url(self, topic: str, verb: str = "") -> str:
        return f"{self.url}/topics/{topic}/records{verb}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload, with lower limits (`at_least`) and upper limits (`below`) of its figures."""

    name: str
    run: Callable[[Stage], Awaitable[Figures]]
    at_least: dict[str, float] = field(default_factory=dict)
    below: dict[str, float] = field(default_factory=dict)


# ---- request bodies ------------------------------------------------------------------------------


def record(index: int) -> dict[str, object]:
    """Return a record with a key and a value of a hundred bytes of JSON."""
    data = {"id": index, "user": f"user-{index % 977}", "ok": True, "text": "x" * 60}
    return {"key": {"type": "STRING", "data": f"{index}"}, "value": {"type": "JSON", "data": data}}


def batch_body() -> bytes:
    return orjson.dumps({"entries": [{"id": str(index), **record(index)} for index in range(BATCH_RECORDS)]})


# ---- producing -----------------------------------------------------------------------------------


async def batches(stage: Stage) -> Figures:
    """Send `records:batch` requests, one after another on each of CONNECTIONS connections."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    body = batch_body()
    waits: list[float] = []

    async def send(until: float) -> int:
        stored = 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            async with stage.http.post(
                stage.records_url(topic, ":batch"), data=body, headers=HEADERS
            ) as answer:
                found = orjson.loads(await answer.read())
            assert len(found["successes"]) == BATCH_RECORDS, found["failures"][:3]
            waits.append(time.perf_counter() - began)
            stored += BATCH_RECORDS
        return stored

    figures = await _rate(stage, [send] * CONNECTIONS, "records")
    return {**figures, "p99 ms": _percentile(waits, 99) * 1000}


async def stream(stage: Stage) -> Figures:
    """Send a stream of JSON documents over one connection, and read a report for each."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    piece = b"".join(orjson.dumps(record(index)) for index in range(STREAM_RECORDS))

    async def send(until: float) -> int:
        stored, sent = 0, 0
        is_free = asyncio.Event()

        async def pieces() -> AsyncIterator[bytes]:
            nonlocal sent
            while time.perf_counter() < until:
                if sent - stored > MAX_AHEAD:
                    is_free.clear()
                    await is_free.wait()
                sent += STREAM_RECORDS
                yield piece

        async with stage.http.post(stage.records_url(topic), data=pieces(), headers=HEADERS) as answer:
            async for some in answer.content.iter_any():
                stored += some.count(b"\n")
                assert b'"message"' not in some, some[:500]
                is_free.set()
        assert stored == sent
        return stored

    return await _rate(stage, [send], "records")


async def singles(stage: Stage) -> Figures:
    """Send requests of one record each on CONNECTIONS connections."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    body = orjson.dumps(record(1))
    waits: list[float] = []

    async def send(until: float) -> int:
        stored = 0
        while time.perf_counter() < until:
            began = time.perf_counter()
            async with stage.http.post(stage.records_url(topic), data=body, headers=HEADERS) as answer:
                assert orjson.loads(await answer.read())["error_code"] == 200
            waits.append(time.perf_counter() - began)
            stored += 1
        return stored

    figures = await _rate(stage, [send] * CONNECTIONS, "records")
    return {**figures, "p99 ms": _percentile(waits, 99) * 1000}


# ---- records and topics read ---------------------------------------------------------------------


async def pages(stage: Stage) -> Figures:
    """Read pages of records from the start, following the links of the responses."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    for _ in range(20):
        async with stage.http.post(
            stage.records_url(topic, ":batch"), data=batch_body(), headers=HEADERS
        ) as answer:
            await answer.read()
    first = f"{stage.records_url(topic)}?count={PAGE_RECORDS}"

    async def read(until: float) -> int:
        seen, link = 0, first
        while time.perf_counter() < until:
            async with stage.http.get(link) as answer:
                page = orjson.loads(await answer.read())
            seen += len(page["data"])
            link = page["metadata"]["next"] or first
        return seen

    return await _rate(stage, [read], "records")


async def topics(stage: Stage) -> Figures:
    """Send GET /topics to a cluster that has a thousand topics."""
    waits = []
    async with many_topics(stage):
        for turn in range(LISTS + 3):
            began = time.perf_counter()
            async with stage.http.get(f"{stage.url}/topics") as answer:
                content = await answer.read()
            if turn >= 3:
                waits.append((time.perf_counter() - began) * 1000)
        assert len(orjson.loads(content)["data"]) >= TOPICS
    return {"p50 ms": statistics.median(waits), "p99 ms": _percentile(waits, 99), "kB": len(content) / 1000}


@asynccontextmanager
async def many_topics(stage: Stage) -> AsyncIterator[None]:
    """Create a thousand topics of one partition, and delete them after the block."""
    admin = AdminClient({"bootstrap.servers": stage.server.bootstrap, **clients.QUIET})
    names = [f"bench-list-{index:04}" for index in range(TOPICS)]
    for one in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        one.result(clients.CALL_TIMEOUT_S)
    try:
        yield
    finally:
        for one in admin.delete_topics(names).values():
            one.result(clients.CALL_TIMEOUT_S)


async def _wait_until_logs_are_open(stage: Stage) -> None:
    """Wait until the logs of all topics are open, because producers wait for that and not for scrapes."""
    async with asyncio.timeout(clients.CALL_TIMEOUT_S):
        while True:
            async with stage.http.get(f"http://{stage.server.rest}/debug/state") as answer:
                [node] = orjson.loads(await answer.read())["machines"]
            if node["state"]["replicas"] >= TOPICS:
                return
            await asyncio.sleep(0.1)


async def scrapes(stage: Stage) -> Figures:
    """Measure the cost of scrapes of a thousand partitions, for the node and for a producer meanwhile."""
    topic = clients.create_topic(stage.server.bootstrap, PARTITIONS)
    figures: Figures = {}
    async with many_topics(stage):
        await _wait_until_logs_are_open(stage)
        await _scrape(stage)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as producer:
            # Warm-up, which also starts the process of the producer.
            await _paced(producer, stage, topic, 1.0)
            for every_s, seconds in SCRAPED_S.items():
                name = f", scraped every {every_s} s" if every_s else ""
                async with asyncio.TaskGroup() as tasks:
                    cpu = stage.server.cpu_seconds()
                    paced = tasks.create_task(_paced(producer, stage, topic, seconds))
                    scraped = [
                        tasks.create_task(_scrape(stage, (number + 0.5) * every_s))
                        for number in range(seconds // every_s if every_s else 0)
                    ]
                cpu_share = (stage.server.cpu_seconds() - cpu) / seconds
                waits = [wait * 1000 for wait in paced.result()]
                figures |= {
                    f"p50 ms{name}": statistics.median(waits),
                    f"p99 ms{name}": _percentile(waits, 99),
                    f"p99.9 ms{name}": _percentile(waits, 99.9),
                    f"CPU %{name}": 100 * cpu_share,
                }
    took, kilobytes = zip(*(one.result() for one in scraped), strict=True)
    figures |= {"scrape ms": statistics.median(took) * 1000, "kB": kilobytes[0]}
    return figures


async def _scrape(stage: Stage, after_s: float = 0.0) -> tuple[float, float]:
    """Scrape the metrics after a pause; return seconds and kB."""
    await asyncio.sleep(after_s)
    began = time.perf_counter()
    async with stage.http.get(f"http://{stage.server.rest}/metrics") as answer:
        content = await answer.read()
    return time.perf_counter() - began, len(content) / 1000


async def _paced(producer: ProcessPoolExecutor, stage: Stage, topic: str, seconds: float) -> list[float]:
    work = partial(load.paced, stage.server.port, topic, PARTITIONS, per_second=PER_SECOND, seconds=seconds)
    return await asyncio.get_running_loop().run_in_executor(producer, work)


WORKLOADS = (
    Workload(
        name=f"rest: batches of {BATCH_RECORDS:,}, {CONNECTIONS} connections",
        run=batches,
        at_least={"records/s": 20_000},
    ),
    Workload(name="rest: a stream on one connection", run=stream, at_least={"records/s": 20_000}),
    Workload(name=f"rest: one record a request, {CONNECTIONS} connections", run=singles),
    Workload(name=f"rest: pages of {PAGE_RECORDS:,} records", run=pages),
    Workload(name=f"rest: GET topics, {TOPICS:,} topics", run=topics, below={"p50 ms": 50.0, "p99 ms": 50.0}),
    Workload(name=f"rest: scrapes of {TOPICS:,} partitions beside {PER_SECOND:,} records/s", run=scrapes),
)


async def _rate(stage: Stage, senders: Sequence[Callable[[float], Awaitable[int]]], unit: str) -> Figures:
    """Run all senders at once; return their amount a second, and the CPU that each item cost the node."""

    async def work(seconds: float) -> tuple[float, int]:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_awaited(send(began + seconds))) for send in senders]
        return time.perf_counter() - began, sum(one.result() for one in running)

    await work(WARM_UP_S)
    cpu = stage.server.cpu_seconds()
    seconds, done = await work(stage.seconds)
    cpu = stage.server.cpu_seconds() - cpu
    return {f"{unit}/s": done / seconds, f"CPU us/{unit[:-1]}": cpu * 1e6 / done}


async def _awaited(work: Awaitable[int]) -> int:
    return await work


def _percentile(values: Sequence[float], percent: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


# ---- the run -------------------------------------------------------------------------------------

Samples = dict[str, list[Figures]]


def main(arguments: Namespace, console: Console) -> int:
    """Measure the workloads whose names contain the given words, each `--runs` times."""
    chosen = chosen_workloads(WORKLOADS, arguments, console)
    if arguments.list:
        return 0
    seconds = 1.0 if arguments.quick else 3.0
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        server = servers.start("ottla", Path(folder) / "ottla", ["ottla.rest.listeners=http://127.0.0.1:0"])
        try:
            found = asyncio.run(_measure(server, chosen, arguments.runs, seconds, console))
        finally:
            server.stop()
    _print_table(chosen, found, console)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": machine(), "samples": found}, indent=1) + "\n")
    return 0


async def _measure(
    server: servers.Server, chosen: Sequence[Workload], runs: int, seconds: float, console: Console
) -> Samples:
    found: Samples = {one.name: [] for one in chosen}
    async with aiohttp.ClientSession() as http:
        async with http.get(f"http://{server.rest}/v3/clusters") as answer:
            [cluster] = (await answer.json())["data"]
        stage = Stage(server=server, url=cluster["metadata"]["self"], http=http, seconds=seconds)
        for one in chosen:
            for _ in range(runs):
                found[one.name].append(await one.run(stage))
            words = "  ".join(f"{number(value)} {name}" for name, value in _medians(found[one.name]).items())
            console.print(f"[dim]{one.name:42}[/] {words}", highlight=False)
    return found


def _medians(samples: Sequence[Figures]) -> Figures:
    return {name: float(statistics.median(one[name] for one in samples)) for name in samples[0]}


def _print_table(chosen: Sequence[Workload], found: Samples, console: Console) -> None:
    table = Table(title="REST API of one node: min, median, max of the runs", header_style="bold")
    for column in ("workload", "figure", "min", "median", "max", "goal"):
        table.add_column(column, justify="left" if column in ("workload", "figure") else "right")
    for one in chosen:
        samples = found[one.name]
        for name, median in _medians(samples).items():
            values = [figures[name] for figures in samples]
            goal = ""
            if name in one.at_least:
                goal = f">= {one.at_least[name]:,.0f}  {_yes_or_no(median >= one.at_least[name])}"
            elif name in one.below:
                goal = f"< {one.below[name]:g}  {_yes_or_no(median < one.below[name])}"
            cells = [number(float(value)) for value in (min(values), median, max(values))]
            table.add_row(one.name if name == next(iter(samples[0])) else "", name, *cells, goal)
        table.add_section()
    console.print(table)


def _yes_or_no(is_reached: bool) -> str:
    return "yes" if is_reached else "[bold red]NO[/]"
