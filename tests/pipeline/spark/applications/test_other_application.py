"""An application of its own, on the Java of the wheel and without a jar.

It writes and reads, its tasks are tried again, an executor is killed, then the application itself. Another
application completes its queries, exactly once. All that happens once for all tests, as it takes four Java
processes.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.pipeline.spark.java import NoJavaError, bundled_java, find_java
from tests.pipeline.spark.crash_queries import BATCHES, check_rows, faulty_options
from tests.pipeline.spark.warm_python import warm_python
from tests.pipeline.topics import make_topic

pytestmark = [pytest.mark.slow, pytest.mark.thorough]

TIMEOUT_S = 400
OF_THE_DRIVER = (
    "in the middle of a task",
    "before the decision",
    "after the decision",
    "in the middle of rolling forward",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query with a fault."""

    folder: Path
    options: dict[str, str]

    @property
    def flag(self) -> Path:
        return Path(self.options["fault.flag"])

    def as_json(self) -> dict[str, object]:
        """Return the query in the form for the application."""
        return {"folder": str(self.folder), "options": self.options}


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """An application after its end."""

    code: int
    errors: str
    reports: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The application whose driver was killed in the end, its queries, and the one that continued them."""

    first: Application
    tried_again: list[Query]
    killed: list[Query]
    second: Application


@pytest.fixture(scope="module")
def ended(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    try:
        find_java()
    except NoJavaError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("other")

    def query(name: str, point: str, kills: str, **more: str) -> Query:
        options = faulty_options(bootstrap, folder / name, point, kills, **more)
        return Query(folder=folder / name, options=options)

    tried_again = [query(kills, "in the middle of a task", kills) for kills in ("exception", "executor")]
    # Each waits for all others, so the driver dies with every one of them at its point.
    flags = os.pathsep.join(str(folder / f"driver-{number}" / "flag") for number in range(len(OF_THE_DRIVER)))
    killed = [
        query(f"driver-{number}", point, "driver", **{"fault.waits_for": flags})
        for number, point in enumerate(OF_THE_DRIVER)
    ]
    with warm_python() as python:
        topic = make_topic(bootstrap)
        first = run(bootstrap, python, [tried_again, killed], master="local-cluster[1,2,1024]", topic=topic)
        second = run(bootstrap, python, [killed], master="local[2]")  # their faults have happened already
    return Ended(first=first, tried_again=tried_again, killed=killed, second=second)


def run(bootstrap: str, python: str, query_groups: list[list[Query]], **more: str) -> Application:
    request = json.dumps(
        {"query_groups": [[one.as_json() for one in group] for group in query_groups], **more}
    )
    command = [
        sys.executable,
        "-m",
        "tests.pipeline.spark.applications.other_application",
        bootstrap,
        request,
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
    reports = [json.loads(line) for line in ran.stdout.splitlines()]
    return Application(code=ran.returncode, errors=ran.stderr, reports=reports)


def test_a_session_on_the_java_of_the_wheel_writes_and_reads_without_a_jar(ended: Ended) -> None:
    java = bundled_java()
    reports = ended.first.reports

    assert reports, ended.first.errors
    assert reports[0]["values"] == ["0", "1", "2"] and reports[0]["jars"] == ""
    if java is not None:
        assert reports[0]["java"].startswith(f"{java.version}.")


def test_tasks_are_tried_again_after_a_failure_and_after_their_executor_was_killed(
    bootstrap: str, ended: Ended
) -> None:
    """The killed executor had all of the shuffle, so a whole stage is tried again, too."""
    assert ended.first.reports[1:] == [{"failures": [[], []]}], ended.first.errors
    for query in ended.tried_again:
        assert query.flag.exists()
        check_rows(bootstrap, query.options["topic"], BATCHES)


@pytest.mark.parametrize("number", range(len(OF_THE_DRIVER)), ids=OF_THE_DRIVER)
def test_a_driver_is_killed_and_another_continues(bootstrap: str, ended: Ended, number: int) -> None:
    query = ended.killed[number]

    assert ended.first.code != 0 and query.flag.exists(), ended.first.errors
    assert ended.second.reports == [{"failures": [[]] * len(OF_THE_DRIVER)}], ended.second.errors
    check_rows(bootstrap, query.options["topic"], BATCHES)
