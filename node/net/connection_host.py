"""The part of a listener that its connections need."""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.node.authorization.access import Access
from ottla.node.handing_over import StartTask
from ottla.node.net.answers import Service
from ottla.node.net.connection_info import ConnectionInfo
from ottla.node.net.file_pipe import FilePipe
from ottla.node.net.gathered_answers import GatheredAnswers
from ottla.node.net.login import LoginGate
from ottla.node.net.receive_memory import ReceiveMemory
from ottla.node.net.receive_windows import ReceiveWindows
from ottla.node.net.send_buffers import SendBuffers
from ottla.node.net.unsent_answers import UnsentAnswers

C = TypeVar("C")  # the connection


class ConnectionHost(Protocol[C]):
    """A listener, by the members that its connections need."""

    service: Service[C]
    opening_service: Service[C]  # for a connection beyond the limits, until it has proven itself
    gathered: GatheredAnswers
    memory: ReceiveMemory
    receive_windows: ReceiveWindows
    send_buffers: SendBuffers
    unsent: UnsentAnswers
    loop: asyncio.AbstractEventLoop
    must_pause: Callable[[], bool]  # True while clients that send much should wait for the disk
    start_task: StartTask
    max_frame_bytes: int
    file_limit: int  # file descriptors from this number on are left to the logs
    tick: int  # how many times idle connections were looked for
    access_of: Callable[[str, str], Access]  # returns the rights of a principal from an address
    login_gate: LoginGate[C] | None  # None: clients need not log in

    def describe(self, transport: asyncio.BaseTransport) -> ConnectionInfo: ...
    def pace(self, connection: C, sock: socket.socket) -> None: ...
    def admit(self, connection: C) -> str: ...
    def forget(self, connection: C) -> None: ...
    def recognize(self, connection: C, peer_id: int) -> None: ...
    def is_beyond_limits(self, connection: C) -> bool: ...
    def admit_administrator(self, connection: C) -> None: ...
    def is_administrator(self, connection: C) -> bool: ...
    def log_rejected(self, info: ConnectionInfo, reason: str) -> None: ...
    def open_pipe(self) -> FilePipe: ...
