"""A Spark session with what our source and sink need: Java, the right Python, our modules in its workers."""

import os
import sysconfig
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import pipeline
from pipeline.spark.java import JavaHome, find_java
from pipeline.spark.scan_sources import SETTING, give_each_scan_a_source
from pipeline.spark.worker_python import worker_python

# spark-submit sets it for a Python driver that it started: its JVM is there, and so are master and settings.
SUBMITTED = "PYSPARK_GATEWAY_PORT"


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
    environment is changed, as Spark's children inherit it.
    """
    if SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = str((java or find_java()).path)
    local = SUBMITTED not in os.environ and (master or "").startswith("local")
    if local:
        # Else the workers are the `python3` of the PATH, which need not have pyarrow.
        os.environ.setdefault("PYSPARK_PYTHON", worker_python())
        # Else Spark binds to an address of the machine that others reach.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        _lead_workers_to([*python_folders, Path(pipeline.__file__).parents[1]])
    settings = {"spark.app.name": name, **configuration}
    if SUBMITTED not in os.environ:
        if master is not None:
            settings["spark.master"] = master
        _launch(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _activate_in_each_thread()
    if (session.conf.get(SETTING, "false") or "").lower() == "true":
        give_each_scan_a_source(session)  # half a second, so not for all
    return session


def _activate_in_each_thread() -> None:
    """Make the session the active one of each Java thread that a thread of Python's gets.

    Spark looks for formats in Python by the active session alone where it writes and where a query starts,
    and the Java threads of a pool's threads have none: DATA_SOURCE_NOT_FOUND was all that they got.
    """
    gateway = SparkContext._gateway
    client: Any = gateway._gateway_client if gateway is not None else None
    if not hasattr(client, "_create_new_connection") or hasattr(client, "_ottla_activates"):
        return  # PYSPARK_PIN_THREAD=false has other threads; or it is done
    connect = client._create_new_connection

    def connect_and_activate() -> Any:
        connection = connect()
        session = SparkSession._instantiatedSession
        if session is not None:
            with suppress(Py4JError):  # a session that was stopped meanwhile
                activate(session)
            # The call gave the connection back, and so will the one that asked for it.
            with suppress(ValueError):
                client.deque.remove(connection)
        return connection

    client._create_new_connection = connect_and_activate
    client._ottla_activates = True


def _launch(settings: Mapping[str, str]) -> None:
    """Launch Spark's Java process, unless there is one, out of the reach of signals to our process group.

    Else whatever ends a group ends it in the middle of a batch, while we want the batch to be done first. It
    ends by itself when this process does: its standard input ends then.
    """
    if SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


def activate(session: SparkSession) -> None:
    """Make it the session of this thread of Python's, whose partner in Java has none unless it was told.

    Where a query starts, Spark looks for formats in Python by the active session alone.
    """
    jvm = session.sparkContext._jvm
    assert jvm is not None
    session._get_j_spark_session_class(jvm).setActiveSession(session._jsparkSession)


def _lead_workers_to(folders: Iterable[Path]) -> None:
    """Put folders first on the path of Python workers, but for the one where packages are installed: it is
    there, and before the standard library it might hide a module of it."""
    installed = {Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")}
    there = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    wanted = [str(folder) for folder in folders if folder.resolve() not in installed]
    os.environ["PYTHONPATH"] = os.pathsep.join([*wanted, *(part for part in there if part not in wanted)])
