"""dump-log: prints the files of a log in the terms of kafka-dump-log, one batch, record or row per line.

It only reads, so it can be used while a node runs. Of a broken file it prints all that can be read, and the
byte at which it is broken.
"""

import argparse
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.logstore import checkpoint
from ottla.logstore.meta_properties import META_PROPERTIES
from ottla.logstore.words.escaped_text import escape_controls
from ottla.node.tools import log_files
from ottla.node.tools.closed_pipe import end_quietly, output_refused
from ottla.node.tools.log_files import NOTE, RECORD, Broken, Found, Row, Value

EXIT_BROKEN: Final = 1
EXIT_USAGE: Final = 2
# Suffixes of files during a deletion, a cleaning or a replacement.
TRANSIENT_SUFFIXES: Final = (".deleted", ".cleaned", ".swap")
SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
_OFFSETS = ("topic", "partition", "offset")
CHECKPOINTS: Final = {
    checkpoint.RECOVERY_POINT_CHECKPOINT: _OFFSETS,
    checkpoint.LOG_START_OFFSET_CHECKPOINT: _OFFSETS,
    checkpoint.REPLICATION_OFFSET_CHECKPOINT: _OFFSETS,
    checkpoint.CLEANER_OFFSET_CHECKPOINT: _OFFSETS,
    checkpoint.LEADER_EPOCH_CHECKPOINT: ("epoch", "startOffset"),
}
OPTIONALS: Final = ("deleteHorizonMs", "currentTxnFirstOffset")  # which the Java tool prints as OptionalLong
PROPERTIES: Final = {checkpoint.PARTITION_METADATA: ":", META_PROPERTIES: "="}

EPILOG = """\
FILE is a .log, .index, .timeindex, .txnindex or .snapshot, an offset or leader epoch checkpoint, a
snapshot of the metadata (.checkpoint), partition.metadata or meta.properties; of a directory all of
these are printed. An index is compared with the .log beside it. If a file is broken, the position of
the broken byte is printed, and the exit code is 1. Files are never changed.
examples:
  {program} ottla-data/orders-0                                           all files of a partition
  {program} --records ottla-data/orders-0/00000000000000000000.log        every record
  {program} --output json --records ottla-data/orders-0 | jq 'select(.offset == 42)'
"""


def main(arguments: Sequence[str] | None = None, *, program: str = "dump-log") -> int:
    """Print the files named in the arguments, and return the exit code.

    It is 0, 1 if a file is broken or reading or writing failed, 2 if an argument does not name readable log
    files, and 130 if interrupted.
    """
    options = _parse(arguments, program)
    try:
        code = _dump(options, program)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output has gone
        return end_quietly()
    except OSError as error:  # of the output: errors of reading are caught below
        end_quietly()
        print(f"{program}: {output_refused(error)}", file=sys.stderr)
        return EXIT_BROKEN
    except KeyboardInterrupt:
        return 130


def _parse(arguments: Sequence[str] | None, program: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Print the contents of log files, in the terms of kafka-dump-log.",
        epilog=EPILOG.format(program=program),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="+", metavar="FILE", type=Path, help="files or directories")
    parser.add_argument(
        "--records", "--print-data-log", action="store_true", help="also print the records of each batch"
    )
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="json: print one JSON object per line"
    )
    parser.add_argument("--json", dest="output", action="store_const", const="json", help="as --output json")
    return parser.parse_args(arguments)


def _dump(options: argparse.Namespace, program: str) -> int:
    code = 0
    for named in options.files:
        try:
            is_directory = stat.S_ISDIR(named.stat().st_mode)
            if is_directory:
                os.scandir(named).close()  # rglob returns nothing for an unreadable directory
            paths = sorted(filter(_is_known, named.rglob("*"))) if is_directory else [named]
        except FileNotFoundError:
            code = _usage_error(program, f"{named} does not exist.")
            continue
        except OSError as error:
            code = _usage_error(program, f"{named} cannot be read: {error.strerror}.")
            continue
        if not paths:
            code = _usage_error(program, f"{named} contains no log files; give the directory of a partition.")
        for path in paths:
            reader = _reader(path, options.records)
            if reader is None:
                code = _usage_error(
                    program, f"{path} is not a log file; --help lists the files that can be read."
                )
                continue
            code = max(code, _dump_file(path, reader, options.output == "json", program))
    return code


def _usage_error(program: str, sentence: str) -> int:
    print(f"{program}: {sentence}", file=sys.stderr)
    return EXIT_USAGE


def _dump_file(path: Path, reader: Callable[[], Found], as_json: bool, program: str) -> int:
    code = 0
    if not as_json:
        print(f"Dumping {path}")
        base_offset = _base_offset(path)
        if _kind(path) == ".log" and base_offset is not None:
            print(f"Log starting offset: {base_offset}")
    rows = reader()
    while True:
        try:
            found = next(rows, None)
        except FileNotFoundError:
            return _usage_error(program, f"{path} does not exist.")
        except OSError as error:
            sys.stdout.flush()
            print(f"{program}: {path} cannot be read: {error.strerror or error}.", file=sys.stderr)
            return EXIT_BROKEN
        if found is None:
            return code
        if isinstance(found, Broken):
            code = EXIT_BROKEN
        print(_as_json(path, found) if as_json else _as_text(found))


def _kind(path: Path) -> str:
    """Return the suffix that marks the kind of a file (`.log`, `.index`), or its name if that is fixed."""
    name = path.name
    for suffix in TRANSIENT_SUFFIXES:
        name = name.removesuffix(suffix)
    if name in CHECKPOINTS or name in PROPERTIES:
        return name
    return Path(name).suffix


def _is_known(path: Path) -> bool:
    kind = _kind(path)
    if kind in SEGMENT_SUFFIXES:
        return _base_offset(path) is not None and path.is_file()
    if kind == ".checkpoint":  # a snapshot of the metadata: OFFSET-EPOCH.checkpoint
        return path.parent.name.startswith("__cluster_metadata-")
    return (kind in CHECKPOINTS or kind in PROPERTIES) and path.is_file()


def _base_offset(path: Path) -> int | None:
    digits = path.name.split(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 20 else None


def _reader(path: Path, with_records: bool) -> Callable[[], Found] | None:
    """Return the function that reads a file, or None if it is not one of a log."""
    kind = _kind(path)
    base_offset = _base_offset(path)
    log = path.with_name(path.name.replace(kind, ".log")) if kind else path
    beside = log if log.is_file() else None
    match kind:
        case ".log":
            return lambda: log_files.read_log(path, with_records=with_records, base_offset=base_offset)
        case ".index":
            return lambda: log_files.read_offset_index(path, base_offset or 0, beside)
        case ".timeindex":
            return lambda: log_files.read_time_index(path, base_offset or 0, beside)
        case ".txnindex":
            return lambda: log_files.read_transaction_index(path)
        case ".snapshot":
            return lambda: log_files.read_producer_snapshot(path)
        case ".checkpoint":
            return lambda: log_files.read_log(path, with_records=with_records)
        case _:
            pass
    if kind in CHECKPOINTS:
        return lambda: log_files.read_checkpoint(path, CHECKPOINTS[kind])
    if kind in PROPERTIES:
        return lambda: log_files.read_properties(path, PROPERTIES[kind])
    return None


def _as_text(found: Row | Broken) -> str:
    if isinstance(found, Broken):
        return f"Broken at byte {found.position}: {found.problem}"
    if found.kind == NOTE:
        return f"{found.fields['reservedRows']} rows are reserved, but not written."
    fields = " ".join(f"{name}: {_value_as_text(name, value)}" for name, value in found.fields.items())
    return f"| {fields}" if found.kind == RECORD else fields


def _value_as_text(name: str, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{','.join(map(escape_controls, value))}]"
    if name in OPTIONALS:
        return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"
    return escape_controls(value) if isinstance(value, str) else str(value)


def _as_json(path: Path, found: Row | Broken) -> str:
    about: Mapping[str, Value] = {"file": str(path)}
    if isinstance(found, Broken):
        return json.dumps({**about, "type": "broken", "byte": found.position, "problem": found.problem})
    return json.dumps({**about, "type": found.kind, **found.fields}, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())
