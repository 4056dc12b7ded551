"""ARCHITECTURE.md names only existing modules (`folder/module`) and code (`Class.function`), and is short."""

import re
from functools import cache

import pytest

from tests.pages import ROOT

PAGE = ROOT / "ARCHITECTURE.md"
MAX_BYTES = 12_288  # the path of a request through the whole system, read in a quarter of an hour
PACKAGES = ("node", "logstore", "groupcoord", "metadata_raft", "pipeline", "src")
NO_CODE = {"package_dir"}  # names from other projects


@cache
def places() -> tuple[str, ...]:
    """Return the modules and folders, without suffixes."""
    modules = [
        path.relative_to(ROOT).with_suffix("")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".js") and "__pycache__" not in path.parts
    ]
    return tuple({f"/{place}" for module in modules for place in (module, *module.parents)})


@cache
def code_words() -> frozenset[str]:
    """Return the names of classes and functions."""
    return frozenset(
        word
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for word in re.findall(r"^ *(?:async )?(?:def|class) (\w+)", path.read_text(), re.M)
    )


def unknown(text: str) -> list[str]:
    """Return the names in a text that are no module, folder, class or function."""
    named = re.findall(r"`([a-z_]+(?:/\w+)*|[A-Z][a-z]\w*(?:\.\w+)?)`", text)
    return [
        name
        for name in named
        if not any(place.endswith(f"/{name}") for place in places())
        and not all(word in code_words() for word in name.split("."))
        and not re.fullmatch(r"__\w+|tests/.*|scripts/.*", name)
        and name not in NO_CODE
    ]


def test_all_names_in_architecture_exist() -> None:
    assert unknown(PAGE.read_text()) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`replica/partition` -> `Partition.append_run` -> `segment`", []),
        ("`runtime/partition`", ["runtime/partition"]),
        ("`Partition.append_everything`", ["Partition.append_everything"]),
        ("`group_shards`", ["group_shards"]),
        ("a partition of `__consumer_offsets`, `OFFSET.log`", []),
    ],
)
def test_a_name_without_a_module_is_found(text: str, expected: list[str]) -> None:
    assert unknown(text) == expected


def test_architecture_is_short() -> None:
    assert len(PAGE.read_bytes()) <= MAX_BYTES
