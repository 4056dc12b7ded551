"""`ottla consume --share --exec`: runs a command for each record, and reads its exit code.

The command is started without a shell, so nothing in a record can become a command. It gets the value on
standard input, and in a file whose name replaces `{}`; environment variables name the record's origin.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable
from typing import IO, Final

from ottla.node.cli.failure import EXIT_USAGE, CommandError
from ottla.node.client.acquired_records import SharedRecord
from ottla.node.wire.acknowledge_type import AcknowledgeType

FILE_PLACE: Final = "{}"
REJECT_EXIT_CODE: Final = 65  # EX_DATAERR of sysexits.h
KEEP_S: Final = 1.0  # between two calls that renew the lock if it is due
END_S: Final = 5.0  # for a command to end after SIGTERM
MAX_KEY_BYTES: Final = 64 * 1024  # the environment has little room


class RecordWorker:
    """A command with its exit codes: 0 accepts the record, `reject_code` rejects it, others release it."""

    def __init__(self, command: str, reject_code: int) -> None:
        """Parse the command; CommandError if it cannot be run."""
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise CommandError(f"--exec {command!r} has an open quote: {error}.", EXIT_USAGE) from None
        if not self._words:
            raise CommandError("--exec needs a command, such as --exec 'worker {}'.", EXIT_USAGE)
        if shutil.which(self._words[0]) is None:
            raise CommandError(
                f"--exec: there is no executable program {self._words[0]!r}. It is started without a "
                "shell; for shell syntax write sh -c '...'.",
                EXIT_USAGE,
            )
        self._reject_code = reject_code

    async def work(self, shared: SharedRecord, keep_alive: Callable[[], Awaitable[None]]) -> AcknowledgeType:
        """Run the command for a record; `keep_alive` is awaited repeatedly while it runs."""
        with tempfile.NamedTemporaryFile(prefix="ottla-record-") as file:  # readable only by this user
            file.write(shared.record.value or b"")
            file.flush()
            file.seek(0)
            process = await self._start(shared, file.name, file)
            try:
                code = await _wait(process, keep_alive)
            except BaseException:
                await _end(process)
                raise
        if code == 0:
            return AcknowledgeType.ACCEPT
        return AcknowledgeType.REJECT if code == self._reject_code else AcknowledgeType.RELEASE

    async def _start(
        self, shared: SharedRecord, file_name: str, standard_input: IO[bytes]
    ) -> asyncio.subprocess.Process:
        words = [word.replace(FILE_PLACE, file_name) for word in self._words]
        try:
            return await asyncio.create_subprocess_exec(
                *words,
                stdin=standard_input,
                env={**os.environ, **environment_of(shared)},
                start_new_session=True,  # Ctrl-C reaches this process, which then ends the command
            )
        except OSError as error:
            raise CommandError(f"--exec: {words[0]} cannot be started: {error.strerror}.") from None


async def _wait(process: asyncio.subprocess.Process, keep_alive: Callable[[], Awaitable[None]]) -> int:
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEEP_S):
                return await process.wait()
        await keep_alive()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a command and its children by SIGTERM, then by SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
                return


def environment_of(shared: SharedRecord) -> dict[str, str]:
    """Return the variables that describe a record; the key is left out if it is not text, or too long."""
    record = shared.record
    variables = {
        "OTTLA_TOPIC": shared.partition.topic,
        "OTTLA_PARTITION": str(shared.partition.partition),
        "OTTLA_OFFSET": str(record.offset),
        "OTTLA_TIMESTAMP": str(record.timestamp),
        "OTTLA_DELIVERY_COUNT": str(shared.delivery_count),
    }
    if record.value is None:
        variables["OTTLA_VALUE_IS_NULL"] = "true"
    if record.key is not None and len(record.key) <= MAX_KEY_BYTES and b"\0" not in record.key:
        with contextlib.suppress(UnicodeDecodeError):
            variables["OTTLA_KEY"] = record.key.decode()
    return variables
