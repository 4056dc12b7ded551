"""The JSON beside the files of a lake: read as it was written; errors have their place."""

import json
from typing import Any

import pytest

from ottla.logstore.words.topic_partition import TopicPartition
from ottla.pipeline.lake.manifest import LakeError, LakeFile, Manifest, Offsets, Owner
from ottla.pipeline.source.source_offsets import SourceOffsets

ID = bytes(range(16))
FLIGHTS = TopicPartition("flights", 0)
AIRPORTS = TopicPartition("airports", 3)
FILES = (LakeFile(path="date=2013-01-01/a.parquet", size_bytes=10, rows=3),)
OFFSETS = Offsets(
    start=SourceOffsets(offsets={FLIGHTS: 5}, topic_ids={"flights": ID}),
    end=SourceOffsets(offsets={FLIGHTS: 8}, topic_ids={"flights": ID}),
    progress=SourceOffsets(offsets={FLIGHTS: 8, AIRPORTS: 0}, topic_ids={"flights": ID}),
)
OF_LOAD = Manifest(writer="load", batch=7, files=FILES, offsets=OFFSETS)


def changed(**members: Any) -> bytes:
    """Return OF_LOAD with other members; ... removes one."""
    document = json.loads(OF_LOAD.to_json()) | members
    return json.dumps({key: value for key, value in document.items() if value is not ...}).encode()


@pytest.mark.parametrize(
    "manifest",
    [OF_LOAD, Manifest(writer="query 1", batch=0, files=()), Manifest(writer="q", batch=1, files=FILES)],
)
def test_a_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json().encode(), "there") == manifest


def test_an_owner_is_read_as_it_was_written() -> None:
    owner = Owner(writer="query 1", partition_by=("carrier", "hour"))

    assert Owner.from_json(owner.to_json().encode(), "there") == owner


FILE = {"path": "a", "bytes": 1, "rows": 3}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not JSON"),
        (b"[]", "is not a JSON object"),
        (changed(version=2), "has version 2; this Ottla reads 1"),
        (changed(version=...), "has version None"),
        (changed(writer=7), "writer is not text"),
        (changed(batch=-1), "batch is not a number"),
        (changed(batch=True), "batch is not a number"),
        (changed(batch=2**63), "batch is not a number"),
        (changed(rows=4), "rows is not the sum"),
        (changed(files={}), "files is not a list"),
        (changed(files=[FILE | {"path": "../b"}]), "files[0].path points outside the batch"),
        (changed(files=[FILE | {"path": "/b"}]), "files[0].path points outside the batch"),
        (changed(files=[FILE | {"bytes": 1.5}]), "files[0].bytes is not a number"),
        (changed(progress=...), "progress"),
        (changed(startOffsets={"flights": {"x": 1}}), "startOffsets"),
        (changed(startOffsets={"flights": {"1": 1}}), "endOffsets has other partitions than startOffsets"),
        (changed(startOffsets={"flights": {"0": 9}}), "endOffsets of flights-0 does not match"),
        (changed(progress={"flights": {"0": 9}}), "endOffsets of flights-0 does not match"),
    ],
)
def test_a_foreign_manifest_is_refused_with_the_place_of_the_error(text: bytes, message: str) -> None:
    with pytest.raises(LakeError) as refused:
        Manifest.from_json(text, "/lake/batch=7/_batch.json")

    assert str(refused.value).startswith("/lake/batch=7/_batch.json: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("names", [None, "date", ["date", 1], [""]])
def test_an_owner_whose_layout_is_no_list_of_names_is_refused(names: Any) -> None:
    text = json.dumps({"version": 1, "writer": "q", "partitionBy": names})

    with pytest.raises(LakeError, match="partitionBy is not a list of names"):
        Owner.from_json(text.encode(), "there")
