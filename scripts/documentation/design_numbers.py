"""Turns the numbers of design decisions into anchors, and their citations into links.

In the repository a decision is a number in bold in the `DESIGN.md` of its package. A citation is the bare
number within that file, or the number after the name of another page, as in "logstore D7".
"""

import posixpath
import re
from collections.abc import Callable
from typing import Final

DESIGNS: Final = (
    "node",
    "node/wire",
    "node/security",
    "node/coordinators",
    "node/share",
    "node/rest_api",
    "logstore",
    "metadata_raft",
    "groupcoord",
    "pipeline",
)
_NAME: Final = rf"\b({'|'.join(sorted(DESIGNS, reverse=True))})"  # "node" after the names that start with it
DECISION: Final = re.compile(r"\*\*([DP]\d+)\*\*")
CITATION: Final = re.compile(rf"(?:{_NAME}(?:/DESIGN\.md)?(?:'s)?,? )?(?<!\*\*)\b([DP]\d+)\b(?!\*\*)")
NAMED_DESIGN: Final = re.compile(rf"{_NAME}/DESIGN\.md")
_CODE: Final = re.compile(r"^ *```.*?^ *```$|`[^`\n]+`|^#[^\n]*$", re.M | re.S)


def numbers_as_links(text: str, source: str, read: Callable[[str], str]) -> str:
    """Return the text of the file `source` with citations as links, and decisions of a design as anchors.

    `read` returns the text of a file of the repository. Citations of unknown numbers are left unchanged.
    """
    own = posixpath.dirname(source)
    if own not in DESIGNS or posixpath.basename(source) != "DESIGN.md":
        return text

    def cited(match: re.Match[str]) -> str:
        name, number = match[1] or own, match[2]
        page = f"{name}/DESIGN.md"
        if number not in DECISION.findall(text if name == own else read(page)):
            return match[0]
        target = "" if name == own else posixpath.relpath(page, own)
        return f"[{match[0]}]({target}#{number})"

    def linked(part: str) -> str:
        return DECISION.sub(r"**\1**{ #\1 }", CITATION.sub(cited, part))

    parts, at = [], 0
    for code in _CODE.finditer(text):
        parts += [linked(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, linked(text[at:])])
