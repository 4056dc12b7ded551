"""Connectors in a job file: the documented one is valid; errors have the line of the option."""

import re
from pathlib import Path

import pytest

from ottla.pipeline.jobs.job import Flow, Task
from tests.pages import page_blocks
from tests.unit.pipeline.jobs.job_texts import problems, read, with_job


def test_the_job_file_of_the_documentation_is_valid(tmp_path: Path) -> None:
    (text,) = page_blocks("docs/connectors.md", "yaml", title="air.yaml")

    jobs = {job.name: job.work for job in read(tmp_path, text).jobs}

    flows = {
        name: (work.sources["source"].format, work.sink.format)
        for name, work in jobs.items()
        if isinstance(work, Flow)
    }
    assert flows == {
        "flights": ("table", "ottla"),
        "airports": ("file", "ottla"),
        "late": ("ottla", "http"),
        "history": ("ottla", "lake"),
    }
    archive = jobs["archive"]
    assert isinstance(archive, Task) and archive.kind == "load"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [
                "source: {format: table, connection.url: 'sqlite:/a.db', table: t, mode: incrementing}",
                "sink: {format: noop}",
            ],
            "incrementing.column.name: is missing; it is required in mode incrementing",
        ),
        (
            ["source: {format: file, path: /a, file.format: lines, heder: true}", "sink: {format: noop}"],
            "heder: is not an option here",
        ),
        (
            ["source: {format: rate}", "sink: {format: lake, path: 's3a://a/b'}"],
            "path: is 's3a://a/b', but must be a directory",
        ),
        (
            ["source: {format: rate}", "sink: {format: lake, path: /a}", "outputMode: complete"],
            "supports the outputMode append, but not complete",
        ),
        (
            ["source: {format: rate}", "sink: {format: http, http.url: localhost}"],
            "http.url: must be http://",
        ),
        (
            ["load: {kafka.bootstrap.servers: 'a:1', subscribe: t, path: /a, partitionBy: year}"],
            "partitionBy: names year",
        ),
    ],
)
def test_a_wrong_option_is_reported_with_its_line(tmp_path: Path, lines: list[str], message: str) -> None:
    (problem,) = problems(tmp_path, with_job(*lines))

    assert message in problem
    assert re.search(r"\b[5-7]:", problem)
