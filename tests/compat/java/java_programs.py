"""The Java programs beside this file; the programs of one class path are compiled together, and only once.

The classes are kept in `.cache/java/` of the checkout, under a hash of sources and class path.
"""

import fcntl
import hashlib
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compat.java.jars import (
    KAFKA,
    NEWEST_CLIENTS,
    OLDER_CLIENTS,
    kafka_classpath,
    reason_to_skip,
)

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache" / "java"
# For short runs: a better compiler or a collector with threads would cost more than it gains, and these
# classes need no verification.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
JVM = ("java", "-Xmx512m", "-Xshare:auto", "-XX:+UseSerialGC", "-XX:-UsePerfData", *QUICK_START)
_OF_MEMBERS = ("GroupMembers", "Transactions")
_OF_CLIENTS = ("SecuredClient", "SettingNames", "SteadyProducer", *_OF_MEMBERS)
_OF_THE_BROKER = (
    *(
        "AssignorReference",
        "AuthorizerReference",
        "CleanerReference",
        "GroupRecordReference",
        "JwtReference",
        "OauthBearerReference",
        "NameReference",
        "QuotaReference",
    ),
    *(
        "RegexReference",
        "ShareMembers",
        "SharePartitionReference",
        "ShareStateReference",
        "TransactionDecisionReference",
        "TransactionLogReference",
    ),
    *("CountingStream", "NumberSource"),
)
# Artifacts -> the programs; the first one runs the others (program_runner.py).
PROGRAMS = {
    KAFKA: ("KafkaTools", "ProgramRunner", *_OF_CLIENTS, *_OF_THE_BROKER),
    NEWEST_CLIENTS: ("ProgramRunner", "CodecReference", "RecordReference"),
    OLDER_CLIENTS: ("ProgramRunner", "SettingNames", *_OF_MEMBERS),
}


def java_program(name: str, artifacts: tuple[str, ...] = KAFKA, *more: Path) -> list[str]:
    """Return the command that runs the class `name` with these artifacts; arguments may follow.

    The artifacts must be there (`reason_to_skip`). `more` goes before them and their programs on the class
    path.
    """
    classpath = kafka_classpath(*artifacts)
    assert classpath is not None, reason_to_skip(artifacts)
    places = [*map(str, more), str(compiled(artifacts, classpath)), classpath]
    return [*JVM, "-cp", ":".join(places), name]


def compiled(artifacts: tuple[str, ...], classpath: str) -> Path:
    """Return the folder with the classes of all programs for these artifacts.

    Raises RuntimeError with the messages of the compiler.
    """
    sources = [HERE / f"{name}.java" for name in PROGRAMS[artifacts]]
    content = b"".join(source.read_bytes() for source in sources)
    folder = CACHE / hashlib.sha256(content + classpath.encode()).hexdigest()[:16]
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock, TemporaryDirectory(dir=CACHE) as fresh:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # A JRE has no program `javac`, but it contains the compiler.
            compiler = [*JVM, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none"]
            command = [*compiler, "-cp", classpath, "-d", f"{fresh}/classes", *map(str, sources)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            Path(fresh, "classes").rename(folder)
    return folder
