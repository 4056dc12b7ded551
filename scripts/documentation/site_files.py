"""The files of the repository that are pages of the site, and the rewriting of links between them.

Links in a page are written for the repository, so that they also work when the files are read there. In the
site, a link to a file that is a page leads to that page, and one to any other file becomes the file's path as
code.
"""

import posixpath
import re
from collections.abc import Container
from typing import Final

# Path in the repository: path in the site.
MOUNTED: Final = {
    "ARCHITECTURE.md": "architecture/index.md",
    "STYLE.md": "architecture/style.md",
    "CONTRIBUTING.md": "architecture/contributing.md",
    "node/DESIGN.md": "architecture/node.md",
    "node/wire/DESIGN.md": "architecture/wire.md",
    "node/security/DESIGN.md": "architecture/security.md",
    "node/coordinators/DESIGN.md": "architecture/coordinators.md",
    "node/share/DESIGN.md": "architecture/share.md",
    "node/rest_api/DESIGN.md": "architecture/rest_api.md",
    "logstore/DESIGN.md": "architecture/logstore.md",
    "metadata_raft/DESIGN.md": "architecture/metadata_raft.md",
    "groupcoord/DESIGN.md": "architecture/groupcoord.md",
    "pipeline/DESIGN.md": "architecture/pipeline.md",
    "k8s/README.md": "kubernetes.md",
    "k8s/monitoring/README.md": "monitoring.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
}
GENERATED: Final = (
    "benchmarks.md",
    "scale.md",
    "reference/settings.md",
    "reference/commands.md",
    "reference/metrics.md",
    "reference/rest.md",
)
_FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def source_of(site_path: str) -> str:
    """Return the path in the repository of a page of the site."""
    mounted = {path: source for source, path in MOUNTED.items()}
    return mounted.get(site_path, f"docs/{site_path}")


def site_links(text: str, source: str, pages: Container[str]) -> str:
    """Return the text of the file `source` with its links rewritten for the site; code is left unchanged."""
    parts, at = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_with_links(text[at : fence.start()], source, pages), fence[0]]
        at = fence.end()
    return "".join([*parts, _with_links(text[at:], source, pages)])


def _with_links(text: str, source: str, pages: Container[str]) -> str:
    here = posixpath.dirname(_site_path(source) or source)

    def one(match: re.Match[str]) -> str:
        words, target = match[1], match[2]
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, hash_, anchor = target.partition("#")
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        place = _site_path(file)
        if place is None or place not in pages:
            return f"`{file}`" if words == file or "`" in words else f"{words} (`{file}`)"
        return f"[{words}]({posixpath.relpath(place, here)}{hash_}{anchor})"

    return _LINK.sub(one, text)


def _site_path(file: str) -> str | None:
    """Return the path in the site of a file of the repository, or None."""
    return MOUNTED.get(file) or (file.removeprefix("docs/") if file.startswith("docs/") else None)
