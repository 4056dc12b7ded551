"""Apache Kafka's own classes for the tests: a class path of Maven artifacts with everything that they need.

Maven resolves; its answer is kept in `.cache/maven/` of the checkout, so a second run starts no Maven.
`why_no_java` gives the reason for a skip, in words.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "maven"
BROKER = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-tools:4.3.1")
# Spark's own connector and all that it needs beside Spark. Maven Central has no set of one release that runs
# with PySpark 4.3; this one does, in which the provider of tokens is older. Each is named, as the description
# of one names releases of the others that are not there.
SPARK_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
MAVEN_TIMEOUT_S = 300

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.tests</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
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


@cache
def kafka_classpath(*artifacts: str) -> str | None:
    """The class path of `group:artifact:version` names (default: the broker and its tools), or None."""
    return _classpath(artifacts or BROKER, alone=False)


@cache
def spark_connector_jars() -> tuple[str, ...] | None:
    """The jars of Spark's own Kafka connector, for the setting `spark.jars`; None when Maven has none."""
    found = _classpath(SPARK_CONNECTOR, alone=True)
    return tuple(found.split(":")) if found else None


def _classpath(names: tuple[str, ...], *, alone: bool) -> str | None:
    """`alone`: those and nothing that they need."""
    if why_no_java() is not None:
        return None
    folder = CACHE / hashlib.sha256(" ".join(names).encode()).hexdigest()[:16]
    answer = folder / "classpath"
    folder.mkdir(parents=True, exist_ok=True)
    # The tests run in several processes, and Maven's local repository bears only one that fills it.
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = answer.read_text().strip() if answer.exists() else ""
        if kept and all(Path(jar).exists() for jar in kept.split(":")):
            return kept
        pom = folder / "pom.xml"
        more = _ALONE if alone else ""
        dependencies = [_DEPENDENCY.format(*name.split(":"), more) for name in names]
        pom.write_text(_POM.format(dependencies="".join(dependencies)))
        return _resolve(pom, answer)


def _resolve(pom: Path, answer: Path) -> str | None:
    # Offline first: with a filled local repository that saves a dozen questions to the network.
    for mode in (["-o"], []):
        fresh = pom.parent / "classpath.new"
        command = [
            "mvn",
            "-q",
            "-B",
            *mode,
            "-f",
            str(pom),
            "dependency:build-classpath",
            f"-Dmdep.outputFile={fresh}",
        ]
        try:
            done = subprocess.run(
                command,
                env={"MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", **os.environ},
                capture_output=True,
                text=True,
                timeout=MAVEN_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0 and fresh.exists():
            fresh.replace(answer)
            return answer.read_text().strip()
    return None
