"""A JVM with Java's transactional producers (Transactions.java): each call is one line in and one out."""

import json
import subprocess

from tests.compat.java.jars import KAFKA
from tests.compat.java.java_programs import java_program


class JavaError(Exception):
    """An exception of the client, with the name of its class."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"{name}: {words}")
        self.name = name


class Transactions:
    """The JVM: `client("send", "anna", "orders-0", "v1", "v2")` makes a call of Transactions.java."""

    def __init__(self, bootstrap: str, artifacts: tuple[str, ...] = KAFKA) -> None:
        self.process = subprocess.Popen(
            [*java_program("Transactions", artifacts), bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, *words: str) -> list[str]:
        """Make a call, and return the values that it read.

        Raises JavaError for an exception of the client.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        print(*words, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        assert line, "the JVM ended"
        reply = json.loads(line)
        if "error" in reply:
            raise JavaError(reply["error"], reply["words"])
        values: list[str] = reply.get("values", [])
        return values

    def close(self) -> None:
        """End the JVM as SIGKILL would."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()
