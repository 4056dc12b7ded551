"""`ottla rest` at nodes without logins: changes, streams of records, live tails, and plain texts."""

import subprocess
import sys

import pytest

from ottla.node.cli.app import main
from tests.integration.rest.conftest import TIMEOUT_S, Api, name_of

pytestmark = pytest.mark.slow


class Command:
    """A runner of `ottla rest` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capfd = monkeypatch, capfd

    def __call__(self, *words: str, code: int = 0) -> str:
        self._monkeypatch.setattr("sys.argv", ["ottla", "rest", *words])
        assert main() == code
        out, err = self._capfd.readouterr()
        return err if code else out


@pytest.fixture
def ottla(api: Api, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    monkeypatch.setenv("OTTLA_REST", api.url)
    return Command(monkeypatch, capfd)


def test_a_topic_is_created_written_and_read(api: Api, ottla: Command) -> None:
    topic = name_of("topic")
    records = " ".join(f'{{"value": {{"type": "JSON", "data": {number}}}}}' for number in range(2_000))

    made = ottla("POST", f"{api.v3}/topics", "--data", f'{{"topic_name": "{topic}", "partitions_count": 1}}')
    written = ottla("POST", f"{api.v3}/topics/{topic}/records", "-d", records)
    read = ottla("GET", f"{api.v3}/topics/{topic}/partitions/0/records?offset=-1")
    again = ottla("POST", f"{api.v3}/topics", "-d", f'{{"topic_name": "{topic}"}}', code=1)

    assert topic in made and written.count('"error_code":200') == 2_000 and '"offset":1999' in read
    assert again == f"ottla: Topic '{topic}' already exists. (HTTP 400)\n"


def test_texts_are_printed_as_they_are(ottla: Command) -> None:
    assert "\n# TYPE " in ottla("GET", "/metrics")
    assert ottla("GET", "/nowhere", code=1) == "ottla: HTTP 404 Not Found (HTTP 404)\n"


def test_events_are_printed_as_they_come(api: Api, ottla: Command) -> None:
    topic = name_of("topic")
    ottla("POST", f"{api.v3}/topics", "-d", f'{{"topic_name": "{topic}", "partitions_count": 1}}')
    command = ["rest", "GET", f"{api.v3}/topics/{topic}/records?offset=earliest", "--url", api.url]
    tail = subprocess.Popen(
        [sys.executable, "-m", "ottla", *command, "-H", "Accept: text/event-stream"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert tail.stdout is not None
        ottla(
            "POST", f"{api.v3}/topics/{topic}/records", "-d", '{"value": {"type": "STRING", "data": "hello"}}'
        )

        assert any("hello" in line for line in tail.stdout)
        tail.terminate()
        assert tail.wait(TIMEOUT_S) == 143
    finally:
        tail.kill()
        tail.communicate()
