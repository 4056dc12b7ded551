"""A JVM that runs many Java programs for the tests (ProgramRunner.java) and captures their output."""

import base64
import subprocess
from dataclasses import dataclass
from threading import Timer

from tests.compat.java.jars import KAFKA
from tests.compat.java.java_programs import PROGRAMS, java_program

RUN_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The exit code and the output of a program."""

    code: int
    output: bytes

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")

    def lines(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.strip()]


class ProgramRunner:
    """A JVM with the classes of `artifacts`; `run` calls the method `main` of a class."""

    def __init__(self, artifacts: tuple[str, ...] = KAFKA) -> None:
        self.process = subprocess.Popen(
            java_program(PROGRAMS[artifacts][0], artifacts),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, program: str, *arguments: str, given: bytes = b"") -> Ran:
        """Run a program with `given` as its standard input.

        Raises AssertionError if the JVM ends, as it does after RUN_TIMEOUT_S.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        fields = [program.encode(), given, *(one.encode() for one in arguments)]
        watchdog = Timer(RUN_TIMEOUT_S, self.process.kill)
        watchdog.start()
        try:
            self.process.stdin.write(b" ".join(map(base64.b64encode, fields)) + b"\n")
            self.process.stdin.flush()
            code, _, printed = self.process.stdout.readline().rstrip(b"\n").partition(b" ")
        finally:
            watchdog.cancel()
        assert code, f"{program} ended the JVM"
        return Ran(code=int(code), output=base64.b64decode(printed))

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
