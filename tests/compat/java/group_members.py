"""Java consumers for the tests: JVMs with members of groups (GroupMembers.java)."""

from tests.compat.java.jars import kafka_classpath
from tests.compat.java.java_programs import java_program

CLIENTS = "org.apache.kafka:kafka-clients:{}"


def java_command(classpath: str) -> list[str]:
    """What runs members."""
    return java_program("GroupMembers", classpath)


def clients_classpath(version: str) -> str | None:
    """The class path of Kafka's clients of one version, or None where Maven does not find it."""
    return kafka_classpath(CLIENTS.format(version))
