"""The options of `ottla produce` and `ottla consume`."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

MAX_TIMESTAMP_MS = 2**63 - 1  # the largest in a record

# Options of `ottla produce`.
ACKS: Final = {"all": -1, "1": 1, "0": 0}  # as in the protocol
KeySeparator = Annotated[
    str | None,
    typer.Option("--key-separator", "-K", help="text that separates the key from the value in each line"),
]
InputFormat = Annotated[
    Literal["lines", "json"],
    typer.Option("--input", help="format of each line: plain text, or a JSON object"),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME=VALUE", help="add this header to every record; repeatable"),
]
ToPartition = Annotated[
    int | None,
    typer.Option(
        "--partition", "-p", metavar="N", min=0, help="send to this partition instead of choosing by key"
    ),
]
Timestamp = Annotated[
    int | None,
    typer.Option(
        "--timestamp",
        metavar="MS",
        min=0,
        max=MAX_TIMESTAMP_MS,
        help="timestamp of every record, in ms since 1970",
    ),
]
EmptyAsNull = Annotated[
    bool, typer.Option("--empty-as-null", "-Z", help="send an empty key or value as null")
]
Acks = Annotated[
    Literal["all", "1", "0"],
    typer.Option(
        "--acks", help="acknowledgements to wait for: all replicas in sync, the leader (1) or none (0)"
    ),
]
WithCompression = Annotated[Compression, typer.Option("--compression", "-z")]
Idempotent = Annotated[
    bool | None,
    typer.Option(
        "--idempotent/--no-idempotent",
        help="prevent duplicates on retries; needs --acks all, with which it is the default",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="print neither the offsets of the records nor progress")
]
CreateTopic = Annotated[
    bool,
    typer.Option("--create-topic", help="create the topic with the cluster's defaults if it does not exist"),
]

# Options of `ottla consume`.
AsGroup = Annotated[
    str | None, typer.Option("--group", "-g", help="join this group and start at its committed offsets")
]
OnlyPartition = Annotated[
    list[int] | None,
    typer.Option("--partition", "-p", metavar="N", min=0, help="read only this partition; repeatable"),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        "-o",
        metavar="PLACE",
        help="where to start: beginning (default), end, an offset, -N (newest N records of each "
        "partition), @ms or @date",
    ),
]
AsShareGroup = Annotated[
    str | None,
    typer.Option(
        "--share",
        metavar="GROUP",
        help="join this share group: its members share the records, and each is acknowledged",
    ),
]
Acknowledge = Annotated[
    Literal["accept", "release", "reject"] | None,
    typer.Option(
        "--acknowledge",
        help="with --share, how to acknowledge a record once it is printed: accept (default), release to "
        "have it delivered again, or reject to have it never delivered again",
    ),
]
Worker = Annotated[
    str | None,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        help="with --share, run COMMAND for each record instead of printing it; its exit code "
        "acknowledges the record",
    ),
]
RejectCode = Annotated[
    int | None,
    typer.Option(
        "--reject-exit-code",
        metavar="CODE",
        min=1,
        max=255,
        help="with --exec, the exit code that rejects a record (default 65)",
    ),
]
IdleTimeout = Annotated[
    float | None,
    typer.Option(
        "--idle-timeout",
        metavar="SECONDS",
        min=0.1,
        help="with --share, stop when no record came for this long",
    ),
]
Count = Annotated[
    int | None,
    typer.Option("--count", "--max-records", "-n", metavar="N", min=1, help="stop after this many records"),
]
UntilEnd = Annotated[
    bool,
    typer.Option(
        "--until-end",
        "--exit-at-end",
        "-e",
        help="stop at the offsets where the log ended when the command started",
    ),
]
Keys = Annotated[bool, typer.Option("--keys", "-k", help="print keys")]
Headers = Annotated[bool, typer.Option("--headers", help="print headers")]
Partitions = Annotated[bool, typer.Option("--partitions", help="print partitions")]
Offsets = Annotated[bool, typer.Option("--offsets", help="print offsets")]
Timestamps = Annotated[bool, typer.Option("--timestamps", help="print timestamps")]
Deliveries = Annotated[
    bool,
    typer.Option("--deliveries", help="with --share, print how often each was delivered"),
]
Separator = Annotated[str, typer.Option("--separator", help="text between the printed fields")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        "-f",
        help="format of each record: %t topic, %p partition, %o offset, %T ms, %k key, %s value, %h "
        "headers, %d deliveries, \\\n",
    ),
]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "--output-file",
        "-w",
        metavar="FILE",
        help="write to this new file instead of standard output; offsets of a group are committed once its "
        "records are on disk",
    ),
]
Append = Annotated[bool, typer.Option("--append", help="add to the end of --output-file if it exists")]
Raw = Annotated[bool, typer.Option("--raw", help="do not escape control characters on a terminal")]
Isolation = Annotated[
    Literal["read_uncommitted", "read_committed"],
    typer.Option("--isolation", help="which transactional records to show"),
]
