"""The budget of memory: where its size comes from, and how it is divided."""

import os
from pathlib import Path

import pytest

from ottla.logstore.words.errors import KafkaError
from ottla.node.memory.memory_budget import BUDGET_SHARE, PARTS, SHARES, divide
from ottla.node.memory.memory_limit import memory_limit_bytes
from ottla.node.settings.config import parse_config
from ottla.node.start.care import cleaner_key_bytes
from ottla.node.start.foundation import make_foundation
from ottla.node.start.world import World

GIB = 1 << 30
PHYSICAL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_without_a_cgroup_the_machine_is_the_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(tmp_path) == PHYSICAL


@pytest.mark.parametrize(
    ("cgroup", "files", "expected"),
    [
        ("0::/\n", {"memory.max": "1048576\n"}, 1 << 20),
        ("0::/\n", {"memory.max": "max\n"}, PHYSICAL),
        ("0::/pod/box\n", {"pod/memory.max": "2097152\n", "pod/box/memory.max": "max\n"}, 2 << 20),
        ("0::/pod/box\n", {"pod/memory.max": "2097152\n", "pod/box/memory.max": "1048576\n"}, 1 << 20),
        # The path is the host's, and what is mounted is the container's own.
        ("0::/kubepods/pod1\n", {"memory.max": "3145728\n"}, 3 << 20),
        ("5:cpu:/a\n9:hugetlb,memory:/a\n", {"memory/a/memory.limit_in_bytes": "4194304\n"}, 4 << 20),
        ("9:memory:/a\n", {"memory/memory.limit_in_bytes": "9223372036854771712\n"}, PHYSICAL),
        ("nonsense\n0::/\n", {"memory.max": "-5\n"}, PHYSICAL),
    ],
)
def test_the_least_limit_of_all_cgroups_holds(
    tmp_path: Path, cgroup: str, files: dict[str, str], expected: int
) -> None:
    put(tmp_path, "proc/self/cgroup", cgroup)
    for name, text in files.items():
        put(tmp_path, f"sys/fs/cgroup/{name}", text)

    assert memory_limit_bytes(tmp_path) == expected


def test_every_part_has_a_share_and_together_they_are_the_budget() -> None:
    assert tuple(SHARES) == PARTS
    assert sum(percent for percent, _ in SHARES.values()) == 100


@pytest.mark.parametrize("memory_bytes", [64 << 20, GIB, 24 * GIB, 1 << 40])
def test_all_parts_together_stay_within_the_stated_share(memory_bytes: int) -> None:
    budget = divide(memory_bytes)

    assert sum(getattr(budget, name) for name in PARTS) <= memory_bytes * BUDGET_SHARE
    assert all(getattr(budget, name) > 0 for name in PARTS)


def test_a_large_machine_has_all_that_a_part_can_use() -> None:
    budget = divide(24 * GIB)

    assert budget.receive_buffers == 256 << 20
    assert budget.unsent_answers == 512 << 20
    assert budget.cleaners == 128 << 20


def test_the_memory_of_a_process_is_set_or_looked_up() -> None:
    made = parse_config({"ottla.memory.max.bytes": str(GIB)})

    assert make_foundation(made, World()).memory == divide(GIB)
    assert parse_config({}).ottla_memory_max_bytes == -1
    assert make_foundation(parse_config({}), World()).memory_max_bytes == memory_limit_bytes()
    for refused in ("0", "1000", "-2", str((64 << 20) - 1)):
        with pytest.raises(KafkaError, match=r"ottla\.memory\.max\.bytes"):
            parse_config({"ottla.memory.max.bytes": refused})


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, divide(GIB).cleaners),
        ({"log.cleaner.dedupe.buffer.size": str(99 << 20)}, 99 << 20),
        # Each cleaner has its least.
        ({"log.cleaner.threads": "100"}, 100 << 20),
    ],
)
def test_memory_for_compaction_is_the_setting_or_the_part(texts: dict[str, str], expected: int) -> None:
    config = parse_config({"ottla.memory.max.bytes": str(GIB), **texts})

    assert cleaner_key_bytes(make_foundation(config, World())) == expected
