"""Job files: the meaning of valid ones, and every error with its line, key and reason."""

from pathlib import Path

import pytest

from ottla.pipeline.jobs.job import Endpoint, Flow, PythonStep, SqlStep
from ottla.pipeline.jobs.job_reader import local_folder
from ottla.pipeline.query import AvailableNow, ProcessingTime, QuerySettings
from tests.pages import page_blocks
from tests.unit.pipeline.jobs.job_texts import GOOD, NOOP, RATE, problems, read, with_job


def test_a_file_defines_the_jobs_and_the_places_of_their_progress(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)

    [job] = file.jobs
    assert (file.name, file.storage, file.configuration) == (
        "shop",
        str(tmp_path / "state"),
        {"spark.sql.shuffle.partitions": "4"},
    )
    assert job.query == QuerySettings(
        name="shop.totals",
        checkpoint=str(tmp_path / "state" / "totals" / "checkpoint"),
        trigger=ProcessingTime(interval_ms=1000),
    )
    assert isinstance(job.work, Flow)
    assert job.work.sources["source"].options == {"kafka.bootstrap.servers": "a:9092", "subscribe": "orders"}
    assert job.work.steps == (SqlStep(query="SELECT key, value FROM source"),)


def test_an_exactly_once_sink_is_identified_by_the_names_of_file_and_job(tmp_path: Path) -> None:
    named = GOOD.replace("delivery.guarantee", "Transactional.ID: mine, delivery.guarantee")
    at_least_once = GOOD.replace("exactly_once", "at_least_once")
    ids = []
    for text in (GOOD, named, at_least_once):
        work = read(tmp_path, text).jobs[0].work
        assert isinstance(work, Flow)
        ids.append({key.lower(): value for key, value in work.sink.options.items()}.get("transactional.id"))

    assert ids == ["shop.totals", "mine", None]


def test_several_sources_are_views_and_steps_follow_each_other(tmp_path: Path) -> None:
    (tmp_path / "join.sql").write_text("SELECT * FROM orders JOIN names USING (id)")
    (tmp_path / "cleaning.py").write_text("def clean(frame, least): ...\n")
    file = read(
        tmp_path,
        with_job(
            "sources:",
            "  orders: {format: json, path: /in, schema: id long}",
            "  names: {format: parquet, path: /names, static: true}",
            "transform:",
            "  - {sqlFile: join.sql, as: joined}",
            "  - {python: cleaning:clean, arguments: {least: 5}}",
            "sink: {format: parquet, path: /out}",
            "trigger: {availableNow: true}",
            "checkpoint: s3a://bucket/here",
        ),
    )

    [job] = file.jobs
    assert job.work == Flow(
        sources={
            "orders": Endpoint(format="json", options={"path": "/in", "schema": "id long"}),
            "names": Endpoint(format="parquet", options={"path": "/names"}, is_static=True),
        },
        steps=(
            SqlStep(query="SELECT * FROM orders JOIN names USING (id)", view="joined"),
            PythonStep(module="cleaning", function="clean", arguments={"least": "5"}),
        ),
        sink=Endpoint(format="parquet", options={"path": "/out"}),
    )
    assert (job.query.trigger, job.query.checkpoint) == (AvailableNow(), "s3a://bucket/here")


def test_all_errors_are_reported_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        nam: shop
        storage:
        onFailure: explode
        stopTimeout: soon
        configuration: {sql.shuffle: 1}
        jobs:
          a/b:
            source: {format: otla}
            sink: {format: noop}
          totals:
            source: {format: ottla, subscribe: a, kafka.bootstrap.servers: a, subscibe: b, minPartitions: x}
            transform: {sql: SELECT 1}
            sink: {format: parquet}
            trigger: {processingTime: 5}
            outputMode: upsert
            chekpoint: here
        """,
    )

    assert found == [
        "2: nam: is unknown; name?",
        "2: name: is missing",
        "3: storage: has no value",
        "4: onFailure: must be one of continue, stop",
        "5: stopTimeout: must be a number and a unit, such as 500 milliseconds or 10 seconds",
        "6: configuration.sql.shuffle: is not a Spark setting; these begin with spark.",
        "8: jobs.a/b: must be a name of at most 100 letters, digits, _, - and dots, not beginning with a dot",
        "9: jobs.a/b.source.format: is unknown; ottla?",
        *[line for line in found if line.startswith("12: jobs.totals.source.")],
        "13: jobs.totals.transform: must be a list: items with a dash before each",
        "14: jobs.totals.sink.path: is missing",
        "15: jobs.totals.trigger.processingTime: must be a number and a unit, such as 500 "
        "milliseconds or 10 seconds",
        "16: jobs.totals.outputMode: must be one of append, complete, update",
        "17: jobs.totals.chekpoint: is unknown; checkpoint?",
    ]
    of_the_source = "\n".join(line for line in found if line.startswith("12: "))
    assert "subscibe" in of_the_source and "minPartitions" in of_the_source and of_the_source.count("\n") == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([RATE], "4: jobs.totals: needs one of sink"),
        ([NOOP], "4: jobs.totals: needs source or sources"),
        ([RATE, NOOP, NOOP], "7: jobs.totals.sink: is given twice, first in line 6"),
        (
            [RATE, "sources: {a: {format: rate}}", NOOP],
            "6: jobs.totals.sources: cannot be used together with source",
        ),
        (["sources: {a: {format: rate}, b: {format: rate}}", NOOP], "has several sources, but no transform"),
        (["sources: {}", NOOP], "5: jobs.totals.sources: is empty"),
        (["sources: {1a: {format: rate}}", NOOP], "5: jobs.totals.sources.1a: must be a name for SQL"),
        (["source: {format: rate, static: true}", NOOP], "source: cannot be used as a static table"),
        (["source: {format: json, path: a, static: true}", NOOP], "has no source that is a stream"),
        (["source: {format: json, path: a, static: 1}", NOOP], "source.static: must be true or false"),
        (["source: {format: json, path: a}", NOOP], "source.schema: is missing"),
        (["source: {path: a}", NOOP], "5: jobs.totals.source.format: is missing"),
        (["source: rate", NOOP], "5: jobs.totals.source: must be a map"),
        (["source: {format: rate, rowsPerSecond: [1]}", NOOP], "rowsPerSecond: must be text"),
        (["source: {format: rate, rowsPerSecond: {a: 1}}", NOOP], "put JSON in quotes"),
        (["source: {format: rate, rowsPerSecond: }", NOOP], "rowsPerSecond: has no value"),
        (["source: {format: kafka, kafka.bootstrap.servers: a, subscribe: b}", NOOP], "format: needs a jar"),
        (["source: {format: delta, path: b}", NOOP], "source.format: is unknown"),
        ([RATE, "sink: {format: rate}"], "6: jobs.totals.sink.format: is unknown; "),
        (
            [RATE, "sink: {format: json, path: a}", "outputMode: update"],
            "supports the outputMode append, but not update",
        ),
        ([RATE, NOOP, "trigger: {}"], "must have exactly one of processingTime, availableNow"),
        ([RATE, NOOP, "trigger: {availableNow: false}"], "trigger.availableNow: must be true"),
        (
            [RATE, NOOP, "transform: [{sql: a, python: b:c}]"],
            "7: jobs.totals.transform[1]: must have exactly one of",
        ),
        ([RATE, NOOP, "transform: [{sql: ''}]"], "transform[1].sql: is empty"),
        ([RATE, NOOP, "transform: [{sqlFile: no.sql}]"], "no.sql, which cannot be read: No such file"),
        ([RATE, NOOP, "transform: [{sql: a, arguments: {b: c}}]"], "arguments: can only be used with python"),
        ([RATE, NOOP, "transform: [{python: a}]"], "transform[1].python: must have the form module:function"),
        ([RATE, NOOP, "transform: [{python: nowhere:f}]"], "names the module nowhere, which cannot be found"),
        ([RATE, NOOP, "transform: [{sql: a, as: b c}]"], "transform[1].as: must be a name for SQL"),
        ([RATE, "sink: {format: noop, x: '${NOT_THERE}'}"], "sink.x: uses ${NOT_THERE}, which"),
    ],
)
def test_an_error_is_reported_with_its_place(tmp_path: Path, lines: list[str], message: str) -> None:
    assert [problem for problem in problems(tmp_path, with_job(*lines)) if message in problem]


def test_jobs_do_not_share_checkpoints_and_transactional_ids(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        """
        name: shop
        storage: s
        jobs:
          a: {source: {format: rate}, sink: {format: noop}, checkpoint: here}
          b: {source: {format: rate}, sink: {format: noop}, checkpoint: here}
        """,
    )

    assert found == ["6: jobs.b.checkpoint: is already used by the job a; each job needs its own"]


def test_a_format_of_a_jar_is_known_once_jars_are_named(tmp_path: Path) -> None:
    text = with_job("source: {format: kafka, kafka.bootstrap.servers: a, subscribe: b}", NOOP)

    assert problems(tmp_path, "configuration: {spark.jars: /a.jar}\n" + text) == []


def test_only_settings_of_clients_may_refer_to_files(tmp_path: Path) -> None:
    (tmp_path / "secrets").write_text("host=a:9092\n")
    refers = f"'${{file:{tmp_path}/secrets:host}}'"
    connects = f"kafka.bootstrap.servers: {refers}, subscribe: b"

    assert problems(tmp_path, with_job(f"source: {{format: ottla, {connects}}}", NOOP)) == []
    for source in (f"{{format: rate, x: {refers}}}", f"{{format: kafka, {connects}}}"):
        text = "configuration: {spark.jars: /a.jar}\n" + with_job(f"source: {source}", NOOP)
        [found] = problems(tmp_path, text)
        assert "refers to a file" in found


@pytest.mark.parametrize(
    ("page", "title"), [("docs/jobs.md", "secured.yaml"), ("docs/mirror.md", "secured-mirror.yaml")]
)
def test_the_job_of_a_secured_cluster_is_valid_as_its_page_has_it(
    tmp_path: Path, page: str, title: str
) -> None:
    (tmp_path / "secrets.properties").write_text("password = canary\n")
    [text] = page_blocks(page, "yaml", title=title)

    assert problems(tmp_path, text.replace("/etc/kafka", str(tmp_path)), {"KAFKA_USER": "anna"}) == []


def test_secrets_are_in_no_message(tmp_path: Path) -> None:
    found = problems(
        tmp_path,
        with_job(
            "source: {format: ottla, kafka.bootstrap.servers: '${WHERE}', subscribe: a}",
            "sink: {format: noop, x: '${NOT_THERE}', ssl.key.password: hunter22}",
            "trigger: {processingTime: 'hunter22'}",
        ),
        {"WHERE": "no-port:secret-of-the-environment"},
    )

    assert found and "hunter22" not in "\n".join(found) and "secret-of" not in "\n".join(found)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    assert problems(tmp_path, "a: [\n") == [
        "2: is not valid YAML: expected the node content, but found '<stream end>'"
    ]
    assert problems(tmp_path, "- a\n") == ["1: must be a map of keys and values"]


@pytest.mark.parametrize(
    ("storage", "folder"),
    [
        ("/a/b", Path("/a/b")),
        ("file:///a%20b", Path("/a b")),
        ("file:/a", Path("/a")),
        ("file://elsewhere/a", None),
        ("s3a://bucket/a", None),
        ("hdfs:/a", None),
    ],
)
def test_only_local_storages_are_folders(storage: str, folder: Path | None) -> None:
    assert local_folder(storage) == folder
