"""Errors where Spark is not installed say what to install."""

import subprocess
import sys

import pytest

from ottla.pipeline.spark_needed import spark_error

PUBLIC_MODULES = ("connect", "jobs", "lake", "mirror", "spark", "streams")
PROGRAM = """
import importlib, sys
sys.modules["pyspark"] = None  # as if it were not installed
for name in sys.argv[1:]:
    try:
        importlib.import_module(f"ottla.{name}")
    except ModuleNotFoundError as error:
        print(error)
"""


def test_each_public_module_that_needs_spark_says_what_to_install() -> None:
    command = [sys.executable, "-c", PROGRAM, *PUBLIC_MODULES]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    sentence = "This needs Spark, but pyspark is missing: run `pip install 'ottla[spark]'`."
    assert output.splitlines() == [sentence] * len(PUBLIC_MODULES)


@pytest.mark.parametrize("name", ["ottla.nowhere", "pysparkling", None])
def test_the_error_of_another_missing_module_is_unchanged(name: str | None) -> None:
    error = ModuleNotFoundError("no module", name=name)

    assert spark_error(error) is error
