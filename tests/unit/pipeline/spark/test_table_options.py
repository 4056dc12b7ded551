"""The options of tables reach their readers and writers, and no other frames."""

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from ottla.pipeline.spark.table_options import (
    columns_with,
    new_rows,
    options_for_sink,
    options_for_source,
    options_of_new_table,
    options_to_read,
    options_to_write,
)
from ottla.pipeline.words import OptionError

CLUSTER = {"kafka.bootstrap.servers": "a:1"}
ELSEWHERE = {"kafka.bootstrap.servers": "b:2", "topic": "there"}
FLIGHTS = {**CLUSTER, "topic": "flights"}
PLAIN = StructType([StructField("value", StringType())])


def columns(table: dict[str, str]) -> StructType:
    return columns_with(table, include_headers=False)


def message_of(options: dict[str, str], schema: StructType) -> str:
    with pytest.raises(OptionError) as refused:
        options_to_write(options, schema)
    return str(refused.value)


def test_a_table_has_the_options_that_create_table_gave() -> None:
    given = {"option.kafka.bootstrap.servers": "a:1", "option.Topic": "flights", "owner": "tests"}

    assert options_of_new_table({**given, "topic": "flights"}) == FLIGHTS
    assert options_of_new_table({"topic": "flights"}) is None


def test_a_name_that_neither_reading_nor_writing_knows_is_refused_with_the_nearest() -> None:
    with pytest.raises(OptionError, match=r"topc: is not an option of this format; topic\?"):
        options_of_new_table({"option.topc": "flights"})


@pytest.mark.parametrize(
    ("table", "read", "written"),
    [
        ({"topic": "a"}, {"subscribe": "a"}, {"topic": "a"}),
        ({"subscribe": "a"}, {"subscribe": "a"}, {"topic": "a"}),
        ({"subscribe": "a", "topic": "b"}, {"subscribe": "a"}, {"topic": "b"}),
        ({"subscribe": "a,b"}, {"subscribe": "a,b"}, {}),
        ({"subscribepattern": "a.*"}, {"subscribepattern": "a.*"}, {}),
        (
            {"topic": "a", "startingoffsets": "earliest", "delivery.guarantee": "at_least_once"},
            {"subscribe": "a", "startingoffsets": "earliest"},
            {"topic": "a", "delivery.guarantee": "at_least_once"},
        ),
    ],
)
def test_options_are_divided_into_those_for_reading_and_for_writing(
    table: dict[str, str], read: dict[str, str], written: dict[str, str]
) -> None:
    assert options_for_source({**CLUSTER, **table}) == {**CLUSTER, **read}
    assert options_for_sink({**CLUSTER, **table}) == {**CLUSTER, **written}


def test_a_table_takes_references_to_secrets_but_no_secrets() -> None:
    jaas = "option.kafka.sasl.jaas.config"
    cluster = {"option.kafka.bootstrap.servers": "a:1", "option.topic": "t"}
    referring = 'a.ScramLoginModule required username="anna" password="${file:/x:y}";'

    with pytest.raises(OptionError, match="is a secret") as refused:
        options_of_new_table({**cluster, jaas: referring.replace("${file:/x:y}", "canary")})
    found = options_of_new_table({**cluster, jaas: referring})

    assert refused.value.option == "kafka.sasl.jaas.config" and "canary" not in str(refused.value)
    assert found is not None and found["kafka.sasl.jaas.config"] == referring


def test_options_of_a_query_override_those_of_the_table() -> None:
    found = options_to_read({"startingOffsets": "latest"}, columns(FLIGHTS))

    assert found == {**CLUSTER, "subscribe": "flights", "startingoffsets": "latest"}


def test_options_of_an_insert_override_those_of_the_table() -> None:
    found = options_to_write({"kafka.compression.type": "zstd"}, columns(FLIGHTS))

    assert found.options == {**FLIGHTS, "kafka.compression.type": "zstd"}
    assert found.is_insert


def test_a_write_that_names_its_cluster_takes_nothing_from_the_table_of_its_rows() -> None:
    found = options_to_write(ELSEWHERE, columns({**FLIGHTS, "kafka.acks": "1"}))

    assert found.options == ELSEWHERE
    assert not found.is_insert


def test_options_belong_to_no_table_if_a_column_of_the_log_is_missing_or_computed() -> None:
    computed = columns(FLIGHTS)
    computed["offset"].metadata = {}
    other = columns(FLIGHTS)
    other["timestampType"].metadata = columns({**CLUSTER, "topic": "other"})["timestampType"].metadata
    part = StructType([field for field in columns(FLIGHTS).fields if field.name != "key"])

    for schema in (PLAIN, part, computed, other):
        assert "kafka.bootstrap.servers: is missing" in message_of({}, schema)


def test_a_table_without_options_is_named_in_one_sentence() -> None:
    declared = StructType([StructField("offset", LongType())])

    message = message_of({}, declared)
    with pytest.raises(OptionError) as refused:
        options_to_read({}, declared)

    assert message == str(refused.value)
    assert "only if CREATE TABLE neither names columns nor has AS SELECT" in message


def test_a_row_that_has_an_offset_cannot_be_inserted() -> None:
    names = ["value", "offset", "timestampType"]
    new = pa.record_batch(
        [pa.array([b"a"]), pa.array([None], pa.int64()), pa.array([None], pa.int32())], names
    )
    read = pa.record_batch([pa.array([b"a"]), pa.array([7]), pa.array([0], pa.int32())], names)

    assert list(new_rows([new])) == [new]
    with pytest.raises(OptionError, match="column offset: is given by the log"):
        list(new_rows([new, read]))
