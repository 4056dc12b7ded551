"""A Spark session with `format("ottla")` and Spark's own connector, and a meter of its CPU."""

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from ottla.pipeline.spark.session import start_session
from tests.compat.java.jars import spark_connector_jars

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CORES = 2
LOOK_EVERY_S = 0.25
CONFIGURATION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.driver.memory": "2g",
}


class CpuMeter:
    """The user and system time of a process and of all its descendants, read every LOOK_EVERY_S.

    Python workers end when they are idle, and their times cannot be read afterwards.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._seconds: dict[tuple[int, str], float] = {}  # by process id and start time
        self._lock = threading.Lock()
        threading.Thread(target=self._watch, daemon=True).start()

    def seconds(self) -> float:
        """Return the time so far, without up to the last quarter of a second of each ended process."""
        with self._lock:
            for pid in (self._pid, *_below(self._pid)):
                try:
                    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                self._seconds[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / TICKS_PER_S
            return sum(self._seconds.values())

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_EVERY_S)
            self.seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A session, the CPU of its JVM and Python workers, and a folder for checkpoints."""

    spark: SparkSession
    cpu: CpuMeter
    folder: Path

    def new_folder(self) -> str:
        return tempfile.mkdtemp(dir=self.folder)


@contextmanager
def spark_client(folder: Path) -> Iterator[Client]:
    """Start a session, and stop it after the block; RuntimeError without the jars of Spark's connector."""
    jars = spark_connector_jars()
    if jars is None:
        raise RuntimeError("Maven does not resolve the jars of Spark's own connector")
    folder.mkdir()
    settings = {
        **CONFIGURATION,
        "spark.jars": ",".join(jars),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    spark = start_session("bench", settings, master=f"local[{CORES}]")
    # Real-time Mode ends by interrupting its tasks, which log that as an error.
    spark.sparkContext.setLogLevel("OFF")
    pid = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    try:
        yield Client(spark=spark, cpu=CpuMeter(pid), folder=folder)
    finally:
        spark.stop()


def _below(pid: int) -> Iterator[int]:
    try:
        threads = [*Path(f"/proc/{pid}/task").iterdir()]
        children = [int(child) for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return
    for child in children:
        yield child
        yield from _below(child)
