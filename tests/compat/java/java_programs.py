"""The Java programs beside this file, each compiled once for a class path: most take less time to run.

The classes are kept in `.cache/java/` of the checkout, under a hash of source and class path.
"""

import fcntl
import hashlib
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[2] / ".cache" / "java"
# Of short life: what a better compiler, or a collector with threads, would gain is less than they cost.
JVM = ("java", "-Xmx512m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def java_program(name: str, classpath: str) -> list[str]:
    """The command that runs `name`.java; its arguments may follow."""
    return [*JVM, "-cp", f"{compiled(name, classpath)}:{classpath}", name]


def compiled(name: str, classpath: str) -> Path:
    """The folder with the classes of `name`.java; RuntimeError with what the compiler says."""
    source = HERE / f"{name}.java"
    digest = hashlib.sha256(source.read_bytes() + classpath.encode()).hexdigest()[:16]
    folder = CACHE / f"{name}-{digest}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock, TemporaryDirectory(dir=CACHE) as fresh:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            # A JRE has no `javac`, but the compiler.
            compiler = [*JVM, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none"]
            command = [*compiler, "-cp", classpath, "-d", f"{fresh}/classes", str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(done.stderr)
            Path(fresh, "classes").rename(folder)
    return folder
