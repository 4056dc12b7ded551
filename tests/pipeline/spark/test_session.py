"""The session has our source without a call."""

import pytest
from pyspark.sql import SparkSession


def test_the_format_is_known_without_register(spark: SparkSession) -> None:
    told = {}
    for name in ("ottla", "ottlaa"):
        # Ours asks for its options; how is the matter of the source's tests.
        with pytest.raises(Exception) as error:
            spark.read.format(name).load()
        told[name] = str(error.value)

    assert "DATA_SOURCE_NOT_FOUND" in told["ottlaa"]
    assert "DATA_SOURCE_NOT_FOUND" not in told["ottla"]
