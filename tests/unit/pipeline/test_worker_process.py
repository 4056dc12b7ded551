"""A worker of Spark, whose garbage collector has less to walk through, and which keeps its memory."""

import gc
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from pipeline.spark import worker_process


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if nothing were done in it; the tests' own process stays as it was (tests/conftest.py)."""
    monkeypatch.setattr(worker_process, "_modules", 0)
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("new_process")
def test_what_tasks_have_imported_is_collected_no_more_and_what_they_left_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker_process.settle()
    assert gc.get_freeze_count() > 1_000
    frozen = gc.get_freeze_count()
    left = [[] for _ in range(100)]  # by a task that has imported nothing
    worker_process.settle()
    assert any(one is left for one in gc.get_objects())
    assert gc.get_freeze_count() <= frozen

    for number in range(3):  # by the third task, and by ones long after
        monkeypatch.setitem(sys.modules, f"imported_by_task_{number}", ModuleType("imported"))
        imported = [[] for _ in range(100)]
        worker_process.settle()
        assert not any(one is imported for one in gc.get_objects())


@pytest.mark.skipif(sys.platform != "linux", reason="the rules of glibc")
def test_memory_that_a_worker_has_freed_is_there_when_it_is_asked_for_again() -> None:
    # The file alone: the package around it brings Spark.
    code = f"""
import resource, runpy
runpy.run_path({worker_process.__file__!r})["settle"]()
for _ in range(2):
    bytes(8 << 20), [bytes(1 << 20) for _ in range(16)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(8):
    bytes(8 << 20), [bytes(1 << 20) for _ in range(16)]
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""

    cleared_bytes = int(
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout
    )

    assert cleared_bytes < 8 << 20  # of 192 MiB that were asked for
