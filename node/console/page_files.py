"""The files of the console: content, type, and an ETag that changes with the content.

They are read once, and do not change while the process runs.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

INDEX: Final = "index.html"
# Not from the machine's mimetypes, which some installations have changed.
CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
TAG_LENGTH: Final = 32  # hex digits of SHA-256


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """One file; `path` is relative, such as `js/main.js`."""

    path: str
    content: bytes
    content_type: str
    etag: str  # with its quotes, as in the header


@lru_cache(maxsize=1)
def page_files() -> Mapping[str, PageFile]:
    """Return all files by their paths."""
    return {one.path: one for one in _read(files("ottla.node.console") / "static", PurePosixPath())}


def _read(folder: Traversable, within: PurePosixPath) -> Iterator[PageFile]:
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        path = within / entry.name
        if entry.is_dir():
            yield from _read(entry, path)
        elif path.suffix in CONTENT_TYPES:
            content = entry.read_bytes()
            yield PageFile(
                path=str(path),
                content=content,
                content_type=CONTENT_TYPES[path.suffix],
                etag=f'"{hashlib.sha256(content).hexdigest()[:TAG_LENGTH]}"',
            )


def is_unchanged(if_none_match: str | None, etag: str) -> bool:
    """Return True if a browser already has the file: RFC 9110, 13.1.2, by weak comparison."""
    if if_none_match is None:
        return False
    tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
    return etag in tags or "*" in tags
