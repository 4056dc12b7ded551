"""The options of a table source: each is checked by name, and no password is ever shown."""

import pytest

from ottla.pipeline.connect.table_options import Engine, Mode, TableOptions
from ottla.pipeline.words import OptionError

BASE = {"connection.url": "sqlite:/data/a.db", "table": "flights", "mode": "bulk"}
BY_ID = {**BASE, "mode": "incrementing", "incrementing.column.name": "id"}
POSTGRESQL = {**BASE, "connection.url": "postgresql://host:5432/db"}


@pytest.mark.parametrize(
    ("url", "engine", "connection"),
    [
        ("sqlite:/data/a.db", Engine.SQLITE, "/data/a.db"),
        ("sqlite:///data/a.db", Engine.SQLITE, "/data/a.db"),
        ("jdbc:sqlite:/data/a.db", Engine.SQLITE, "/data/a.db"),
        ("postgresql://host/db?sslmode=require", Engine.POSTGRESQL, "postgresql://host/db?sslmode=require"),
        ("jdbc:postgresql://host:1/db", Engine.POSTGRESQL, "postgresql://host:1/db"),
    ],
)
def test_a_url_names_the_database(url: str, engine: Engine, connection: str) -> None:
    options = TableOptions.from_options({**BASE, "connection.url": url})

    assert (options.engine, options.connection) == (engine, connection)


@pytest.mark.parametrize(
    ("table", "parts"),
    [
        ("flights", ("flights",)),
        ("public.flights", ("public", "flights")),
        ('"odd.name"', ("odd.name",)),
        ('s."a ""b"""', ("s", 'a "b"')),
    ],
)
def test_a_table_has_parts(table: str, parts: tuple[str, ...]) -> None:
    assert TableOptions.from_options({**BASE, "table": table}).table == parts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({**BASE, "connection.url": "sqlite:a.db"}, "connection.url: must be sqlite:/absolute/path"),
        (
            {**BASE, "connection.url": "mysql://host/db"},
            "connection.url: begins with neither sqlite: nor postgresql:",
        ),
        (
            {**BASE, "connection.url": "postgresql://host"},
            "connection.url: must be postgresql://host:port/database",
        ),
        ({**BASE, "connection.url": "postgresql://[host/db"}, "connection.url: is not a URL"),
        ({**BASE, "table": "a.b.c"}, "table: is 'a.b.c', which has more parts"),
        ({**BASE, "table": "a."}, "table: is 'a.'; it must be a table or schema.table"),
        ({**BASE, "table": '"a'}, "table: is '\"a'; it must be a table"),
        ({**BASE, "mode": "latest"}, "mode: is 'latest'; it must be one of bulk, incrementing"),
        (
            {**BASE, "mode": "incrementing"},
            "incrementing.column.name: is missing; it is required in mode incrementing",
        ),
        ({**BY_ID, "mode": "timestamp+incrementing"}, "timestamp.column.name: is missing"),
        ({**BASE, "incrementing.column.name": "id"}, "incrementing.column.name: has no effect in mode bulk"),
        ({**BY_ID, "timestamp.delay.interval.ms": "9"}, "timestamp.delay.interval.ms: has no effect in mode"),
        ({**BY_ID, "poll.interval.ms": "9"}, "poll.interval.ms: has no effect in mode incrementing"),
        ({**BASE, "batch.max.rows": "9"}, "batch.max.rows: has no effect in mode bulk"),
        ({**BY_ID, "batch.max.rows": "0"}, "batch.max.rows: is 0; it must be from 1"),
        ({**BASE, "connection.user": "me"}, "connection.user: and connection.password are for PostgreSQL"),
        ({**BASE, "db.timezone": "UTC"}, "db.timezone: is for PostgreSQL"),
        ({**BASE, "output": "rows", "key": "id"}, "output: is rows, which have neither key nor value"),
        ({**BASE, "tabel": "a"}, "tabel: is not an option here"),
    ],
)
def test_a_wrong_option_is_reported_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as refused:
        TableOptions.from_options(options)

    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    "url", ["postgresql://me:hunter2@host/db", "postgresql://host/db?password=hunter2", "hunter2"]
)
def test_a_url_is_never_shown(url: str) -> None:
    with pytest.raises(OptionError) as refused:
        TableOptions.from_options({**BASE, "connection.url": url})

    assert "hunter2" not in str(refused.value)


def test_a_password_is_not_in_the_representation_of_options() -> None:
    options = TableOptions.from_options({**POSTGRESQL, "connection.password": "hunter2"})

    assert options.password == "hunter2"
    assert "hunter2" not in repr(options)


def test_the_modes_are_those_of_kafka_connect() -> None:
    assert [mode.value for mode in Mode] == ["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
