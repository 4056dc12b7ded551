"""Apache Kafka's own classes for the tests: a class path of Maven artifacts with everything that they need.

Maven resolves, all that the tests may ask for in one run, as most of the time goes into its start; its
answers are kept in `.cache/maven/` of the checkout, so a second run of the tests starts no Maven.
`why_no_java` gives the reason for a skip, in words.
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
# The broker, its tools, which bring Connect along, and Streams.
KAFKA = tuple(f"org.apache.kafka:{name}:4.3.1" for name in ("kafka_2.13", "kafka-tools", "kafka-streams"))
NEWEST_CLIENTS = (CLIENTS.format("4.4.0"),)
# Of the release that Spark's connector brings along. The logging interface is named because a jar that came
# without its description brings nothing along.
OLDER_CLIENTS = (CLIENTS.format("3.9.2"), "org.slf4j:slf4j-api:1.7.36")
# Spark's own connector and all that it needs beside Spark. Maven Central has no set of one release that runs
# with PySpark 4.3; this one does, in which the provider of tokens is older. Each is named, as the description
# of one names releases of the others that are not there.
SPARK_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    CLIENTS.format("3.9.2"),
    "org.apache.commons:commons-pool2:2.13.1",
)
ASKED_FOR = (KAFKA, NEWEST_CLIENTS, OLDER_CLIENTS, SPARK_CONNECTOR)
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


def why_no_java() -> str | None:
    """Why no Java class can run here, or None when it can as far as the installed programs tell."""
    for program, package in (("java", "a JRE 17 (openjdk-17-jre-headless)"), ("mvn", "Maven (maven)")):
        if shutil.which(program) is None:
            return f"{program} is not installed: install {package}"
    return None


def why_not(artifacts: tuple[str, ...] = KAFKA) -> str | None:
    """Why none of these classes can run here, or None when they can."""
    reason = why_no_java()
    if reason is None and kafka_classpath(*artifacts) is None:
        reason = f"Maven does not resolve {' and '.join(artifacts)}"
    return reason


@cache
def kafka_classpath(*artifacts: str) -> str | None:
    """The class path of `group:artifact:version` names (default: Apache Kafka 4.3.1), or None."""
    if why_no_java() is not None:
        return None
    names = artifacts or KAFKA
    CACHE.mkdir(parents=True, exist_ok=True)
    # The tests run in several processes, and Maven's local repository bears only one that fills it.
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Offline first: with a filled local repository that saves dozens of questions to the network.
        for mode in (["-o"], []):
            if _kept(names) is None:
                _resolve([one for one in {*ASKED_FOR, names} if _kept(one) is None], mode)
        return _kept(names)


@cache
def spark_connector_jars() -> tuple[str, ...] | None:
    """The jars of Spark's own Kafka connector, for the setting `spark.jars`; None when Maven has none."""
    found = kafka_classpath(*SPARK_CONNECTOR)
    return tuple(found.split(":")) if found else None


def _project(names: tuple[str, ...]) -> Path:
    """The folder of the set, a module of Maven's project."""
    return CACHE / f"jars-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:16]}"


def _kept(names: tuple[str, ...]) -> str | None:
    """Maven's answer, if it was given and all jars are still there."""
    answer = _project(names) / "classpath"
    kept = answer.read_text().strip() if answer.exists() else ""
    return kept if kept and all(Path(jar).exists() for jar in kept.split(":")) else None


def _resolve(wanted: Iterable[tuple[str, ...]], mode: list[str]) -> None:
    """One run of Maven for all these sets; one that is not found leaves the others alone."""
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
