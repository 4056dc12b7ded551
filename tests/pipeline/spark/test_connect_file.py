"""The new files of a directory as records, by Spark's readers; a half-written file is never read silently."""

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from ottla.pipeline.connect.file_source import read_stream
from ottla.pipeline.words import OptionError

pytestmark = pytest.mark.slow

TIMEOUT_S = 120
SCHEMA = "id LONG, name STRING"


def run(frame: DataFrame, checkpoint: str) -> list[Row]:
    """Return all rows of a query for the data that is available now."""
    rows: list[Row] = []
    query = frame.writeStream.foreachBatch(lambda batch, _number: rows.extend(batch.collect()))
    assert (
        query.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination(TIMEOUT_S)
    )
    return rows


def test_lines_are_values_and_only_new_files_come(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.txt").write_text("one\ntwo\n")
    (inbox / ".b.txt").write_text("being written\n")
    frame = read_stream(
        spark, {"path": str(inbox), "file.format": "lines", "file.header": "from", "pathGlobFilter": "*.txt"}
    )

    first = run(frame, checkpoint)
    (inbox / ".b.txt").rename(inbox / "b.txt")
    second = run(frame, checkpoint)

    assert [row.value for row in first] == ["one", "two"]
    assert [row.value for row in second] == ["being written"]
    assert frame.columns == ["value", "headers"]
    ((name, path),) = second[0].headers
    assert (name, bytes(path).decode()) == ("from", f"file:{inbox}/b.txt")


def test_rows_of_csv_have_keys_and_json_values(spark: SparkSession, tmp_path: Path, checkpoint: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text('id;name\n7;"a;b"\n8;\n')
    options = {
        "path": str(tmp_path / "in"),
        "file.format": "csv",
        "schema": SCHEMA,
        "sep": ";",
        "header": "true",
    }

    rows = run(read_stream(spark, {**options, "key": "id"}), checkpoint)

    assert {row.key: json.loads(row.value) for row in rows} == {
        "7": {"id": 7, "name": "a;b"},
        "8": {"id": 8, "name": None},
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        # as in a file that is still being written
        ("a.json", '{"id": 1, "name": "x"}\n{"id": 2, "na', "Malformed records are detected"),
        ("a.csv", "name,id\nx,1\n", "CSV header does not conform to the schema"),
    ],
)
def test_a_file_that_does_not_fit_stops_the_query(
    spark: SparkSession, tmp_path: Path, checkpoint: str, name: str, text: str, message: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_text(text)
    kind = name.partition(".")[2]
    options = {"path": str(tmp_path / "in"), "file.format": kind, "schema": SCHEMA}
    if kind == "csv":
        options["header"] = "true"

    with pytest.raises(Exception, match=message):
        run(read_stream(spark, options), checkpoint)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"file.format": "xml"}, "file.format: is 'xml'; it must be one of lines, csv, json"),
        ({"file.format": "csv"}, "schema: is missing"),
        ({"file.format": "lines", "schema": SCHEMA}, "schema: is for csv and json"),
        ({"file.format": "lines", "header": "true"}, "header: is not an option here"),
        (
            {"file.format": "json", "schema": SCHEMA, "key": "ident"},
            "key: names ident, but the columns are id",
        ),
        ({"file.format": "lines", "output": "rows", "file.header": "from"}, "file.header: is for records"),
    ],
)
def test_wrong_options_are_rejected_by_name(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(OptionError) as rejected:
        read_stream(spark, {"path": str(tmp_path), **options})

    assert str(rejected.value).startswith(message)
