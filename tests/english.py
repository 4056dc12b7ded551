"""The rules of STYLE.md about English that a machine can hold, and the texts to which they apply."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
# A docstring is a sentence about the thing that it documents, not the answer to a question.
OPENINGS: Final = re.compile(
    r"(What|Who|Whose|Whom|Whether|How|Where|Why|Which|When|Of|As|That|Than|Those who|The same)\b"
)
# Words that the field does not use in this sense; docs/glossary.md has those that it does.
WORDS: Final = re.compile(
    r"\b(life|lives|story|stories|told|who waits?|who asks?|those who"
    r"|somebody|anybody|everybody|whoever|refused alike|of late|no \w+ more(?! than))\b",
    re.IGNORECASE,
)


class Text(NamedTuple):
    """A docstring or a comment."""

    path: str  # from the root of the repository
    line: int
    words: str
    is_docstring: bool


class Finding(NamedTuple):
    """A text that breaks a rule."""

    path: str
    line: int
    words: str  # that break it


def sources() -> list[str]:
    """Return the paths of all Python files of the repository, scripts without a suffix included."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in listed.stdout.splitlines() if _is_python(ROOT / path)]


def _is_python(path: Path) -> bool:
    if path.suffix or not path.is_file():
        return path.suffix == ".py" and path.is_file()
    with path.open("rb") as file:
        return b"python" in file.readline() and path.parent.name == "scripts"


def texts(path: str) -> Iterator[Text]:
    """Yield the docstrings of a Python file, then its comments."""
    source = (ROOT / path).read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield Text(path, node.body[0].lineno, docstring, is_docstring=True)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield Text(path, token.start[0], token.string.lstrip("# "), is_docstring=False)


def findings(text: Text) -> Iterator[Finding]:
    """Yield what breaks the rules in a docstring or a comment."""
    if text.is_docstring and (opening := OPENINGS.match(text.words)):
        yield Finding(text.path, text.line, opening[0])
    for word in WORDS.finditer(text.words):
        yield Finding(text.path, text.line, word[0])
