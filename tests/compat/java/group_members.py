"""Java consumers for the tests: JVMs with members of groups (GroupMembers.java)."""

from pathlib import Path

from tests.compat.java.jars import kafka_classpath

HERE = Path(__file__).resolve().parent
CLIENTS = "org.apache.kafka:kafka-clients:{}"


def java_command(classpath: str) -> list[str]:
    """What runs members; it takes some 0.7 s to compile."""
    jvm = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [*jvm, "-cp", classpath, str(HERE / "GroupMembers.java")]


def clients_classpath(version: str) -> str | None:
    """The class path of Kafka's clients of one version, or None where Maven does not find it."""
    return kafka_classpath(CLIENTS.format(version))
