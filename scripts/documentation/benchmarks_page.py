"""The page of benchmarks, from the JSON files that `scripts/bench --json` wrote."""

from collections.abc import Mapping
from typing import Any, Final

HEAD = """# Benchmarks

Generated from `docs/data/benchmarks*.json`, which `scripts/bench` wrote. It measures one node of Ottla and
one of Apache Kafka 4.3.1 on the same machine, in turns. `wire` rows replay prebuilt requests over raw
sockets, `client` rows run librdkafka. CPU is the server's own, as the kernel counts it.

![Ratios of Ottla to Apache Kafka](images/ratios.svg)

A bar to the right is better than Apache Kafka; the thin line is the middle half of the turns.

"""
TAIL = """
A ratio is the median of the ratios of neighbouring turns, so that a machine whose speed changes affects both
sides. Figures of two cores that also run the client say little about large machines:
[Comparison](comparison.md#apache-kafka) says what to expect there.
"""


TLS = """
## TLS

SSL listeners of both servers with the same certificates (P-256), with a full handshake for each
connection. `beside` is the round trip of clients that connected before, while a thousand others connect each
second.

"""
ACLS = """
## ACLs

Requests of one record to a node without an authorizer and to one with 10,000 ACLs, over plaintext, so that
the cost of authorization shows most.

"""
SHARES = """
## Share groups

The members are librdkafka's, two processes on the same machine; a topic is filled before they begin. If
the CPU of the server and of the members together takes both cores, the members limit the rate.

"""
SHARES_OF_THREE = """
### On three nodes

The same members and a topic with three replicas, on the same two cores.

"""
NODES_3 = """
## Three nodes

Clusters of three nodes on the same two cores as the client. Topics have three replicas, and producers wait
for all of them.

"""
CLIENTS = """
## Clients

Five clients that write and read records of 1 KB with their own settings, each in a process of its own. The
CPU of the whole client process, its start included, stands beside the server's. If `client cores` is about
1, or 2 for a client with threads, the client limits the row, and a server that needs less leaves it more of
the same two cores.

"""
CLIENTS_3 = """
### Clients of three nodes

The same clients, and topics with three replicas. The three nodes share the two cores with the client.

"""
CORES = """
## All cores of a host

`ottla start --nodes-per-host 1` and `2` on a machine of two cores. Topics have one replica, and producers
wait for the leader. The generator takes half a core of the two, so two nodes can use one and a half times
the processor time of one node at most.

"""
FAILOVER = """
## Failover

A cluster of three nodes, and a client that writes 500 records a second to one partition, idempotent, with
acks=all and otherwise its defaults. A figure is the longest time without an acknowledgement around one fault
of the leader: killed (SIGKILL), moved by an election, paused (SIGSTOP) for 15 s, or cut off from the other
nodes and from the client for 15 s. A client waits for the response of a leader that is paused or cut off,
with either server; after a cut the time depends on when TCP sends again. franz-go requests metadata from a
random broker: if that is the killed one, it waits a quarter of a second before its next attempt, and half a
second after a second refusal or the end of an idle connection.

"""
BALANCE = """
## A cluster that grows

Three nodes with 24 partitions of three replicas are written to (1,000 records of 1 KB a second, idempotent,
acks=all) and read. Two nodes join, and `ottla cluster balance --execute` moves replicas to them, 8 MiB a
second each. All five nodes and both clients share the cores of one machine.

![Replicas, bytes and leaders of each node while a cluster grows](images/balance.svg)

"""
# The end of a file's name in docs/data -> the text above its figures.
SECTIONS: Final = {
    "": HEAD,
    "_nodes_3": NODES_3,
    "_clients": CLIENTS,
    "_clients_3": CLIENTS_3,
    "_cores": CORES,
    "_failover": FAILOVER,
    "_tls": TLS,
    "_acls": ACLS,
    "_shares": SHARES,
    "_shares_3": SHARES_OF_THREE,
    "_balance": BALANCE,
}


def benchmarks_page(documents: Mapping[str, dict[str, Any]]) -> str:
    """Return the page of JSON documents of `scripts/bench`, one for each of `SECTIONS`."""
    return "".join([*(head + _figures(documents[name]) for name, head in SECTIONS.items()), TAIL])


def _figures(document: dict[str, Any]) -> str:
    """Return the table of figures, with the machine and the time."""
    lines = [machine_table(document["machine"])]
    lines.append(
        "| workload | figure | Ottla | Kafka | ratio | middle half |\n|---|---|---:|---:|---:|---|\n"
    )
    last = None
    for row in document["rows"]:
        if "generator" in row["figure"]:
            continue
        workload = "" if row["workload"] == last else row["workload"]
        last = row["workload"]
        half = [row["lower quartile"], row["upper quartile"]]
        spread = " to ".join(f"{one:.2f}" for one in half if one is not None)
        ratio = f"{row['ratio']:.2f}" if row["ratio"] is not None else "-"
        ottla, kafka = figure_text(row["ottla"]), figure_text(row["kafka"])
        lines.append(f"| {workload} | {row['figure']} | {ottla} | {kafka} | {ratio} | {spread} |\n")
    return "".join(lines)


def machine_table(machine: Mapping[str, Any]) -> str:
    """Return a table of the machine, time and command of the measurements."""
    facts = [
        ("command", f"`{machine.get('command', 'scripts/bench')}`"),
        ("at", machine["at"]),
        ("machine", f"{machine['cpus']} cores, {machine.get('cpu', 'a processor that is not named')}"),
        ("Linux, Python", f"{machine['kernel']}, {machine['python']}"),
        *([("note", machine["note"])] if "note" in machine else []),
    ]
    lines = ["| | |\n|---|---|\n", *(f"| {name} | {value} |\n" for name, value in facts), "\n"]
    return "".join(lines)


def figure_text(value: float | None) -> str:
    """Return a figure as the pages show it."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
