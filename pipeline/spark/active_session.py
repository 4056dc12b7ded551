"""The session that is active in the Java thread of each of Python's threads.

Spark looks for formats in Python by the active session alone where it writes and where a query starts, and
the Java threads of a pool's threads have none: DATA_SOURCE_NOT_FOUND was all that they got.
"""

from contextlib import suppress
from typing import Any, Final

from py4j.clientserver import JavaClient
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_OF_CONNECTION: Final = "_ottla_session"
_IS_DONE: Final = "_ottla_activates"


def activate(session: SparkSession) -> None:
    """Make it the session of this thread of Python's, in place of the one that it has."""
    _java_class(session).setActiveSession(session._jsparkSession)


def activate_in_each_thread() -> None:
    """Have each Java thread that works for a thread of Python's get the session of this process.

    A thread whose session still runs keeps it. Nothing is done where Java has called Python, as in
    foreachBatch: that thread is Spark's own. With PYSPARK_PIN_THREAD=false no Java thread belongs to one of
    Python's, and nothing is done at all.
    """
    client: Any = JavaClient
    if hasattr(client, _IS_DONE):
        return
    connection_of = client._get_connection

    def connection_with_session(self: Any) -> Any:
        connection = connection_of(self)
        session = SparkSession._instantiatedSession
        if session is None or getattr(connection, _OF_CONNECTION, None) is session:
            return connection
        if connection.initiated_from_client and session._sc._jsc is not None:
            setattr(connection, _OF_CONNECTION, session)  # first: the calls for it come here as well
            with suppress(Py4JError):  # Spark's Java process may end meanwhile
                _activate_if_none_runs(session)
            # Each call gave the connection back, and so will the one that asked for it.
            with suppress(ValueError):
                self.deque.remove(connection)
        return connection

    client._get_connection = connection_with_session
    setattr(client, _IS_DONE, True)


def _activate_if_none_runs(session: SparkSession) -> None:
    active = _java_class(session).getActiveSession()
    if active.isEmpty() or active.get().sparkContext().isStopped():
        activate(session)


def _java_class(session: SparkSession) -> Any:
    jvm = session._sc._jvm
    assert jvm is not None
    return session._get_j_spark_session_class(jvm)
