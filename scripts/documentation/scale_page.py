"""The page about the scaling of metadata, from the JSON file of `scripts/bench scale --json`."""

from collections.abc import Mapping
from typing import Any, Final

from documentation.benchmarks_page import figure_text, machine_table

HEAD: Final = """# How far it scales

Generated from `docs/data/scale.json`, which `scripts/bench scale` wrote. It measures the cost of the metadata
of a cluster, up to 100 nodes and a million partitions with three replicas: the image that every node holds,
its snapshot, and the controller. Times are CPU seconds of one core, of the code alone; a cluster adds its
network and its disks.

![The cost of metadata by the number of partitions](images/scale.svg)

"""
TAIL: Final = """
## Reading the figures

- **Memory.** Every node holds the whole image: some 560 bytes a partition, so 110 MB for 200,000 and 560 MB
  for a million, in addition to the budget of `ottla.memory.max.bytes`.
- **A start.** A node that was away for long loads a snapshot: 2 s for 200,000 partitions, 11 s for a million.
  A new controller needs none of this, as voters hold the image.
- **A change**, such as a replica that falls out of the ISR, is applied in 0.03 ms at 200,000 partitions: an
  image shares what did not change with the one before. It is encoded once for all nodes that observe the
  metadata, in less than a millisecond.
- **A node falls** that led 30,000 partitions: other leaders are chosen, written and applied in 0.4 s at
  200,000 partitions, as one batch of the log. Each node applies it, and then leads or follows its own.
- **Heartbeats** of 100 nodes, one each two seconds, take 0.3 ms of the controller a second.
- **Clients** that ask for all topics are answered with 8 MB at 200,000 partitions, encoded in a thread and
  kept for the clients after them. Clients that name their topics get only those.

## Where it ends

A controller rejects more than 200,000 partitions. Beyond that, the start of a node would be too slow first,
and then its memory too small. A group is led by one node: one of 10,000 members costs its
coordinator some 30 us a heartbeat ([Benchmarks](benchmarks.md)).

Partitions of one node cost more than metadata: each has a log, whose files are open while they are used, and
its leader answers the fetches of followers for it.
"""


def scale_page(document: Mapping[str, Any]) -> str:
    """Return the page of a document of `scripts/bench scale`."""
    sizes = list(dict.fromkeys(row["workload"] for row in document["rows"]))
    figures = list(dict.fromkeys(row["figure"] for row in document["rows"]))
    values = {(row["workload"], row["figure"]): row["ottla"] for row in document["rows"]}
    lines = [
        f"| | {' | '.join(sizes)} |\n",
        f"|---|{'---:|' * len(sizes)}\n",
        *(
            f"| {figure} | {' | '.join(figure_text(values[size, figure]) for size in sizes)} |\n"
            for figure in figures
        ),
    ]
    return "".join([HEAD, machine_table(document["machine"]), *lines, TAIL])
