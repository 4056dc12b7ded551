"""The Python of local workers has Spark's modules as they are installed, and the rest of its path."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.spark.worker_python import worker_python

SPARK = Path(pyspark.__file__).parent
ARCHIVES = sorted(str(path) for path in (SPARK / "python" / "lib").glob("*.zip"))


def ask(python: str, path: list[str]) -> list[str]:
    """Return the places that it imports pyspark and py4j from, and its path."""
    program = "import sys, pyspark, py4j; print(pyspark.__file__, py4j.__file__, *sys.path, sep=chr(10))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_a_worker_skips_only_sparks_archives(tmp_path: Path) -> None:
    python = worker_python({"XDG_CACHE_HOME": str(tmp_path)})
    archives = sorted(ARCHIVES, key=lambda path: "py4j" in path)  # in Spark's order
    assert len(archives) == 2

    pyspark_file, py4j_file, *path = ask(
        python, [*archives, "/of/spark.jar", *archives, "/of/spark.jar", "/of/the/user"]
    )

    assert python != sys.executable
    assert pyspark_file == str(SPARK / "__init__.py")
    assert not py4j_file.startswith(str(SPARK))
    assert {"/of/spark.jar", "/of/the/user"} <= set(path)
    assert not set(archives) & set(path)


def test_a_path_without_them_stays_as_it_is(tmp_path: Path) -> None:
    python = worker_python({"XDG_CACHE_HOME": str(tmp_path)})

    assert ask(python, ["/of/the/user", "/more"])[3:5] == ["/of/the/user", "/more"]


def test_arithmetic_has_one_thread_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = worker_python({"XDG_CACHE_HOME": str(tmp_path)})
    program = [python, "-c", "import os; print(os.environ['OMP_NUM_THREADS'])"]

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout == "1\n"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout == "7\n"


def test_without_a_cache_or_with_spark_elsewhere_it_is_the_running_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ottla").write_text("a file where a folder should be")
    assert worker_python({"XDG_CACHE_HOME": str(tmp_path)}) == sys.executable

    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark" / "__init__.py"))
    assert worker_python({"XDG_CACHE_HOME": f"{tmp_path}/other"}) == sys.executable
