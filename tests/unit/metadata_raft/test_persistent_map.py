"""ottla.metadata_raft.persistent_map: an immutable mapping that equals a dict with the same changes."""

from random import Random

from ottla.metadata_raft.persistent_map import PersistentMap


class OneHash(str):
    """A key with the same hash as all others."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_a_map_equals_a_dict_with_the_same_changes_and_older_maps_stay_as_they_were() -> None:
    random = Random(36)
    model: dict[str, int] = {}
    kept = [(dict(model), PersistentMap[str, int]())]
    for _ in range(60):
        changes: dict[str, int | None] = {}
        for _ in range(random.choice((1, 2, 300))):
            changes[f"key-{random.randrange(1_000)}"] = random.choice((None, random.randrange(1_000)))
        model.update({key: value for key, value in changes.items() if value is not None})
        for key in changes:
            if changes[key] is None:
                model.pop(key, None)

        kept.append((dict(model), kept[-1][1].changed(changes)))

    for expected, found in kept:
        assert dict(found.items()) == expected
        assert len(found) == len(expected)
        assert sorted(found) == sorted(expected)
        assert all(found[key] == value for key, value in expected.items())
        assert found.get("missing") is None
        assert found.get("missing", 3) == 3
        assert "missing" not in found


def test_a_map_is_built_from_a_dict_at_once() -> None:
    entries = {number: str(number) for number in range(5_000)}

    found = PersistentMap(entries)

    assert dict(found.items()) == entries
    assert found == PersistentMap[int, str]().changed(entries)
    assert found != found.changed({1: "other"})


def test_one_change_shares_nearly_all_of_the_memory() -> None:
    before = PersistentMap(dict.fromkeys(range(50_000), True))  # texts have other hashes in each process

    after = before.changed({50_000: True})

    old = {id(leaf) for leaf in leaves(before)}
    assert sum(id(leaf) not in old for leaf in leaves(after)) == 1


def test_a_map_without_entries_shares_nothing_with_the_earlier_one() -> None:
    full = PersistentMap(dict.fromkeys(range(1000), True))

    empty = full.changed(dict.fromkeys(range(1_000)))

    assert len(empty) == 0
    assert leaves(empty) == [{}]


def test_keys_with_the_same_hash_are_distinct() -> None:
    entries = {OneHash(number): number for number in range(200)}

    found = PersistentMap(entries)

    assert len(found) == 200
    assert all(found[key] == value for key, value in entries.items())


def leaves(found: PersistentMap[str, int] | PersistentMap[int, bool]) -> list[object]:
    """Return the leaves of a map."""
    nodes: list[object] = [found._root]
    found_leaves = []
    while nodes:
        node = nodes.pop()
        if isinstance(node, tuple):
            nodes += node
        else:
            found_leaves.append(node)
    return found_leaves
