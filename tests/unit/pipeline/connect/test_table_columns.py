"""Values of a real SQLite database in columns of each type: unchanged, or refused with the column's name."""

import sqlite3
from pathlib import Path

import pytest

from ottla.pipeline.connect.table_columns import (
    arrow_schema,
    postgresql_column,
    texts_name,
    to_batch,
    with_texts,
)
from ottla.pipeline.connect.table_database import open_database
from ottla.pipeline.connect.table_options import TableOptions
from ottla.pipeline.connect.table_queries import TableQueries
from ottla.pipeline.words import OptionError


def read(path: Path, statements: str) -> dict[str, list[object]]:
    """Return the columns of table `t` as a stream of it has them."""
    with sqlite3.connect(path / "a.db") as connection:
        connection.executescript(statements)
    connection.close()
    options = TableOptions.from_options(
        {"connection.url": f"sqlite:{path / 'a.db'}", "table": "t", "mode": "bulk"}
    )
    database = open_database(options)
    columns = database.columns()
    (rows,) = database.batches(TableQueries(options, columns).everything(), 10)
    database.close()
    found: dict[str, list[object]] = to_batch(rows, arrow_schema(columns)).to_pydict()
    return found


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        ("DECIMAL(16,2)", "99999999999999.98", "99999999999999.98"),
        ("NUMERIC", "0.1", "0.1"),
        ("MONEY", "1234567890123456789", "1234567890123456789"),
        ("ANY", "2456293.5000123456", "2456293.5000123456"),
        ("", "12345678.12345679", "12345678.12345679"),
        ("", "x'616263'", "abc"),
        ("DATETIME", "2456293.5000123456", "2456293.5000123456"),
        ("DATE", "20130101", "20130101"),
        ("DATE", "'2013-01-01'", "2013-01-01"),
        ("TEXT", "x'616263'", "abc"),
        ("TEXT", "NULL", None),
        ("INT", "9223372036854775807", 9223372036854775807),
        ("INT", "3.0", 3),
        ("REAL", "3", 3.0),
        ("REAL", "9e999", float("inf")),
        ("BOOLEAN", "1", True),
        ("BOOLEAN", "0.0", False),
        ("BOOLEAN", "'True'", True),
        ("BLOB", "x'00ff'", b"\x00\xff"),
    ],
)
def test_a_value_loses_nothing(tmp_path: Path, declared: str, value: str, expected: object) -> None:
    found = read(tmp_path, f"CREATE TABLE t (a {declared}); INSERT INTO t VALUES ({value})")

    assert found == {"a": [expected]}


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        ("INT", "3.5", "not int64: '3.5' is not a whole number"),
        ("INT", "-3.99", "not int64: '-3.99' is not a whole number"),
        ("INT", "9223372036854775808", "not int64"),
        ("INT", "'many'", "not int64: 'many' is not a whole number"),
        ("INT", "x'31'", "not int64"),
        ("BOOLEAN", "2", "not bool: '2' is not 0, 1"),
        ("BOOLEAN", "0.5", "not bool: '0.5' is not 0, 1"),
        ("BOOLEAN", "'yes'", "not bool: 'yes' is not 0, 1"),
        ("REAL", "'much'", "not double: 'much' is not a real number"),
        ("BLOB", "1", "not binary"),
        ("TEXT", "x'ff'", "not string"),
        ("", "x'ff'", "not string"),
    ],
)
def test_a_value_that_would_be_changed_is_refused_by_name(
    tmp_path: Path, declared: str, value: str, message: str
) -> None:
    with pytest.raises(OptionError) as refused:
        read(tmp_path, f'CREATE TABLE t ("a b" {declared}); INSERT INTO t VALUES ({value})')

    assert str(refused.value).startswith(f"table: has values in column a b that are {message}")


def test_a_refused_value_is_reported_with_its_row(tmp_path: Path) -> None:
    rows = "INSERT INTO t VALUES (5, 1), (6, 2.5), (7, 3.5)"
    with pytest.raises(OptionError, match=r"\(in the row with id = '6'\)$"):
        read(tmp_path, f"CREATE TABLE t (id INT, a INT); {rows}")


def test_the_texts_of_values_that_spark_lacks_are_a_map_with_a_unique_name() -> None:
    plain = [postgresql_column("id", "int8", -1, False), postgresql_column("name", "text", -1, True)]
    odd = [
        *plain,
        postgresql_column("day", "date", -1, True),
        postgresql_column("Out_Of_Range", "int4", -1, True),
    ]

    columns = with_texts(odd)

    assert (with_texts(plain), texts_name(plain)) == (plain, None)
    assert texts_name(columns) == "out_of_range_"
    rows = [(1, "a", None, 7, ["day", "infinity"]), (2, "b", None, 8, None), (3, "c", None, 9, ["day", None])]
    assert to_batch(rows, arrow_schema(columns)).to_pydict()["out_of_range_"] == [
        [("day", "infinity")],
        None,
        [],
    ]


def test_generated_columns_are_columns(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        "CREATE TABLE t (a INT, b INT AS (a + 1) VIRTUAL, c TEXT GENERATED ALWAYS AS (a || 'x') STORED);"
        " INSERT INTO t (a) VALUES (1)",
    )

    assert found == {"a": [1], "b": [2], "c": ["1x"]}
