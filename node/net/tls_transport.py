"""TLS between a socket and a `Connection`: a protocol of the loop's transport, a transport of the connection.

asyncio's own TLS would shake hands on the loop, take 256 KiB for each connection and buffer responses without
a limit. Here the steps of a handshake are computed in the `HandshakeExecutor`; then records are decrypted
and encrypted on the loop, which takes some 10 us for 16 KiB.

The promises:

- While a thread computes, the loop touches neither the TLS object nor its two buffers: nothing is read then.
- Received bytes are decrypted only as far as the connection reads; the rest is kept encrypted, at most one
  read. When the connection reads again, that comes first, and no part of it is left unprocessed.
- Bytes to send are encrypted in pieces of `SEAL_BYTES`, and only as fast as the socket takes them. Records in
  files are read in pieces of `FILE_BYTES`: at once if they are in the page cache, else in a thread.
- The end of the stream, by close_notify or by a bare end, is reported after all before it was given to the
  connection. Kafka's frames have lengths, so a frame that was cut off is noticed.
"""

import asyncio
import fcntl
import socket
import ssl
import struct
import termios
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, Protocol, cast

from ottla.logstore.disk import FileRecords
from ottla.logstore.words.schema import Buffer
from ottla.node.handing_over import StartTask
from ottla.node.net.connection_info import plain_address
from ottla.node.net.file_pipe import Piece
from ottla.node.net.handshake_executor import HandshakeExecutor
from ottla.node.net.login import FailureLimits, LoginCounts, NoFailureLimits
from ottla.node.net.server_tls import ServerTls

HANDSHAKE_SECONDS: Final = 10.0
# For a client's side of a handshake: OpenSSL accepts certificate chains of 100 KiB.
MAX_HANDSHAKE_BYTES: Final = 256 * 1024
READ_BYTES: Final = 128 * 1024  # read from the socket at once; one such buffer serves all connections
OPEN_BYTES: Final = 32 * 1024  # given to OpenSSL at once: its buffer never shrinks
SEAL_BYTES: Final = 32 * 1024  # the same limit for sending
SEAL_TURN_BYTES: Final = 1024 * 1024  # encrypted for one connection in a turn of the loop: 1 to 3 ms
FILE_BYTES: Final = 128 * 1024
WRITE_HIGH_WATER_BYTES: Final = 256 * 1024
# Answers by TLS itself to a peer that requests new keys and reads none of the answers.
MAX_TLS_ANSWER_BYTES: Final = 1024 * 1024
HANDSHAKE_RECORD, ALERT_RECORD, DATA_RECORD = 22, 21, 23
_CLOSE_NOTIFY_BYTES: Final = 19  # in a record of TLS 1.3: two bytes of alert, its type, and a tag of 16
_CLOSE_WAIT: Final = 8  # TCP state: the peer has closed its side


class _State(Enum):
    """The states of a connection."""

    HANDSHAKE = 0
    OPEN = 1
    CLOSING = 2  # unsent bytes are still sent, nothing more is read
    CLOSED = 3


class Upper(Protocol):
    """The connection above, by the methods that are needed here."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...
    def identify(self, principal: str) -> None: ...
    def refuse(self, reason: str) -> None: ...
    def abort(self, reason: str) -> None: ...


class _Step:
    """The result of one step of a handshake."""

    __slots__ = ("is_done", "is_of_certificate", "principal", "refusal")

    def __init__(
        self,
        *,
        is_done: bool = False,
        principal: str = "",
        refusal: str = "",
        is_of_certificate: bool = False,
    ) -> None:
        self.is_done = is_done
        self.principal = principal
        self.refusal = refusal
        self.is_of_certificate = is_of_certificate  # refused by either side


class TlsShared:
    """The state that all TLS connections of a listener share."""

    __slots__ = (
        "counts",
        "counts_success",
        "executor",
        "failed_delay_s",
        "is_for_peers",
        "limits",
        "loop",
        "on_refused",
        "scratch",
        "start_task",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: HandshakeExecutor,
        start_task: StartTask,
        failed_delay_s: float = 0.0,
        on_refused: Callable[[str, str], None] = lambda address, reason: None,
        *,
        counts: LoginCounts | None = None,
        counts_success: bool = True,
        limits: FailureLimits | None = None,
        is_for_peers: bool = False,
    ) -> None:
        """A connection is closed `failed_delay_s` after a failed handshake, or later as the `limits` demand.

        `on_refused` is called with a client's address and the reason when a certificate is refused. In
        `counts` a failed handshake is a failed login, and a successful one a successful login, unless the
        client has to log in after it. If nodes dial this listener, no address is refused without a check: a
        client on a node's machine that fails again and again would lock that node out.
        """
        self.is_for_peers = is_for_peers
        self.counts = LoginCounts() if counts is None else counts
        self.counts_success = counts_success
        self.limits = NoFailureLimits() if limits is None else limits
        self.loop = loop
        self.executor = executor
        self.start_task = start_task
        self.failed_delay_s = failed_delay_s
        self.on_refused = on_refused
        # The loop asks for a buffer, reads, and reports the count before it serves another connection.
        self.scratch = memoryview(bytearray(READ_BYTES))


class TlsTransport(asyncio.BufferedProtocol):
    """One accepted socket with TLS (asyncio demands the base class)."""

    __slots__ = (
        "_address",
        "_has_ended",
        "_has_reported_end",
        "_high_water",
        "_incoming",
        "_is_blocked",
        "_is_giving",
        "_is_noted",
        "_is_reading",
        "_is_reading_file",
        "_is_submitted",
        "_is_upper_blocked",
        "_is_upper_reading",
        "_is_waiting_for_turn",
        "_left_in_turn",
        "_lower",
        "_outgoing",
        "_pieces",
        "_received_bytes",
        "_rest",
        "_shared",
        "_state",
        "_timer",
        "_tls",
        "_tls_object",
        "_upper",
    )

    def __init__(self, upper: Upper, tls: ServerTls, shared: TlsShared) -> None:
        self._upper = upper
        self._tls = tls
        self._shared = shared
        self._state = _State.HANDSHAKE
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls_object = tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._lower: asyncio.Transport = cast(asyncio.Transport, None)
        self._address = ""
        self._timer: asyncio.TimerHandle | None = None
        self._received_bytes = 0  # during the handshake
        self._is_submitted = False  # a thread computes a step, or will
        self._is_noted = False  # a failure was counted against the address
        self._is_reading = True  # from the socket
        self._is_upper_reading = True
        self._is_giving = False  # true while `_give` runs
        self._rest = memoryview(b"")  # received, and not yet given to OpenSSL
        self._has_ended = False  # the peer sends nothing more
        self._has_reported_end = False
        self._pieces: deque[Piece] = deque()  # to be encrypted and sent
        self._is_reading_file = False
        self._is_waiting_for_turn = False
        self._left_in_turn = 0  # bytes that may still be encrypted
        self._is_blocked = False  # the socket takes no more for now
        self._is_upper_blocked = False

    # ---- called by the loop ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._lower = cast(asyncio.Transport, transport)
        self._lower.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        peer = transport.get_extra_info("peername") or ("",)
        self._address = plain_address(str(peer[0]))
        self._timer = self._shared.loop.call_later(HANDSHAKE_SECONDS, self._time_out_handshake)
        self._upper.connection_made(cast(asyncio.BaseTransport, self))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._state is _State.HANDSHAKE:
            self._note_left()
        self._state = _State.CLOSED
        self._stop_timer()
        self._pieces.clear()
        self._rest = memoryview(b"")
        self._upper.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._shared.scratch

    def buffer_updated(self, nbytes: int) -> None:
        received = self._shared.scratch[:nbytes]
        if self._has_ended:
            return  # bytes after close_notify are ignored
        if self._state is _State.OPEN:
            self._give(received)
        elif self._state is _State.HANDSHAKE:
            self._handshake_received(received)

    def eof_received(self) -> bool:
        self._has_ended = True
        if self._state is _State.HANDSHAKE:
            if not self._received_bytes:
                self.abort()  # a client that only checked if the port is open
            elif not self._is_submitted:
                self._note_left()
                self._upper.abort("it ended the connection before the TLS handshake was complete")
            return True
        if self._state is _State.OPEN:
            self._give(None)
        return self._state is not _State.CLOSED

    def pause_writing(self) -> None:
        self._is_blocked = True
        self._update_writing()

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._send()

    # ---- the handshake -------------------------------------------------------------------------------

    def _handshake_received(self, received: memoryview) -> None:
        if not self._received_bytes and self._is_refused():
            self._upper.abort("too many logins from its address have failed")
            return
        if not self._received_bytes and received[0] != HANDSHAKE_RECORD:
            self._note_failure()
            self._upper.abort("it does not speak TLS to a listener with TLS (SSL or SASL_SSL)")
            return
        self._received_bytes += len(received)
        if self._received_bytes > MAX_HANDSHAKE_BYTES:
            self._note_failure()
            self._upper.abort(f"its TLS handshake is longer than {MAX_HANDSHAKE_BYTES} bytes")
            return
        self._incoming.write(received)
        self._is_submitted = True
        self._read_on(False)
        self._shared.executor.submit(self._address, self._take_step, self._step_taken, self._step_refused)

    def _take_step(self) -> _Step:
        """Continue the handshake, in a thread."""
        try:
            self._tls_object.do_handshake()
            certificate = self._tls_object.getpeercert(binary_form=True)
            return _Step(is_done=True, principal=self._tls.principal_of(certificate))
        except ssl.SSLWantReadError:
            return _Step()
        except (OSError, ValueError) as error:  # TLS errors, and PermissionError, are subclasses
            return _Step(
                refusal=f"the TLS handshake failed: {_reason_of(error)}",
                is_of_certificate=_is_of_certificate(error),
            )
        except Exception as error:  # a bug of ours must not lose the thread's result
            return _Step(refusal=f"the TLS handshake failed: {error!r}")

    def _step_taken(self, step: object) -> None:
        assert isinstance(step, _Step)
        self._is_submitted = False
        if self._state is not _State.HANDSHAKE:
            self._finish_closing()
            return
        self._flush()
        if step.refusal:
            if step.is_of_certificate:
                self._shared.on_refused(self._address, step.refusal)
            self._stop_timer()  # the alert to the peer is sent already
            held_s = max(self._note_failure(), self._shared.failed_delay_s)
            self._timer = self._shared.loop.call_later(held_s, self._refuse_handshake, step.refusal)
        elif step.is_done:
            self._stop_timer()
            self._state = _State.OPEN
            if self._shared.counts_success:
                self._shared.counts.successful += 1
            self._upper.identify(step.principal)
            self._give(None)
        elif self._has_ended:
            self._note_left()
            self._upper.abort("it ended the connection before the TLS handshake was complete")
        else:
            self._read_on(True)

    def _is_refused(self) -> bool:
        """Return True if handshakes from this address are not computed at present."""
        shared = self._shared
        return not shared.is_for_peers and shared.limits.is_refused(self._address, shared.loop.time())

    def _note_failure(self) -> float:
        """Count a failed handshake; return the delay until the connection is closed, in seconds."""
        self._shared.counts.failed += 1
        self._is_noted = True
        return self._shared.limits.note(self._address, self._shared.loop.time())

    def _note_left(self) -> None:
        """Count against the address a handshake that its client began and left: a signature is expensive.

        As in Kafka it does not count as a failed login, since no credentials were shown.
        """
        if self._received_bytes and not self._is_noted:
            self._is_noted = True
            self._shared.limits.note(self._address, self._shared.loop.time())

    def _refuse_handshake(self, reason: str) -> None:
        self._timer = None
        self._upper.refuse(reason)

    def _step_refused(self) -> None:
        self._is_submitted = False
        if self._state is _State.HANDSHAKE:
            self._upper.abort("too many TLS handshakes wait")
        else:
            self._finish_closing()

    def _time_out_handshake(self) -> None:
        self._timer = None
        self._shared.counts.failed += 1
        if not self._is_submitted:  # otherwise the step still waited for a thread
            self._note_left()
        self._upper.abort(f"its TLS handshake took longer than {HANDSHAKE_SECONDS:.0f} s")

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # ---- receiving -------------------------------------------------------------------------------------

    def _give(self, received: memoryview | None) -> None:
        """Decrypt received bytes and give them to the connection, as far as it reads."""
        if received is not None:
            if self._rest:
                self._rest = memoryview(bytes(self._rest) + received)
            else:
                self._rest = received
        if self._is_giving:
            return
        self._is_giving = True
        try:
            while self._is_upper_reading and self._state is _State.OPEN:
                if self._give_some():
                    continue
                if not self._rest:
                    break
                self._incoming.write(self._rest[:OPEN_BYTES])
                self._rest = self._rest[OPEN_BYTES:]
        except ssl.SSLError as error:
            self._flush()
            self._upper.refuse(f"what it sent is not TLS: {_reason_of(error)}")
        finally:
            self._is_giving = False
            if self._rest:  # the scratch buffer belongs to other connections from now on
                self._rest = memoryview(bytes(self._rest))
        self._finish_receiving()

    def _finish_receiving(self) -> None:
        """Send TLS's own answers and report the end of the stream, after bytes were given upwards."""
        if self._state is not _State.OPEN:
            return
        if self._outgoing.pending:
            self._flush()
            if self._lower.get_write_buffer_size() > WRITE_HIGH_WATER_BYTES + MAX_TLS_ANSWER_BYTES:
                self._upper.abort("it asks for new TLS keys again and again, but does not read the answers")
                return
        if self._is_upper_reading and self._has_ended and not self._has_reported_end:
            self._has_reported_end = True
            if not self._upper.eof_received():
                self.close()
        elif not self._has_ended:
            self._read_on(self._is_upper_reading)

    def _give_some(self) -> bool:
        """Fill the connection's buffer with plaintext from OpenSSL; return True if there may be more."""
        if not self._incoming.pending and not self._tls_object.pending():
            return False
        view = self._upper.get_buffer(-1)
        filled, room = 0, len(view)
        is_more = True
        while filled < room:
            try:
                count = self._tls_object.read(room - filled, view[filled:])
            except ssl.SSLWantReadError:
                is_more = False
                break
            except ssl.SSLError:
                # Plaintext before the error is served.
                if filled:
                    self._upper.buffer_updated(filled)
                raise
            if not count:  # close_notify
                self._has_ended = True
                self._rest = memoryview(b"")  # bytes after it are ignored
                is_more = False
                break
            filled += cast(int, count)  # given a buffer, `read` returns the count
            if not self._incoming.pending and not self._tls_object.pending():
                is_more = False
                break
        if filled:
            self._upper.buffer_updated(filled)
        return is_more

    def _read_on(self, is_wanted: bool) -> None:
        """Start or stop reading from the socket."""
        if is_wanted is self._is_reading or self._lower.is_closing():
            return
        self._is_reading = is_wanted
        if is_wanted:
            self._lower.resume_reading()
        else:
            self._lower.pause_reading()

    # ---- the transport of the connection: receiving ----------------------------------------------------

    def pause_reading(self) -> None:
        self._is_upper_reading = False
        if self._state is _State.OPEN:
            self._read_on(False)

    def resume_reading(self) -> None:
        self._is_upper_reading = True
        if self._state is _State.OPEN and not self._is_giving:
            self._shared.loop.call_soon(self._give, None)

    # ---- the transport of the connection: sending --------------------------------------------------------

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Ignore the limits: they apply to encrypted bytes, which the transport below holds."""

    def get_write_buffer_size(self) -> int:
        """Return the unsent bytes in memory; records in files take none."""
        waiting = sum(len(one) for one in self._pieces if not isinstance(one, FileRecords))
        return self._lower.get_write_buffer_size() + waiting

    def write(self, data: Buffer) -> None:
        self.writelines((data,))

    def writelines(self, pieces: Sequence[Piece]) -> None:
        """Send these pieces, file records included, in their order and as fast as the socket takes them."""
        if self._state is not _State.OPEN:
            return
        self._pieces += filter(len, pieces)
        self._send()

    def _send(self) -> None:
        """Encrypt and send waiting pieces; a large rest waits for the next turn of the loop."""
        if (
            self._is_reading_file
            or self._is_waiting_for_turn
            or self._state in (_State.HANDSHAKE, _State.CLOSED)
        ):
            return
        self._left_in_turn = SEAL_TURN_BYTES
        try:
            while self._pieces and not self._is_blocked and self._left_in_turn > 0:
                piece = self._pieces.popleft()
                if not isinstance(piece, FileRecords):
                    self._seal(piece)
                elif not self._send_file(piece):
                    break
        except (OSError, ValueError) as error:
            self._failed(error)
            return
        if self._left_in_turn <= 0 and self._pieces and not self._is_blocked:
            self._is_waiting_for_turn = True
            self._shared.loop.call_soon(self._send_more)
        self._update_writing()
        self._finish_closing()

    def _send_more(self) -> None:
        self._is_waiting_for_turn = False
        self._send()

    def _seal(self, piece: Buffer) -> None:
        if len(piece) <= SEAL_BYTES:
            self._left_in_turn -= len(piece)
            self._tls_object.write(piece)
            self._lower.write(self._outgoing.read())
            return
        view = memoryview(piece)
        for position in range(0, len(view), SEAL_BYTES):
            if self._is_blocked or self._left_in_turn <= 0:
                self._pieces.appendleft(view[position:])
                return
            self._left_in_turn -= SEAL_BYTES
            self._tls_object.write(view[position : position + SEAL_BYTES])
            self._lower.write(self._outgoing.read())

    def _send_file(self, records: FileRecords) -> bool:
        """Encrypt the first bytes of records in a file; return False if they have to be read from disk."""
        size = min(records.size, FILE_BYTES)
        if records.size > size:
            self._pieces.appendleft(records.after(size))
        first = FileRecords(records.file, records.position, size)
        if records.file.can_send(records.position, size):
            self._seal(first.read())
            return True
        self._is_reading_file = True
        self._shared.start_task(self._read_cold(first))
        return False

    async def _read_cold(self, records: FileRecords) -> None:
        try:
            content = await asyncio.to_thread(records.read)
        except OSError as error:
            self._is_reading_file = False
            self._failed(error)
            return
        self._is_reading_file = False
        if self._state is not _State.CLOSED:
            self._pieces.appendleft(content)
            self._send()

    def _failed(self, error: Exception) -> None:
        """Abort the connection: part of a response could not be sent."""
        if self._state is not _State.CLOSED:
            self._upper.abort(f"a response could not be sent: {_reason_of(error)}")

    def _update_writing(self) -> None:
        is_blocked = self._is_blocked or bool(self._pieces) or self._is_reading_file
        if is_blocked is self._is_upper_blocked or self._state is not _State.OPEN:
            return
        self._is_upper_blocked = is_blocked
        if is_blocked:
            self._upper.pause_writing()
        else:
            self._upper.resume_writing()

    def _flush(self) -> None:
        """Send the bytes that TLS itself has produced."""
        if self._outgoing.pending and not self._lower.is_closing():
            self._lower.write(self._outgoing.read())

    # ---- the transport of the connection: its end --------------------------------------------------------

    def close(self) -> None:
        """Close when all is sent."""
        if self._state in (_State.CLOSING, _State.CLOSED):
            return
        was_open = self._state is _State.OPEN
        self._state = _State.CLOSING
        self._stop_timer()
        if not was_open:
            self._pieces.clear()
        self._read_on(False)
        self._finish_closing()

    def abort(self) -> None:
        self._state = _State.CLOSED
        self._stop_timer()
        self._pieces.clear()
        self._lower.abort()

    def is_closing(self) -> bool:
        return self._state in (_State.CLOSING, _State.CLOSED)

    def _finish_closing(self) -> None:
        """Send close_notify and close the transport below, if all is sent."""
        if self._state is not _State.CLOSING or self._pieces or self._is_reading_file or self._is_submitted:
            return
        self._state = _State.CLOSED
        with suppress(ssl.SSLError, ValueError):  # an unfinished handshake has nothing to send
            self._tls_object.unwrap()
        self._flush()
        self._lower.close()

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "sslcontext":
            return self._tls.context
        if name == "ssl_object":
            return self._tls_object
        if name == "peercert":
            return self._tls_object.getpeercert()
        if name == "peer_has_ended":
            return self._peer_has_ended
        return self._lower.get_extra_info(name, default)

    def _peer_has_ended(self) -> bool:
        """Return True if the peer has closed its side, and at most its close_notify is left to read."""
        sock = self._lower.get_extra_info("socket")
        if self._has_ended:
            return not self._rest and not self._incoming.pending and not self._tls_object.pending()
        if sock is None or self._rest:
            return False
        return _only_close_notify_is_left(sock.fileno(), sock.family, sock.type)


def _only_close_notify_is_left(descriptor: int, family: int, kind: int) -> bool:
    # uvloop's socket object cannot read.
    with socket.fromfd(descriptor, family, kind) as same:
        try:
            if same.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _CLOSE_WAIT:
                return False
            unread = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)))[0]
            head = same.recv(5, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True
    if len(head) < 5:
        return not head
    size = int.from_bytes(head[3:5], "big")
    is_alert = head[0] == ALERT_RECORD or (head[0] == DATA_RECORD and size == _CLOSE_NOTIFY_BYTES)
    return is_alert and unread == 5 + size


def _is_of_certificate(error: Exception) -> bool:
    """Return True if a handshake failed by a certificate: the client's, or ours that the client refused."""
    if not isinstance(error, ssl.SSLError):
        return True  # a PermissionError: no rule makes a principal of the certificate's name
    reason = error.reason or ""
    return isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE" in reason or "_CA" in reason


def _reason_of(error: Exception) -> str:
    """Return OpenSSL's message without its error numbers and source locations."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)
