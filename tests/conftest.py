"""What all kinds of tests share: nodes as processes that do not outlive their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.servers import Server, StartNode, start_ottla


@pytest.fixture
def start_node() -> Iterator[StartNode]:
    """Starts nodes; whatever the test leaves running is killed."""
    started: list[Server] = []

    def start(data: Path, *overrides: str, port: int = 0) -> Server:
        started.append(start_ottla(data, *overrides, port=port))
        return started[-1]

    yield start
    for server in started:
        if server.is_running():
            server.kill()
