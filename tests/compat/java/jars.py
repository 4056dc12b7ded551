"""Apache Kafka's own classes for the tests: a class path of Maven artifacts with all their dependencies.

Maven resolves everything that the tests may need in one run, since most of its time goes into its start. The
results are kept in `.cache/maven/` of the checkout, so a second run of the tests does not start Maven.
`reason_to_skip` returns the reason why a test has to be skipped.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "maven"
CLIENTS = "org.apache.kafka:kafka-clients:{}"
# The broker, its tools, which depend on Connect, and Streams.
KAFKA = tuple(f"org.apache.kafka:{name}:4.3.1" for name in ("kafka_2.13", "kafka-tools", "kafka-streams"))
NEWEST_CLIENTS = (CLIENTS.format("4.4.0"),)
# The release that Spark's connector depends on. slf4j is named because Maven finds no dependencies of a jar
# that was installed without its description (POM).
OLDER_CLIENTS = (CLIENTS.format("3.9.2"), "org.slf4j:slf4j-api:1.7.36")
# Spark's own connector and its dependencies outside Spark. Maven Central has no set of a single release that
# runs with PySpark 4.3; this one does, although its token provider is older. Each artifact is named, since
# the description of one names releases of the others that are not there.
SPARK_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    CLIENTS.format("3.9.2"),
    "org.apache.commons:commons-pool2:2.13.1",
)
ARTIFACT_SETS = (KAFKA, NEWEST_CLIENTS, OLDER_CLIENTS, SPARK_CONNECTOR)
MAVEN_TIMEOUT_S = 300

_PROJECT = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.tests</groupId><artifactId>{}</artifactId><version>1</version>
  {}
</project>
"""
_DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def reason_without_java() -> str | None:
    """Return the reason why no Java class can run here, or None if the needed programs are installed."""
    for program, package in (("java", "a JRE 17 (openjdk-17-jre-headless)"), ("mvn", "Maven (maven)")):
        if shutil.which(program) is None:
            return f"{program} is not installed: install {package}"
    return None


def reason_to_skip(artifacts: tuple[str, ...] = KAFKA) -> str | None:
    """Return the reason why these classes cannot run here, or None if they can."""
    reason = reason_without_java()
    if reason is None and kafka_classpath(*artifacts) is None:
        reason = f"Maven does not resolve {' and '.join(artifacts)}"
    return reason


@cache
def kafka_classpath(*artifacts: str) -> str | None:
    """Return the class path of `group:artifact:version` names (by default Apache Kafka 4.3.1), or None."""
    if reason_without_java() is not None:
        return None
    names = artifacts or KAFKA
    CACHE.mkdir(parents=True, exist_ok=True)
    # The tests run in several processes, but only one at a time may fill Maven's local repository.
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Offline first: if the local repository is filled, that saves dozens of requests to the network.
        for mode in (["-o"], []):
            if _kept(names) is None:
                _resolve([one for one in {*ARTIFACT_SETS, names} if _kept(one) is None], mode)
        return _kept(names)


@cache
def spark_connector_jars() -> tuple[str, ...] | None:
    """Return the jars of Spark's own Kafka connector for `spark.jars`, or None if Maven has none."""
    found = kafka_classpath(*SPARK_CONNECTOR)
    return tuple(found.split(":")) if found else None


def _project(names: tuple[str, ...]) -> Path:
    """Return the folder of a set of artifacts, which is a module of Maven's project."""
    return CACHE / f"jars-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:16]}"


def _kept(names: tuple[str, ...]) -> str | None:
    """Return the class path that Maven found before, if all of its jars are still there."""
    answer = _project(names) / "classpath"
    kept = answer.read_text().strip() if answer.exists() else ""
    return kept if kept and all(Path(jar).exists() for jar in kept.split(":")) else None


def _resolve(wanted: Iterable[tuple[str, ...]], mode: list[str]) -> None:
    """Resolve all these sets in one run of Maven; the failure of one does not affect the others."""
    folders = [_project(names) for names in wanted]
    for folder, names in zip(folders, wanted, strict=True):
        folder.mkdir(exist_ok=True)
        more = _ALONE if names == SPARK_CONNECTOR else ""
        dependencies = "".join(_DEPENDENCY.format(*name.split(":"), more) for name in names)
        content = f"<dependencies>{dependencies}</dependencies>"
        (folder / "pom.xml").write_text(_PROJECT.format(folder.name, content))
    modules = "".join(f"<module>{folder.name}</module>" for folder in folders)
    content = f"<packaging>pom</packaging><modules>{modules}</modules>"
    (CACHE / "pom.xml").write_text(_PROJECT.format("jars", content))
    command = ["mvn", "-q", "-B", "-fae", *mode, "-f", str(CACHE / "pom.xml")]
    try:
        subprocess.run(
            [*command, "dependency:build-classpath", "-Dmdep.outputFile=classpath.new"],
            env={"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **os.environ},
            capture_output=True,
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return
    for folder in folders:
        if (fresh := folder / "classpath.new").exists():
            fresh.replace(folder / "classpath")
