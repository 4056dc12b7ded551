"""The columns of a source, and schemas that name some of them."""

import pytest

from ottla.pipeline.columns.record_columns import FIELDS
from ottla.pipeline.source.source_schema import HEADERS_TYPE, check_columns, schema_text
from ottla.pipeline.words import OptionError


def test_the_columns_are_those_that_batches_have() -> None:
    names = [column.split(" ")[0] for column in schema_text(include_headers=True).split(", ")]

    assert names == list(FIELDS)
    assert "headers" not in schema_text(include_headers=False)


def test_a_schema_names_some_columns_in_its_own_order() -> None:
    columns = [("offset", "bigint", True), ("key", "binary", True)]

    assert check_columns(columns, include_headers=False) == ("offset", "key")


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (
            ("values", "binary", True),
            "column values: is not a column of this source, which has key, value, topic",
        ),
        (("value", "string", True), "column value: is string, but this source has binary"),
        (("offset", "bigint", False), "column offset: is NOT NULL"),
        (("headers", HEADERS_TYPE, True), "column headers: needs the option includeHeaders=true"),
    ],
)
def test_an_unknown_column_is_refused(column: tuple[str, str, bool], reason: str) -> None:
    with pytest.raises(OptionError) as raised:
        check_columns([column], include_headers=False)

    assert str(raised.value).startswith(reason)


def test_a_column_is_named_once() -> None:
    with pytest.raises(OptionError, match="twice"):
        check_columns([("key", "binary", True)] * 2, include_headers=False)
