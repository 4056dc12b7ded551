"""Fixtures of the tests in which Java is the judge."""

from collections.abc import Callable
from typing import Protocol

import pytest

from tests.compat.java.jars import KAFKA
from tests.compat.java.program_runner import ProgramRunner


class AskJava(Protocol):
    """A function that returns the answers of a judge (JUDGE.java) to `questions`, its standard input."""

    def __call__(
        self, judge: str, *arguments: str, questions: bytes = b"", artifacts: tuple[str, ...] = KAFKA
    ) -> bytes: ...


@pytest.fixture(scope="session")
def ask_java(runner_of: Callable[..., ProgramRunner]) -> AskJava:
    def ask(judge: str, *arguments: str, questions: bytes = b"", artifacts: tuple[str, ...] = KAFKA) -> bytes:
        ran = runner_of(artifacts).run(judge, *arguments, given=questions)
        assert ran.code == 0, ran.text
        return ran.output

    return ask
