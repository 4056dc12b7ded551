"""Apache Kafka's own classes for the tests: a class path of Maven artifacts with everything that they need.

Maven resolves; its answer is kept in `.cache/maven/` of the checkout, so a second run starts no Maven.
`why_no_java` gives the reason for a skip, in words.
"""

import fcntl
import hashlib
import shutil
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
CACHE = ROOT / ".cache" / "maven"
BROKER = ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-tools:4.3.1")
MAVEN_TIMEOUT_S = 300

_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla.tests</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def why_no_java() -> str | None:
    """Why no Java class can run here, or None when it can as far as the installed programs tell."""
    for program, package in (("java", "a JRE 17 (openjdk-17-jre-headless)"), ("mvn", "Maven (maven)")):
        if shutil.which(program) is None:
            return f"{program} is not installed: install {package}"
    return None


@cache
def kafka_classpath(*artifacts: str) -> str | None:
    """The class path of `group:artifact:version` names (default: the broker and its tools), or None."""
    names = artifacts or BROKER
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
        return _resolve(names, folder, answer)


def _resolve(names: tuple[str, ...], folder: Path, answer: Path) -> str | None:
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(dependencies="".join(_DEPENDENCY.format(*name.split(":")) for name in names)))
    # Offline first: with a filled local repository that saves a dozen questions to the network.
    for mode in (["-o"], []):
        fresh = folder / "classpath.new"
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
                command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            continue
        if done.returncode == 0 and fresh.exists():
            fresh.replace(answer)
            return answer.read_text().strip()
    return None
