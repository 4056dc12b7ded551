"""The audit log of a node: accepts events from any thread without blocking the caller.

A thread, started by the first line, writes lines to the logger `ottla.audit` and to the file, if there is
one. If neither is enabled, events are only counted.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

from ottla.metadata_raft.acl import AclOperation, ResourceType
from ottla.metadata_raft.acl_set import AclDecision
from ottla.node.audit.audit_event import (
    MAX_DETAIL_CHARACTERS,
    Change,
    Event,
    FailedLogin,
    Kind,
    access_decision,
    cut,
)
from ottla.node.audit.audit_file import AuditFile
from ottla.node.audit.audit_line import lost_object, object_of, text_of
from ottla.node.audit.repeated_events import EventLine, Limits, Line, RepeatedEvents

LOGGER: Final = "ottla.audit"
# Limits by kind, so that a flood of rejected requests hides no change: some ten lines a second from one
# source, a hundred from all. Administrators may make hundreds of changes at once.
LIMITS: Final = {
    Kind.DENIED: Limits(per_source=100, total=1_000),
    Kind.ALLOWED: Limits(per_source=1_000, total=1_000),
    Kind.FAILED_LOGIN: Limits(per_source=100, total=1_000),
    Kind.CHANGE: Limits(per_source=1_000, total=3_000),
}
MAX_WAITING: Final = (
    8_000  # lines that wait while the disk is slow, about 500 bytes each; all windows may end at once
)
LINES_AT_ONCE: Final = 64  # written without a pause: a line takes some 20 us
MAX_LOST_WARNINGS_S: Final = 60.0  # between two warnings that the file is not writable
CLOSE_TIMEOUT_S: Final = 5.0  # to write the last lines when the node stops

audit_log = logging.getLogger(LOGGER)
log = logging.getLogger(__name__)


class AuditLog:
    """The audit events of one node. Thread-safe."""

    def __init__(
        self,
        *,
        node_id: int = -1,
        file: AuditFile | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        knows_clients: bool = True,
        network_of: Callable[[str], str] = lambda address: address,
    ) -> None:
        """Create a log. Without `knows_clients` the logger writes changes at DEBUG only.

        Such a node has no logins and no authorizer, so ANONYMOUS makes every change. `network_of` returns the
        part of an address that limits apply to.
        """
        self._node_id = node_id
        self._file = file
        self._now_ms = now_ms
        self._level_of_changes = logging.INFO if knows_clients else logging.DEBUG
        self._turn = threading.Condition()
        self._windows = {kind: RepeatedEvents(kind, limits, network_of) for kind, limits in LIMITS.items()}
        self._waiting: list[Line] = []
        self._events = dict.fromkeys((Kind.DENIED, Kind.FAILED_LOGIN, Kind.CHANGE), 0)
        self._lost_lines = 0  # since the node started
        self._unlogged_lost = 0  # lost lines that the file does not mention yet
        self._warned_s = -MAX_LOST_WARNINGS_S
        self._is_failing = False
        self._is_closed = False
        self._thread: threading.Thread | None = None

    # ---- events --------------------------------------------------------------------------------------

    def log_decision(
        self,
        principal: str,
        address: str,
        api: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        decision: AclDecision,
    ) -> None:
        """Record a decision of the authorizer; only a logger at DEBUG writes allowed requests."""
        if decision.is_allowed and not audit_log.isEnabledFor(logging.DEBUG):
            return
        self._add(access_decision(principal, address, api, operation, resource_type, name, decision))

    def failed_login(self, user: str, address: str, listener: str, mechanism: str, reason: str) -> None:
        """Record a failed login of the claimed user, or of an empty name if the client sent none.

        The reason is a sentence of ours; it never contains what the client sent as its proof.
        """
        self._add(
            FailedLogin(
                cut(user),
                cut(address),
                cut(listener),
                cut(mechanism),
                cut(reason, MAX_DETAIL_CHARACTERS),
            )
        )

    def changed(
        self,
        principal: str,
        address: str,
        api: str,
        resource_type: str,
        resource_name: str,
        outcome: str,
        detail: str = "",
    ) -> None:
        """Record a change that a client requested, and its result.

        The detail contains only names, such as those of settings, never values.
        """
        self._add(
            Change(
                cut(principal),
                cut(address),
                api,
                resource_type,
                cut(resource_name),
                cut(detail, MAX_DETAIL_CHARACTERS),
                outcome,
            )
        )

    def left_out(self, kind: Kind, principal: str, address: str, count: int) -> None:
        """Record a number of events of a principal at an address that get no line."""
        with self._turn:
            self._events[kind] += count
            if self._takes(kind):
                self._windows[kind].leave_out(cut(principal), cut(address), count, self._now_ms())
                self._wake()

    def counts(self) -> dict[str, int]:
        """Return the number of events by kind."""
        with self._turn:
            return {kind.value: count for kind, count in self._events.items()}

    @property
    def lost_lines(self) -> int:
        """Return the number of lines that could not be written to the file."""
        return self._lost_lines

    @property
    def takes_changes(self) -> bool:
        """Return True if changes get lines, False if they are only counted."""
        return self._takes(Kind.CHANGE)

    def _takes(self, kind: Kind) -> bool:
        if self._is_closed:
            return False
        return self._file is not None or audit_log.isEnabledFor(self._level_of(kind))

    def _level_of(self, kind: Kind) -> int:
        if kind is Kind.CHANGE:
            return self._level_of_changes
        return logging.DEBUG if kind is Kind.ALLOWED else logging.INFO

    def _add(self, event: Event) -> None:
        kind = event.kind
        with self._turn:
            if kind is not Kind.ALLOWED:
                self._events[kind] += 1
            if not self._takes(kind):
                return
            now_ms, window = self._now_ms(), self._windows[kind]
            if window.has_ended(now_ms):
                self._queue(window.end())
            was_open = window.ends_ms is not None
            line = window.add(event, now_ms)
            if line is not None:
                self._queue((line,))
            if line is not None or not was_open:
                self._wake()

    def _queue(self, lines: Iterable[Line]) -> None:
        for line in lines:
            if len(self._waiting) < MAX_WAITING:
                self._waiting.append(line)
            else:
                self._lose(1)

    def _lose(self, count: int) -> None:
        self._lost_lines += count
        self._unlogged_lost += count

    def _wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="audit", daemon=True)
            self._thread.start()
        self._turn.notify()

    # ---- the thread ----------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the file; OSError if it cannot be written."""
        if self._file is not None:
            self._file.open()

    def close(self) -> None:
        """Write the remaining lines and accept no more; may block on the disk."""
        with self._turn:
            if not self._is_closed:
                self._is_closed = True
                for window in self._windows.values():
                    self._queue(window.end())
            thread = self._thread
            self._turn.notify()
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)
            if thread.is_alive():
                log.warning("The audit log could not be written to its end when the node stopped.")
        elif self._file is not None:
            self._file.close()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            with self._turn:
                while not (self._waiting or self._is_closed):
                    self._turn.wait(self._pause_s())
                    self._end_windows()
                lines, self._waiting = self._waiting, []
                is_last = self._is_closed
            self._write(lines)
        if self._file is not None:
            self._file.close()

    def _pause_s(self) -> float | None:
        """Return how long the thread may sleep unless it is woken."""
        ends = [one.ends_ms for one in self._windows.values() if one.ends_ms is not None]
        return None if not ends else max(0.05, (min(ends) - self._now_ms()) / 1000)

    def _end_windows(self) -> None:
        now_ms = self._now_ms()
        for window in self._windows.values():
            if window.has_ended(now_ms):
                self._queue(window.end())

    def _write(self, lines: list[Line]) -> None:
        for first in range(0, len(lines), LINES_AT_ONCE):
            if first:
                time.sleep(0.001)
            self._write_some(lines[first : first + LINES_AT_ONCE])

    def _write_some(self, lines: list[Line]) -> None:
        for line in lines:
            audit_log.log(self._level_of(_kind_of(line)), "%s", text_of(line))
        if self._file is None:
            return
        objects = [object_of(line, self._node_id) for line in lines if _kind_of(line) is not Kind.ALLOWED]
        if not objects:
            return
        with self._turn:
            unlogged = self._unlogged_lost
        if unlogged:
            objects.insert(0, lost_object(unlogged, self._now_ms(), self._node_id))
        written, reason = 0, ""
        try:
            written = self._file.write(objects)
            if written < len(objects):
                reason = "the disk took only a part of the lines"
        except OSError as error:
            reason = error.strerror or str(error)
        with self._turn:
            if unlogged and written:
                self._unlogged_lost -= unlogged
            self._lose(len(objects) - written - (1 if unlogged and not written else 0))
        self._log_state(self._file, reason)

    def _log_state(self, file: AuditFile, reason: str) -> None:
        """Warn at intervals that the file is not writable, and log once that it is again."""
        if not reason:
            if self._is_failing:
                log.warning("The audit file %s is written again.", file.path)
                self._is_failing, self._warned_s = False, -MAX_LOST_WARNINGS_S
            return
        self._is_failing = True
        if time.monotonic() - self._warned_s >= MAX_LOST_WARNINGS_S:
            self._warned_s = time.monotonic()
            log.error(
                "The audit file %s cannot be written: %s. %d of its lines are lost; the node goes on.",
                file.path,
                reason,
                self._lost_lines,
            )


def _kind_of(line: Line) -> Kind:
    return line.event.kind if isinstance(line, EventLine) else line.kind
