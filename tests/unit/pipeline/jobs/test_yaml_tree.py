"""YAML as it was written, and the parts of it that are refused."""

import pytest

from ottla.pipeline.jobs.yaml_tree import MAX_FILE_BYTES, Items, Members, Text, YamlError, read_tree


def test_scalars_are_the_text_that_was_written_and_know_their_lines() -> None:
    tree = read_tree(b"a: yes\nb:\n  - 007\n  - 1e3\n  - ~\n")

    assert tree == Members(
        line=1,
        pairs=(
            (Text(text="a", line=1), Text(text="yes", line=1)),
            (
                Text(text="b", line=2),
                Items(
                    line=3,
                    items=(
                        Text(text="007", line=3),
                        Text(text="1e3", line=4),
                        Text(text="~", line=5, is_null=True),
                    ),
                ),
            ),
        ),
    )


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"", 1, "empty"),
        (b"a: 1\nb: [1\n", 3, "is not valid YAML: expected ',' or ']'"),
        (b"a: 1\n---\nb: 2\n", 2, "is not valid YAML: but found another document"),
        (b"a: 1\nb: *x\n", 2, "undefined alias"),
        (b"a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "has the tag"),
        (b"a: &x [*x]\n", 1, "has an alias of a value that contains it"),
        (b"a: &x {b: 1}\nc:\n  <<: *x\n", 3, "has a merge key"),
        (b"a: 1\n[b]: 1\n", 2, "has a key that is not text"),
        (b"a: 1\n\xff: 1\n", 2, "is not UTF-8"),
        (b"a: 1\nb: \x01\n", 2, "U+0001"),
        (b"[" * 3_000, 1, "nested too deep"),
        (b"a:\n" + b"\n".join(b" " * depth + b"- " for depth in range(60)), 51, "nested too deep"),
        (b"a" * (MAX_FILE_BYTES + 1), 1, "are allowed"),
    ],
)
def test_invalid_yaml_is_reported_with_its_line(content: bytes, line: int, reason: str) -> None:
    with pytest.raises(YamlError) as error:
        read_tree(content)

    assert (error.value.line, reason in error.value.reason) == (line, True), error.value.reason


def test_aliases_of_a_value_stay_one_value() -> None:
    # Expanded, the last of them would have 9 to the power of 40 parts.
    rounds = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]

    tree = read_tree("\n".join(["a0: &a0 [x]", *rounds]).encode())

    assert isinstance(tree, Members) and len(tree.pairs) == 40
