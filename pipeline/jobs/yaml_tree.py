"""Reads YAML as a tree with line numbers, and nothing more: every scalar is the text that was written.

No tag creates an object, an alias is the same value and not a copy (so that a small file stays small), and a
number or `yes` is not converted: the format that takes an option converts its value.
"""

from dataclasses import dataclass
from typing import Final

import yaml

# Job files have some hundred lines. PyYAML's parser takes a second for this much.
MAX_FILE_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 50  # counted here, as Python's recursion limit depends on the caller
_NULL: Final = "tag:yaml.org,2002:null"
_PLAIN: Final = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("null", "str", "bool", "int", "float", "timestamp", "value")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A scalar as it was written; `is_null` for `~`, `null` and an empty value."""

    text: str
    line: int
    is_null: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list."""

    items: tuple["Tree", ...]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """A map in the file's order; a key that was written twice is in it twice."""

    pairs: tuple[tuple[Text, "Tree"], ...]
    line: int


Tree = Text | Items | Members


class YamlError(ValueError):
    """A file that is not YAML of the accepted kind; `line` counts from 1."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason


def read_tree(content: bytes) -> Tree:
    """Return the only document of a file; YamlError."""
    if len(content) > MAX_FILE_BYTES:
        raise YamlError(1, f"the file has {len(content)} bytes; at most {MAX_FILE_BYTES} are allowed")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise YamlError(content.count(b"\n", 0, error.start) + 1, "the file is not UTF-8") from None
    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            raise YamlError(1, "the file is empty")
        return _Reader().read(root)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlError(mark.line + 1 if mark else 1, f"is not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(
            line, f"contains a character that YAML does not allow (U+{error.character:04X})"
        ) from None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """PyYAML's loader with a bound on its depth."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise YamlError(
                self.peek_event().start_mark.line + 1,
                f"is nested too deeply; at most {MAX_DEPTH} levels are allowed",
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Reader:
    """Converts nodes of PyYAML, each node once."""

    def __init__(self) -> None:
        self._done: dict[int, Tree] = {}
        self._open: set[int] = set()

    def read(self, node: yaml.Node) -> Tree:
        if (done := self._done.get(id(node))) is not None:
            return done
        line = node.start_mark.line + 1
        if id(node) in self._open:
            raise YamlError(line, "has an alias of a value that contains it")
        self._open.add(id(node))
        tree = self._tree_of(node, line)
        self._open.discard(id(node))
        self._done[id(node)] = tree
        return tree

    def _tree_of(self, node: yaml.Node, line: int) -> Tree:
        match node:
            case yaml.ScalarNode(tag=tag, value=text) if tag in _PLAIN:
                return Text(text=text, line=line, is_null=tag == _NULL)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq", value=items):
                return Items(items=tuple(self.read(item) for item in items), line=line)
            case yaml.MappingNode(tag="tag:yaml.org,2002:map", value=pairs):
                return Members(
                    pairs=tuple((self._key(key), self.read(value)) for key, value in pairs), line=line
                )
            case yaml.ScalarNode(tag="tag:yaml.org,2002:merge"):
                raise YamlError(line, "has a merge key (<<), which is not supported")
            case _:
                raise YamlError(line, f"has the tag {node.tag}, which is not supported")

    def _key(self, node: yaml.Node) -> Text:
        key = self.read(node)
        if not isinstance(key, Text) or key.is_null:
            raise YamlError(node.start_mark.line + 1, "has a key that is not text")
        return key
