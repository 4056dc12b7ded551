"""dump-wire prints as much of any bytes as it can decode."""

from pathlib import Path

import pytest

from ottla.node.tools.dump_wire import main
from ottla.node.wire import codec
from ottla.node.wire.api_keys import ApiKey
from ottla.node.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

GOLDEN = Path(__file__).parents[3] / "golden"


def request(group_id: str) -> bytes:
    return b"".join(codec.encode_request(ApiKey.HEARTBEAT, 4, 1, "me", HeartbeatRequest(group_id=group_id)))


def test_a_stream_of_requests_is_printed_with_positions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = tmp_path / "requests"
    stream.write_bytes(request("a") + request("b"))

    status = main([str(stream)])

    assert status == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{stream}@{position}: 22 bytes Heartbeat v4 correlation_id=1"
        f' client_id="me" HeartbeatRequest v4 (group_id="{group_id}")'
        for position, group_id in ((0, "a"), (26, "b"))
    ]


@pytest.mark.parametrize("name", ["HEARTBEAT:4", "Heartbeat:4", "12:4"])
def test_responses_are_decoded_by_the_given_api_and_version(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = tmp_path / "responses"
    stream.write_bytes(b"".join(codec.encode_response(12, 4, 7, HeartbeatResponse(error_code=27))))

    assert main(["--response", name, "--json", str(stream)]) == 0
    assert '12 bytes correlation_id=7 {"throttle_time_ms": 0, "error_code": 27}' in capsys.readouterr().out


def test_a_broken_frame_does_not_hide_the_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = tmp_path / "requests"
    broken = bytearray(request("a"))
    broken[broken.index(b"a") - 1] = 100  # the length of the group id
    stream.write_bytes(broken + request("b") + request("c")[:-3])

    status = main([str(stream)])

    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert "INVALID_REQUEST: malformed HeartbeatRequest version 4" in lines[0]
    assert 'group_id="b"' in lines[1]
    assert f"{stream}@52 (unfinished): 19 bytes" in lines[2]


def test_a_senseless_length_ends_the_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream = tmp_path / "requests"
    stream.write_bytes(request("a") + b"\xff\xff\xff\xff")

    assert main([str(stream)]) == 1
    assert "the rest does not consist of frames: a frame of -1 bytes" in capsys.readouterr().out


def test_a_frame_can_be_given_as_hex(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--hex", "0012 0000 00000001 ffff"]) == 0
    assert capsys.readouterr().out == (
        "hex: 10 bytes ApiVersions v0 correlation_id=1 client_id=null ApiVersionsRequest v0 ()\n"
    )


def test_captured_exchanges_are_printed_from_both_sides(capsys: pytest.CaptureFixture[str]) -> None:
    path = GOLDEN / "find_coordinator" / "frames.jsonl"

    assert main([str(path)]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{path}:1 request: ") and "FindCoordinatorRequest v" in first
    assert second.startswith(f"{path}:1 response: ") and "FindCoordinatorResponse v" in second


def test_the_error_for_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["/nowhere/at/all"]) == 2
    assert "No such file" in capsys.readouterr().err
