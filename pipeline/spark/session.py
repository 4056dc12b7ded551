"""A Spark session with all that our source and sink need: Java, the right Python, our modules in workers."""

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

# spark-submit sets it for a Python driver that it started, which has its JVM, master and settings already.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
FORMAT: Final = "ottla"
# Patterns of what Spark hides in its plans and events: its own default, and a private key given as an option.
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
    """Return a session called `name` with Spark's settings from `configuration`, or the running one.

    Under spark-submit, whose master wins, it runs in the driver that spark-submit started. `java` is found if
    not given (NoJavaError if there is none). `python_folders` are those from which local workers may import
    the user's own modules. Filters are pushed into topics if Spark's setting for that is true. It changes the
    environment of the process, which Spark's children inherit. Raises NoFormatError if the environment names
    a Python without Ottla.
    """
    if SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = str((java or find_java()).path)
    local = SUBMITTED not in os.environ and (master or "").startswith("local")
    if local:
        # Otherwise the workers are the `python3` of the PATH, which may lack pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", worker_python())
        # Otherwise Spark binds to an address that other machines reach.
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
        give_each_scan_a_source(session)  # takes half a second, so only on demand
    return session


def _planning_python(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the Python in which Spark looks for formats, after the variable that names it."""
    # Spark reads variables only, no settings, for this.
    for variable in "PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON":
        if environment.get(variable):
            return variable, environment[variable]
    return "PYSPARK_PYTHON", "python3"


def _check_format(session: SparkSession, variable: str, program: str) -> None:
    """Raise NoFormatError if `program`, the Python in which Spark looks for formats, does not have ours.

    Spark then fails with DATA_SOURCE_NOT_FOUND, whatever the reason, and only at the first read or write.
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
    """Launch Spark's Java process, unless it runs already, in a process group of its own.

    Otherwise a signal to our group would end it in the middle of a batch, which should be completed first. It
    ends by itself when this process ends, since its standard input is closed then.
    """
    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def _lead_workers_to(folders: Iterable[Path]) -> None:
    """Put folders first on the path of Python workers, except the one where packages are installed.

    That one is on the path already, and before the standard library it might hide one of its modules.
    """
    installed = {Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")}
    there = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    wanted = [str(folder) for folder in folders if folder.resolve() not in installed]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(part for part in there if part not in wanted)])
