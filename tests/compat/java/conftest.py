"""Fixtures of the tests in which Java is the reference."""

from collections.abc import Callable
from typing import Protocol

import pytest

from tests.compat.java.jars import KAFKA
from tests.compat.java.program_runner import ProgramRunner


class AskJava(Protocol):
    """A function that gives the answers of a Java program (PROGRAM.java) to `questions` on standard input."""

    def __call__(
        self, program: str, *arguments: str, questions: bytes = b"", artifacts: tuple[str, ...] = KAFKA
    ) -> bytes: ...


@pytest.fixture(scope="session")
def ask_java(runner_of: Callable[..., ProgramRunner]) -> AskJava:
    def ask(
        program: str, *arguments: str, questions: bytes = b"", artifacts: tuple[str, ...] = KAFKA
    ) -> bytes:
        ran = runner_of(artifacts).run(program, *arguments, given=questions)
        assert ran.code == 0, ran.text
        return ran.output

    return ask
