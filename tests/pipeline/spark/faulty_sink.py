"""A sink that fails once at one point of its protocol: `format("faulty")` for the tests.

It fails without any code in the product: around the requests of the protocol, and between two batches of
rows. Options: `fault.point` (POINTS), `fault.flag`, a file that is created when it fails, `fault.waits_for`,
files that it then waits for (`:` between them), and `fault.kills`: `exception` (raised), `none` (it
continues), `worker`, or the id of a process, such as the driver's or an executor's.
"""

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.types import StructType

from ottla.logstore.words.errors import KafkaError
from ottla.pipeline.client.group_offsets import CommittedOffset
from ottla.pipeline.columns.producer_pair import ProducerPair
from ottla.pipeline.sink.sink_cluster import SinkCluster, connect
from ottla.pipeline.sink.sink_options import SinkOptions
from ottla.pipeline.spark import sink_task
from ottla.pipeline.spark.stream_writer import StreamWriter

AT_BATCH = 1
TIMEOUT_S = 240.0
POINTS = (
    "older drivers are fenced",
    "slots are prepared",
    "in the middle of a task",
    "before the decision",
    "the record is written and not committed",
    "after the decision",
    "in the middle of rolling forward",
    "after all, before Spark notes it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    point: str
    flag: str
    waits_for: str = ""
    kills: str = "exception"

    @property
    def has_happened(self) -> bool:
        return Path(self.flag).exists()

    def at(self, point: str) -> None:
        if point != self.point or self.has_happened:
            return
        Path(self.flag).touch()
        self._wait()
        if self.kills == "none":
            return
        if self.kills == "exception":
            raise RuntimeError(f"fault: {point}")
        os.kill(os.getpid() if self.kills == "worker" else int(self.kills), signal.SIGKILL)
        os._exit(1)

    def _wait(self) -> None:
        for path in filter(None, self.waits_for.split(os.pathsep)):
            wait_for_file(Path(path))


def wait_for_file(path: Path) -> None:
    """Wait until the file exists."""
    deadline = time.monotonic() + TIMEOUT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not come"
        time.sleep(0.02)


class FaultyCluster:
    """The cluster of the protocol, with the fault before or after a request."""

    def __init__(self, cluster: SinkCluster, fault: Fault) -> None:
        self._cluster = cluster
        self._fault = fault
        self._batch_id = -1  # of the record that is read or written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def init(self, ids: Sequence[str], **more: Any) -> Mapping[str, ProducerPair]:
        given = self._cluster.init(ids, **more)
        if self._batch_id == AT_BATCH - 1 and len(ids) > 1:
            self._fault.at("slots are prepared")
        return given

    def read_record(self, group_id: str) -> CommittedOffset | None:
        record = self._cluster.read_record(group_id)
        self._batch_id = -1 if record is None else record.offset - 1
        if self._batch_id == AT_BATCH - 1:
            self._fault.at("older drivers are fenced")
        return record

    def write_record(self, name: str, pair: ProducerPair, group_id: str, record: CommittedOffset) -> None:
        self._batch_id = record.offset - 1
        if self._batch_id == AT_BATCH:
            self._fault.at("before the decision")
        self._cluster.write_record(name, pair, group_id, record)
        if self._batch_id == AT_BATCH:
            self._fault.at("the record is written and not committed")

    def end(self, pairs: Mapping[str, ProducerPair], *, commit: bool) -> Mapping[str, KafkaError | None]:
        if self._batch_id != AT_BATCH or not commit or self._fault.has_happened:
            return self._cluster.end(pairs, commit=commit)
        is_decision = all(name.endswith("-c") for name in pairs)
        if is_decision:
            results = self._cluster.end(pairs, commit=True)
            self._fault.at("after the decision")
            return results
        names = sorted(pairs)
        first, rest = names[: len(names) // 2], names[len(names) // 2 :]
        assert first and rest, "two tasks have rows"
        results = dict(self._cluster.end({name: pairs[name] for name in first}, commit=True))
        self._fault.at("in the middle of rolling forward")
        results |= self._cluster.end({name: pairs[name] for name in rest}, commit=True)
        self._fault.at("after all, before Spark notes it")
        return results


def faulty_connect(fault: Fault, options: SinkOptions) -> SinkCluster:
    return FaultyCluster(connect(options), fault)


class FaultyWriter(StreamWriter):
    def __init__(self, options: Mapping[str, str], schema: StructType, fault: Fault) -> None:
        super().__init__(options, schema, partial(faulty_connect, fault))
        self._fault = fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        record = self._begun.record if self._begun else None
        is_batch = record is not None and record.batch_id == AT_BATCH - 1
        if not is_batch:
            return super().write(iterator)
        # Otherwise no row would be under way in the middle of a task with few rows.
        with mock.patch.object(sink_task, "gather", iter):
            return super().write(self._until_the_fault(iterator))

    def _until_the_fault(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if half:
                self._fault.at("in the middle of a task")
            yield batch.slice(half)


class FaultyDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "faulty"

    def streamWriter(self, schema: StructType, overwrite: bool) -> FaultyWriter:
        own = {name.removeprefix("fault."): value for name, value in self.options.items() if "fault." in name}
        others = {name: value for name, value in self.options.items() if "fault." not in name}
        return FaultyWriter(others, schema, Fault(**own))
