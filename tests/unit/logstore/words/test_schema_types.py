"""mypy --strict knows the fields of declared classes: right use passes, a wrong name or type does not."""

from pathlib import Path

import pytest

api = pytest.importorskip("mypy.api")

PROGRAM = """
from collections.abc import Sequence
from ottla.logstore.words import schema
from ottla.logstore.words.schema import message, struct

@struct
class Partition:
    partition: int = schema.int32()
    leader: str | None = schema.string(nullable_since=0, default=None)

@message(api_key=1, versions=(0, 3), flexible_since=2)
class Request:
    topics: Sequence[Partition] = schema.array(Partition)
    replicas: Sequence[int] = schema.array(schema.int32)
    names: Sequence[str] | None = schema.array(schema.string, nullable_since=1, default=None)
    records: schema.Buffer | None = schema.records(nullable_since=0)

class Wrong:
    number: int = schema.string()  # line 19: wrong annotation
    name: str = schema.string(nullable_since=0)  # line 20: may be None
    names: Sequence[int] = schema.array(schema.string)  # line 21: wrong element
    late: int = schema.int8(sinse=3)  # line 22: wrong keyword

request = Request(topics=[Partition(partition=1)], replicas=(1, 2))
number: int = request.topics[0].partition + len(request.replicas)
Request()
Request(topic=[])  # line 27: wrong name
Partition(partition="1")  # line 28: wrong type
text: str = request.topics[0].leader  # line 29: may be None
request.replicas = []  # line 30: frozen
"""


@pytest.mark.slow
def test_mypy_finds_wrong_names_and_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    output, errors, _ = api.run(
        [
            "--strict",
            "--config-file=",
            f"--cache-dir={tmp_path / 'cache'}",
            "--no-error-summary",
            str(program),
        ]
    )

    found = {int(line.split(":")[1]) for line in output.splitlines() if ": error:" in line}
    assert found == {19, 20, 21, 22, 27, 28, 29, 30}, output + errors
