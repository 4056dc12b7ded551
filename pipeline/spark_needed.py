"""Errors of a program that uses Spark where it is not installed: they say how to install it."""

from importlib.util import find_spec
from typing import Final

NEEDED: Final = ("numpy", "pandas", "pyarrow", "pyspark", "yaml")


def missing_for_spark() -> list[str]:
    """Return the modules that Spark needs and that are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def how_to_install(missing: list[str]) -> str:
    """Return a sentence with the missing modules and the command that installs them."""
    return f"{', '.join(missing)} is missing: run `pip install 'ottla[spark]'`."


def spark_error(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that says what to install, if Spark or a module that it needs was not found."""
    name = (error.name or "").partition(".")[0]
    if name not in NEEDED:
        return error
    return ModuleNotFoundError(f"This needs Spark, but {how_to_install([name])}", name=error.name)
