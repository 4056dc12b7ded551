"""dump-wire: prints frames of the Kafka protocol as text, one per line, to analyse captured traffic.

It only reads. Of a broken frame it prints as much as it can decode, and continues with the next. A request
names its API and version, but a response does not, so the user must give them for responses.
"""

import argparse
import base64
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ottla.logstore.words.errors import KafkaError
from ottla.logstore.words.schema import Buffer
from ottla.node.tools.closed_pipe import end_quietly
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.describe import describe, describe_line
from ottla.node.wire.framing import LENGTH_BYTES, frame_at

MAX_FRAME_BYTES = 2**31 - 1  # the file is local, so any size is allowed

EPILOG = """\
FILE is a stream of frames, each after its length, like one direction of a TCP connection; or, if its name
ends in .jsonl, lines with "request" and "response" in base64 as in tests/golden. "-" is standard input.
example: dump-wire --hex "0012 0000 00000001 ffff"      a request without its length
example: dump-wire --response FETCH:12 answers.bin      responses, all of this API and version
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the frames of the arguments; return 1 if any is broken, 2 if an input cannot be read."""
    options = _parse(arguments)
    broken = 0
    try:
        for place, frame, answered in _frames(options):
            words, is_whole = _words(frame, answered, options.json)
            broken += not is_whole
            print(f"{place}: {words}")
        sys.stdout.flush()
    except KafkaError as fault:
        print(f"the rest does not consist of frames: {fault.detail}")
        return 1
    except BrokenPipeError:  # the reader of the output has gone
        return end_quietly()
    except (OSError, ValueError, KeyError) as fault:
        print(f"dump-wire: {fault}", file=sys.stderr)
        return 2
    return 1 if broken else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dump-wire",
        description="Print frames of the Kafka protocol as text.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--hex", metavar="BYTES", type=bytes.fromhex, help="one frame, without its length")
    parser.add_argument(
        "--response", metavar="API:VERSION", type=_api_version, help="read responses of this API and version"
    )
    parser.add_argument("--json", action="store_true", help="print every field as JSON")
    options = parser.parse_args(arguments)
    if not options.files and options.hex is None:
        parser.error("give a FILE or --hex BYTES")
    return options


def _api_version(text: str) -> tuple[int, int]:
    """Parse `FETCH:12`, `Fetch:12` or `1:12` as an API key and a version."""
    name, _, version = text.partition(":")
    if name.isdigit():
        return int(name), int(version)
    wanted = name.replace("_", "").upper()
    for api in ApiKey:
        if api.name.replace("_", "") == wanted:
            return int(api), int(version)
    raise argparse.ArgumentTypeError(f"there is no API {name}")


Answered = tuple[int, int] | None  # API and version that a frame answers; None for a request


def _frames(options: argparse.Namespace) -> Iterator[tuple[str, Buffer, Answered]]:
    """Yield each frame with its place, and the API that it answers if it is a response."""
    answered: Answered = options.response
    if options.hex is not None:
        yield "hex", options.hex, answered
    for name in options.files:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        if name.endswith(".jsonl"):
            yield from _captured(name, content)
        else:
            yield from _streamed(name, content, answered)


def _captured(name: str, content: bytes) -> Iterator[tuple[str, Buffer, Answered]]:
    for number, line in enumerate(content.splitlines(), 1):
        exchange = json.loads(line)
        request = base64.b64decode(exchange["request"])
        answered = int.from_bytes(request[:2], signed=True), int.from_bytes(request[2:4], signed=True)
        yield f"{name}:{number} request", request, None
        yield f"{name}:{number} response", base64.b64decode(exchange["response"]), answered


def _streamed(name: str, content: bytes, answered: Answered) -> Iterator[tuple[str, Buffer, Answered]]:
    position = 0
    view = memoryview(content)
    while (found := frame_at(content, position, len(content), MAX_FRAME_BYTES)) is not None:
        start, stop = found
        yield f"{name}@{position}", view[start:stop], answered
        position = stop
    if position < len(content):
        start = min(position + LENGTH_BYTES, len(content))
        yield f"{name}@{position} (unfinished)", view[start:], answered


def _words(frame: Buffer, answered: Answered, as_json: bool) -> tuple[str, bool]:
    """Return a frame as text, and False if it could not be decoded completely."""
    known = f"{len(frame)} bytes"
    try:
        if answered is not None:
            api_key, version = answered
            correlation_id, body = codec.decode_response(api_key, version, frame)
            known += f" correlation_id={correlation_id}"
        else:
            header, position = codec.decode_request_header(frame)
            api_key, version = header.api_key, header.api_version
            known += f" {ApiKey(api_key).api_name} v{version} correlation_id={header.correlation_id}"
            known += f" client_id={json.dumps(header.client_id)}"
            body = codec.decode_request(api_key, version, frame, position)
    except KafkaError as fault:
        return f"{known} {fault.code.name}: {fault.detail}", False
    if as_json:
        return f"{known} {json.dumps(describe(body, version), ensure_ascii=False)}", True
    return f"{known} {describe_line(body, version)}", True


if __name__ == "__main__":
    sys.exit(main())
