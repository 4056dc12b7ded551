"""A directory of batches: each is there whole or not at all, and once, wherever its writer crashes."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from ottla.pipeline.lake import directory
from ottla.pipeline.lake.directory import LakeDirectory, local_path, measure
from ottla.pipeline.lake.manifest import LakeError, Manifest, Owner
from ottla.pipeline.words import OptionError

QUERY = Owner(writer="query 1", partition_by=("carrier",))


@pytest.fixture
def lake(tmp_path: Path) -> LakeDirectory:
    """Make a directory that one writer has claimed."""
    made = LakeDirectory(tmp_path / "flights", QUERY)
    made.claim()
    return made


def write(lake: LakeDirectory, batch: int, rows: list[int]) -> Path:
    """Stage a batch with its rows in the directories of two carriers."""
    staged = lake.staging_path(batch)
    for carrier in ("AA", "UA"):
        folder = staged / f"carrier={carrier}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), folder / "part-0.parquet")
    return staged


def add(lake: LakeDirectory, batch: int, rows: list[int]) -> None:
    """Add a complete batch."""
    staged = write(lake, batch, rows)
    lake.commit(staged, Manifest(writer=QUERY.writer, batch=batch, files=measure(staged)))


def seen(lake: LakeDirectory) -> list[int]:
    """Return the ids that a reader without knowledge of batches finds."""
    table = ds.dataset(lake.path, format="parquet", partitioning="hive").to_table()
    return sorted(table["id"].to_pylist()) if table.num_rows else []


def test_a_batch_is_seen_when_it_is_committed_and_not_before(lake: LakeDirectory) -> None:
    add(lake, 0, [1, 2])
    staged = write(lake, 1, [3])

    assert seen(lake) == [1, 1, 2, 2]
    lake.commit(staged, Manifest(writer=QUERY.writer, batch=1, files=measure(staged)))
    assert seen(lake) == [1, 1, 2, 2, 3, 3]


def test_a_manifest_lists_the_files_of_its_batch(lake: LakeDirectory) -> None:
    add(lake, 9, [1, 2])
    add(lake, 10, [3])

    manifest = lake.read_batch(9)
    assert manifest is not None
    assert [(one.path, one.rows) for one in manifest.files] == [
        ("carrier=AA/part-0.parquet", 2),
        ("carrier=UA/part-0.parquet", 2),
    ]
    last = lake.last_batch()
    assert last is not None
    assert last.batch == 10  # in numeric order
    assert lake.read_batch(11) is None


def test_an_existing_batch_is_not_replaced(lake: LakeDirectory) -> None:
    add(lake, 0, [1])

    with pytest.raises(LakeError, match="batch=0: already exists"):
        add(lake, 0, [2])

    assert seen(lake) == [1, 1]


def test_another_writer_is_refused(lake: LakeDirectory) -> None:
    with pytest.raises(LakeError, match="belongs to query 1, not to query 2"):
        LakeDirectory(lake.path, Owner(writer="query 2", partition_by=("carrier",))).claim()


def test_another_layout_is_refused(lake: LakeDirectory) -> None:
    with pytest.raises(LakeError, match="is partitioned by carrier, not by nothing"):
        LakeDirectory(lake.path, Owner(writer="query 1", partition_by=())).claim()


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "flights").mkdir()
    (tmp_path / "flights" / "a.parquet").touch()

    with pytest.raises(LakeError, match=r"has files but no _lake\.json"):
        LakeDirectory(tmp_path / "flights", QUERY).claim()


def test_a_file_that_was_cut_is_an_error(lake: LakeDirectory) -> None:
    add(lake, 0, [1])
    file = lake.batch_path(0) / "carrier=AA" / "part-0.parquet"
    os.truncate(file, 7)

    with pytest.raises(LakeError, match=r"part-0\.parquet: has 7 bytes, but should have"):
        lake.read_batch(0)


def test_a_batch_without_its_manifest_is_an_error(lake: LakeDirectory) -> None:
    lake.batch_path(0).mkdir()

    with pytest.raises(LakeError, match=r"batch=0/_batch\.json: is missing"):
        lake.read_batch(0)


class Crashed(BaseException):
    """The end of the process, which no error handler may catch."""


@pytest.mark.parametrize(
    ("point", "is_there"),
    [
        ("while files are written", False),
        ("before the manifest", False),
        ("before the disk has it", False),
        ("before the rename", False),
        ("after the rename", True),
    ],
)
def test_a_writer_that_dies_leaves_a_batch_or_nothing(
    lake: LakeDirectory, monkeypatch: pytest.MonkeyPatch, point: str, is_there: bool
) -> None:
    add(lake, 0, [1, 2])
    rename = Path.rename

    def crash(*_: object) -> None:
        if point == "after the rename":
            rename(*_)  # type: ignore[arg-type]
        raise Crashed

    where = {
        "while files are written": (pq, "write_table"),
        "before the manifest": (Path, "write_text"),
        "before the disk has it": (directory, "sync_tree"),
    }
    with monkeypatch.context() as patched:
        patched.setattr(*where.get(point, (Path, "rename")), crash)
        with pytest.raises(Crashed):
            add(lake, 1, [3])

    assert seen(lake) == ([1, 1, 2, 2, 3, 3] if is_there else [1, 1, 2, 2])
    restarted = LakeDirectory(lake.path, QUERY)
    restarted.claim()
    assert list(lake.path.with_name(".flights.staging").iterdir()) == []
    if restarted.read_batch(1) is None:
        add(restarted, 1, [3])
    assert seen(lake) == [1, 1, 2, 2, 3, 3]


CHILD = """
import os, sys
from pathlib import Path
from tests.unit.pipeline.lake.test_directory import QUERY, LakeDirectory, add

lake = LakeDirectory(Path(sys.argv[1]), QUERY)
Path.rename = lambda path, target: os.kill(os.getpid(), 9)
add(lake, 1, [3])
"""


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_nothing_to_be_seen(lake: LakeDirectory) -> None:
    add(lake, 0, [1])

    killed = subprocess.run([sys.executable, "-c", CHILD, str(lake.path)], check=False)

    assert killed.returncode == -9
    assert seen(lake) == [1, 1]
    assert len(list(lake.path.with_name(".flights.staging").iterdir())) == 1
    LakeDirectory(lake.path, QUERY).claim()
    assert list(lake.path.with_name(".flights.staging").iterdir()) == []


def test_all_of_a_batch_is_on_disk_before_it_is_seen(
    lake: LakeDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = directory.sync, Path.rename
    monkeypatch.setattr(directory, "sync", lambda path: steps.append(path.name) or sync(path))
    monkeypatch.setattr(Path, "rename", lambda path, to: steps.append("rename") or rename(path, to))

    add(lake, 0, [1])

    before = steps[: steps.index("rename")]
    assert {"part-0.parquet", "_batch.json", "carrier=AA", "carrier=UA"} <= set(before)
    assert before.index("part-0.parquet") < before.index("carrier=AA")
    assert steps[-1] == "flights"


@pytest.mark.parametrize(
    ("given", "path"),
    [("/a/b", "/a/b"), ("file:///a/b%20c", "/a/b c"), ("file:///a/../b/", "/b")],
)
def test_a_path_is_of_this_machine(given: str, path: str) -> None:
    assert local_path("path", given) == Path(path)


@pytest.mark.parametrize("given", ["a/b", "/", "hdfs://n/a", "s3a://b/c", "file://elsewhere/a", "/a\0b"])
def test_a_path_that_cannot_be_renamed_within_is_refused(given: str) -> None:
    with pytest.raises(OptionError, match=r"^path: "):
        local_path("path", given)
