"""The active session of the Java thread that belongs to each Python thread.

For writes and for the start of a query Spark looks up formats in Python by the active session only, and the
Java threads of pool threads have none, so they failed with DATA_SOURCE_NOT_FOUND.
"""

from contextlib import suppress
from typing import Any, Final

from py4j.clientserver import JavaClient
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_SESSION_ATTRIBUTE: Final = "_ottla_session"
_IS_DONE: Final = "_ottla_activates"


def activate(session: SparkSession) -> None:
    """Make `session` the active session of this Python thread, in place of the one that it has."""
    _java_class(session).setActiveSession(session._jsparkSession)


def activate_in_each_thread() -> None:
    """Have each Java thread that works for a Python thread get the session of this process.

    A thread whose session still runs keeps it. Nothing is done if Java has called Python, as in foreachBatch:
    that thread is Spark's own. With PYSPARK_PIN_THREAD=false no Java thread belongs to a Python thread, and
    nothing is done at all.
    """
    client: Any = JavaClient
    if hasattr(client, _IS_DONE):
        return
    connection_of = client._get_connection

    def connection_with_session(self: Any) -> Any:
        connection = connection_of(self)
        session = SparkSession._instantiatedSession
        if session is None or getattr(connection, _SESSION_ATTRIBUTE, None) is session:
            return connection
        if connection.initiated_from_client and session._sc._jsc is not None:
            setattr(connection, _SESSION_ATTRIBUTE, session)  # first: the calls for it come here as well
            with suppress(Py4JError):  # Spark's Java process may end meanwhile
                _activate_if_none_runs(session)
            # Each of these calls returned the connection to the pool; the caller that asked for it will, too.
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
