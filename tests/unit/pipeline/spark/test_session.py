"""A session without the format is refused with a sentence; an import makes the format known."""

import subprocess
import sys
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from ottla.pipeline.spark.session import NoFormatError, _check_format, _planning_python


class Formats:
    """A session's manager of formats, with Spark's answer."""

    def __init__(self, answer: bool | Exception) -> None:
        self._answer = answer
        self._jsparkSession = self

    def sessionState(self) -> "Formats":
        return self

    def dataSourceManager(self) -> "Formats":
        return self

    def dataSourceExists(self, name: str) -> bool:
        assert name == "ottla"
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def check(answer: bool | Exception) -> None:
    _check_format(cast(SparkSession, Formats(answer)), "PYSPARK_PYTHON", "/usr/bin/python3")


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ("PYSPARK_PYTHON", "python3")),
        ({"PYSPARK_PYTHON": "a"}, ("PYSPARK_PYTHON", "a")),
        ({"PYSPARK_PYTHON": "a", "PYSPARK_DRIVER_PYTHON": "b"}, ("PYSPARK_DRIVER_PYTHON", "b")),
    ],
)
def test_spark_looks_for_formats_with_the_python_that_the_environment_names(
    environment: dict[str, str], found: tuple[str, str]
) -> None:
    assert _planning_python(environment) == found


def test_a_python_that_has_the_format_is_taken() -> None:
    check(True)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (False, "it has no package pyspark_ottla"),
        (
            AnalysisException("Traceback\n  File ...\nModuleNotFoundError: No module named 'pyarrow'"),
            "No module named 'pyarrow'",
        ),
    ],
)
def test_a_python_without_the_format_is_named_with_the_reason_and_what_to_do(
    answer: Any, reason: str
) -> None:
    with pytest.raises(NoFormatError) as refused:
        check(answer)

    for part in ("the Python /usr/bin/python3:", reason, "PYSPARK_PYTHON", sys.executable):
        assert part in str(refused.value)


def test_importing_the_package_makes_the_format_known_to_all_threads() -> None:
    code = (
        "from py4j.clientserver import JavaClient; before = JavaClient._get_connection; import pyspark_ottla;"
        " print(JavaClient._get_connection is before)"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert ran.stdout == "False\n", ran.stderr
