"""A Spark session with what our source and sink need: Java, the right Python, our modules in its workers."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import ottla
from ottla.pipeline.spark.active_session import activate_in_each_thread
from ottla.pipeline.spark.java import JavaHome, find_java
from ottla.pipeline.spark.scan_sources import SETTING, give_each_scan_a_source
from ottla.pipeline.spark.worker_python import worker_python

# spark-submit sets it for a Python driver that it started: its JVM is there, and so are master and settings.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
FORMAT: Final = "ottla"
# What Spark hides in its plans and events: its own default, and a private key that is given as an option.
REDACTED: Final = {"spark.redaction.regex": "(?i)secret|password|token|access[.]?key|keystore[.]key|jaas"}


class NoFormatError(Exception):
    """Spark's Python does not have our format; the message says which Python it is and what to do."""


def start_session(
    name: str,
    configuration: Mapping[str, str],
    *,
    master: str | None = "local[*]",
    java: JavaHome | None = None,
    python_folders: Iterable[Path] = (),
) -> SparkSession:
    """A session called `name`, with Spark's settings from `configuration`; the running one if there is one.

    Under spark-submit, whose master wins, this is the driver that it started. `java` is looked for when not
    given (NoJavaError if there is none). `python_folders` are those from which local workers may import the
    user's own modules. Filters are pushed into topics where Spark's setting for that is true. The process's
    environment is changed, as Spark's children inherit it; NoFormatError if it names a Python that has no
    Ottla.
    """
    if SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = str((java or find_java()).path)
    local = SUBMITTED not in os.environ and (master or "").startswith("local")
    if local:
        # Else the workers are the `python3` of the PATH, which need not have pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", worker_python())
        # Else Spark binds to an address of the machine that others reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        _lead_workers_to([*python_folders, Path(ottla.__file__).parents[1]])
    settings = {"spark.app.name": name, **REDACTED, **configuration}
    if SUBMITTED not in os.environ:
        if master is not None:
            settings["spark.master"] = master
        _launch(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    activate_in_each_thread()
    session = builder.getOrCreate()
    variable, program = _planning_python(os.environ)
    if program not in (worker_python(), sys.executable):
        _check_format(session, variable, program)
    if (session.conf.get(SETTING, "false") or "").lower() == "true":
        give_each_scan_a_source(session)  # half a second, so not for all
    return session


def _planning_python(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the variable that names the Python in which Spark looks for formats, and the Python."""
    # Of settings it heeds none here.
    for variable in "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON":
        if environment.get(variable):
            return variable, environment[variable]
    return "PYSPARK_PYTHON", "python3"


def _check_format(session: SparkSession, variable: str, program: str) -> None:
    """Raise NoFormatError if `program`, the Python in which Spark looks for formats, does not have ours.

    Spark says DATA_SOURCE_NOT_FOUND then, whatever the reason, and not before the first read or write.
    """
    manager = session._jsparkSession.sessionState().dataSourceManager()
    try:
        if manager.dataSourceExists(FORMAT):
            return
        reason = f"it has no package pyspark_{FORMAT}"
    except (Py4JJavaError, PySparkException) as error:
        reason = str(error).strip().splitlines()[-1]
    raise NoFormatError(
        f'Spark does not find format("{FORMAT}"), which it looks for with the Python '
        f"{program}: {reason}. Install {FORMAT} there, or set {variable} to a Python "
        f"that has it (this one is {sys.executable}), and start this program again"
    )


def _launch(settings: Mapping[str, str]) -> None:
    """Launch Spark's Java process, unless there is one, out of the reach of signals to our process group.

    Else whatever ends a group ends it in the middle of a batch, while we want the batch to be done first. It
    ends by itself when this process does: its standard input ends then.
    """
    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def _lead_workers_to(folders: Iterable[Path]) -> None:
    """Put folders first on the path of Python workers, but for the one where packages are installed: it is
    there, and before the standard library it might hide a module of it."""
    installed = {Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")}
    there = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    wanted = [str(folder) for folder in folders if folder.resolve() not in installed]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(part for part in there if part not in wanted)])
