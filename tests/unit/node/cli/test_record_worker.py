"""`--exec`: the input of a command, the meaning of its exit code, and its end."""

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from ottla.logstore.record import Record
from ottla.logstore.words.topic_partition import TopicPartition
from ottla.node.cli.failure import CommandError
from ottla.node.cli.record_worker import RecordWorker, environment_of
from ottla.node.client.acquired_records import SharedRecord
from ottla.node.wire.acknowledge_type import AcknowledgeType

HOSTILE = b"'; touch /tmp/owned; $(id) `id` {} \xff\n"


def shared(value: bytes | None = b"v", key: bytes | None = None) -> SharedRecord:
    return SharedRecord(TopicPartition("orders", 3), Record(7, 1_000, key, value), 2)


def work(command: str, record: SharedRecord, code: int = 65) -> AcknowledgeType:
    async def keep_alive() -> None:
        return None

    return asyncio.run(RecordWorker(command, code).work(record, keep_alive))


@pytest.mark.parametrize(
    ("code", "kind"),
    [(0, "ACCEPT"), (1, "RELEASE"), (64, "RELEASE"), (65, "REJECT"), (255, "RELEASE")],
)
def test_the_exit_code_of_a_command_decides_the_acknowledgement(code: int, kind: str) -> None:
    assert work(f"sh -c 'exit {code}'", shared()).name == kind


def test_a_command_ended_by_a_signal_releases_and_the_reject_code_is_an_option() -> None:
    assert work("sh -c 'kill -9 $$'", shared()) is AcknowledgeType.RELEASE
    assert work("sh -c 'exit 7'", shared(), 7) is AcknowledgeType.REJECT


def test_the_value_is_on_standard_input_and_in_the_file_as_it_is(tmp_path: Path) -> None:
    from_stdin, from_file = tmp_path / "stdin", tmp_path / "file"
    program = (
        f"import sys; open({str(from_stdin)!r}, 'wb').write(sys.stdin.buffer.read()); "
        f"open({str(from_file)!r}, 'wb').write(open(sys.argv[1], 'rb').read())"
    )

    kind = work(f'{sys.executable} -c "{program}" {{}}', shared(HOSTILE))

    assert kind is AcknowledgeType.ACCEPT
    assert (from_stdin.read_bytes(), from_file.read_bytes()) == (HOSTILE, HOSTILE)


def test_the_file_is_private_and_deleted_after_the_command(tmp_path: Path) -> None:
    output = tmp_path / "output"
    work(f"sh -c 'stat -c %a $1 > {output}; echo $1 >> {output}' - {{}}", shared())

    mode, name = output.read_text().split()
    assert mode == "600"
    assert not Path(name).exists()


def test_the_environment_names_the_record() -> None:
    assert environment_of(shared(None, b"k")) == {
        "OTTLA_TOPIC": "orders",
        "OTTLA_PARTITION": "3",
        "OTTLA_OFFSET": "7",
        "OTTLA_TIMESTAMP": "1000",
        "OTTLA_DELIVERY_COUNT": "2",
        "OTTLA_VALUE_IS_NULL": "true",
        "OTTLA_KEY": "k",
    }


@pytest.mark.parametrize("key", [None, b"\0", b"\xff", b"k" * 200_000])
def test_a_key_that_does_not_fit_the_environment_is_left_out(key: bytes | None) -> None:
    assert "OTTLA_KEY" not in environment_of(shared(key=key))
    assert work("true", shared(key=key)) is AcknowledgeType.ACCEPT


@pytest.mark.parametrize("command", ["", "  ", "'open", "no-such-program-anywhere", "/etc/passwd"])
def test_a_command_that_cannot_run_is_reported_before_anything_is_read(command: str) -> None:
    with pytest.raises(CommandError):
        RecordWorker(command, 65)


def test_the_membership_is_kept_while_a_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.node.cli.record_worker.KEEP_S", 0.05)
    kept = 0

    async def keep_alive() -> None:
        nonlocal kept
        kept += 1

    asyncio.run(RecordWorker("sleep 0.5", 65).work(shared(), keep_alive))

    assert kept >= 3


def test_a_command_and_its_children_end_with_the_worker(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def scenario() -> None:
        async def keep_alive() -> None:
            return None

        command = f"sh -c 'sleep 60 & echo $$ $! > {pids}.part; mv {pids}.part {pids}; wait'"
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(RecordWorker(command, 65).work(shared(), keep_alive))
            while not pids.exists():
                await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(scenario())

    deadline = time.monotonic() + 5
    waiting = [int(one) for one in pids.read_text().split()]
    while waiting and time.monotonic() < deadline:
        waiting = [one for one in waiting if _is_running(one)]
        time.sleep(0.01)
    assert waiting == []


def _is_running(pid: int) -> bool:
    """Return True if a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    os.kill(pid, 0)
    return state != "Z"
