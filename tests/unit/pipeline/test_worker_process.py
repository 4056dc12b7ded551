"""A worker of Spark, whose garbage collector has less to walk through."""

import gc
from collections.abc import Iterator

import pytest

from pipeline.spark import worker_process


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if nothing were done in it; the tests' own process stays as it was."""
    monkeypatch.setattr(worker_process, "_settled", False)
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("new_process")
def test_what_a_worker_has_imported_is_collected_no_more() -> None:
    worker_process.settle()

    frozen = gc.get_freeze_count()
    assert frozen > 1_000
    kept = [[] for _ in range(100)]  # of the next task: not frozen with the rest
    worker_process.settle()
    assert gc.get_freeze_count() <= frozen
    assert len(kept) == 100
