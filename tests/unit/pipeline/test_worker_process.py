"""A Spark worker settles: less for its garbage collector, memory that is kept, early acknowledgements."""

import errno
import gc
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.types import BinaryType, StructField, StructType

from ottla.pipeline.spark import worker_process
from ottla.pipeline.spark.batch_reader import BatchReader
from ottla.pipeline.spark.batch_writer import BatchWriter
from ottla.pipeline.spark.stream_reader import StreamReader
from ottla.pipeline.spark.stream_writer import StreamWriter

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092"}
SOURCE, SINK = OPTIONS | {"subscribe": "t"}, OPTIONS | {"topic": "t"}
VALUES = StructType([StructField("value", BinaryType())])


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pretend that nothing was done in this process; its own state is restored (tests/conftest.py)."""
    monkeypatch.setattr(worker_process, "_modules", 0)
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("new_process")
def test_imported_modules_are_exempt_from_collection_but_garbage_of_tasks_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker_process.tune_memory()
    assert gc.get_freeze_count() > 1_000
    frozen = gc.get_freeze_count()
    left = [[] for _ in range(100)]  # garbage of a task that has imported nothing
    worker_process.tune_memory()
    assert any(one is left for one in gc.get_objects())
    assert gc.get_freeze_count() <= frozen

    for number in range(3):  # tasks 1 to 3 stand for any later ones
        monkeypatch.setitem(sys.modules, f"imported_by_task_{number}", ModuleType("imported"))
        imported = [[] for _ in range(100)]
        worker_process.tune_memory()
        assert not any(one is imported for one in gc.get_objects())


@pytest.mark.skipif(sys.platform != "linux", reason="the rules of glibc")
def test_memory_that_a_worker_has_freed_is_reused() -> None:
    # Only this file: the package around it imports Spark.
    code = f"""
import resource, runpy
runpy.run_path({worker_process.__file__!r})["tune_memory"]()
for _ in range(2):
    bytes(8 << 20), [bytes(1 << 20) for _ in range(16)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    bytes(8 << 20), [bytes(1 << 20) for _ in range(16)]
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""

    cleared_bytes = int(
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    )

    assert cleared_bytes < 8 << 20  # of 192 MiB that were allocated


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """Connect a socket whose acknowledgements are delayed until it sends something."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
    ):
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
        yield one


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has TCP_QUICKACK")
@pytest.mark.parametrize(
    "task",
    [
        BatchReader(SOURCE, ("value",)),
        StreamReader(SOURCE, ("value",)),
        BatchWriter(SINK, VALUES, False),
        StreamWriter(SINK, VALUES),
    ],
    ids=lambda task: type(task).__name__,
)
def test_a_task_that_arrives_is_acknowledged_at_once(task: object, connection: socket.socket) -> None:
    sparks = CloudPickleSerializer()
    pickled = sparks.dumps(task)
    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 0

    sparks.loads(pickled)

    assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has TCP_QUICKACK")
@pytest.mark.usefixtures("connection")
def test_an_acknowledgement_opens_no_file_and_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = os.listdir("/proc/self/fd")
    worker_process.acknowledge_received()
    assert os.listdir("/proc/self/fd") == opened

    def none_left(_descriptor: int) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(os, "dup", none_left)
    worker_process.acknowledge_received()
