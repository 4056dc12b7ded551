"""Fixtures of the integration tests: one node process for the whole session, nodes inside the test process.

`node` is a real process on a free port, shared by all tests that leave it unharmed; create your own topics.
`broker` runs a node on an event loop in a thread of the test process, for tests that look inside it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat import command_line
from tests.compat.servers import Server, start_ottla
from tests.integration.embedded_broker import QUICK, EmbeddedBroker, start_embedded


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start one node as a process for all tests."""
    overrides = [f"{name}={value}" for name, value in QUICK.items()]
    server = start_ottla(tmp_path_factory.mktemp("node"), *overrides)
    yield server
    assert server.stop() == 0
    assert "Traceback" not in server.output(), server.output()[-3000:]


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """Kill the commands that a failed test left running."""
    yield
    command_line.end_all()


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Callable[..., EmbeddedBroker]]:
    """Yield `embedded(log_dirs=..., **settings)`, which starts a node in this process; `_` stands for `.`."""
    started: list[EmbeddedBroker] = []

    def start(**settings: object) -> EmbeddedBroker:
        started.append(start_embedded(tmp_path / "embedded", **settings))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def broker(embedded: Callable[..., EmbeddedBroker]) -> EmbeddedBroker:
    """Start a node in this process for one test."""
    return embedded()
