"""The reference of metrics, from a running node: their names, kinds and labels."""

import re
import urllib.request
from collections.abc import Iterable
from typing import NamedTuple

from ottla.node.embedded import Cluster

# With the names of both exporters, and the metrics that are off by default.
OVERRIDES = {"ottla.metrics.exporters": "kafka_exporter,kminion"}
HEAD = """# Metrics reference

Generated from what a node of this version serves at `/metrics`. [Metrics](../metrics.md) says how they are
read, and what bounds them. The labels are those of a node that just started: families without samples yet
show none.

"""
_LABEL = re.compile(r'([a-zA-Z_]\w*)="')


class Family(NamedTuple):
    """A family of samples, with its kind, description and labels in a scrape."""

    name: str
    kind: str
    words: str
    labels: tuple[str, ...]


def metrics_page() -> str:
    """Return the page; it starts a node for a moment."""
    with Cluster(1, rest=True, overrides=OVERRIDES) as cluster:
        url = f"{cluster.rest_urls[0].rstrip('/')}/metrics?all=true"
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
    return page_of(families_of(text))


def families_of(scrape: str) -> list[Family]:
    """Return the families of a scrape in Prometheus' text format."""
    words: dict[str, str] = {}
    kinds: dict[str, str] = {}
    labels: dict[str, dict[str, None]] = {}
    for line in scrape.splitlines():
        head, _, rest = line.partition(" ")
        if head == "#":
            keyword, name, *more = rest.split(" ", 2)
            {"HELP": words, "TYPE": kinds}.get(keyword, {})[name] = more[0] if more else ""
            last = name
        elif line:
            labels.setdefault(last, {}).update(dict.fromkeys(_LABEL.findall(line)))
    return [Family(name, kinds[name], words.get(name, ""), tuple(labels.get(name, ()))) for name in kinds]


def page_of(families: Iterable[Family]) -> str:
    """Return the page of these families, grouped by origin."""
    by_origin: dict[str, list[Family]] = {}
    for one in sorted(families):
        by_origin.setdefault(_origin(one.name), []).append(one)
    parts = [HEAD]
    for origin in ORIGINS.values():
        if origin not in by_origin:
            continue
        parts.append(f"## {origin}\n\n| metric, kind, labels | meaning |\n|---|---|\n")
        for one in by_origin[origin]:
            names = [f"`{label}`" for label in one.labels]
            words = one.words.replace("|", "\\|").replace("<", "&lt;")
            parts.append(f"| `{one.name}`<br>{', '.join([one.kind, *names])} | {words} |\n")
        parts.append("\n")
    return "".join(parts)


ORIGINS = {
    "ottla_": "Ottla's own",
    "kafka_": "Apache Kafka's, as the JMX exporter and kafka_exporter name them",
    "kminion_": "kminion's",
    "": "The process",
}


def _origin(name: str) -> str:
    return next(origin for prefix, origin in ORIGINS.items() if name.startswith(prefix))
