"""Sessions of the console: the logged-in users, each under an id that only one browser has.

Ids are created here and stored as hashes alone; an id that a client made up is not accepted. A session ends
after a time without use, at its latest end, at logout, and when the credential with which it began has
changed. Pure: time and ids are arguments.
"""

import base64
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ottla.metadata_raft.image import ScramCredential

ID_BYTES: Final = 32
MAX_SESSIONS: Final = 10_000  # of a node, some 1 KiB each; the least recently used one ends first
MAX_SESSIONS_OF_PRINCIPAL: Final = 100


@dataclass(slots=True, kw_only=True)
class Session:
    """One login to the console."""

    key: bytes = field(repr=False)  # the hash of its id
    principal: str
    user: str  # the user of the credential; empty for a token
    credential: ScramCredential | None = field(repr=False)
    csrf_token: str = field(repr=False)  # required for changes
    ends_s: float
    used_s: float


class Sessions:
    """The sessions of one node; times are those of one monotonic clock."""

    def __init__(self, unique: Callable[[int], bytes], *, idle_s: float, max_s: float) -> None:
        """Start empty; `unique` returns random bytes."""
        self._unique = unique
        self._idle_s = idle_s
        self._max_s = max_s
        self._of: OrderedDict[bytes, Session] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        """Return the number of sessions, including those that have expired and not been removed yet."""
        return len(self._of)

    def begin(
        self,
        principal: str,
        *,
        now_s: float,
        user: str = "",
        credential: ScramCredential | None = None,
        ends_s: float | None = None,
    ) -> tuple[str, Session]:
        """Return a new id and its session; `ends_s` is the expiry of the token that logged in, if one did."""
        own = [key for key, one in self._of.items() if one.principal == principal]
        if len(own) >= MAX_SESSIONS_OF_PRINCIPAL:
            del self._of[own[0]]
        elif len(self._of) >= MAX_SESSIONS:
            self._of.popitem(last=False)
        session_id = _text(self._unique(ID_BYTES))
        latest_s = now_s + self._max_s
        session = Session(
            key=_key(session_id),
            principal=principal,
            user=user,
            credential=credential,
            csrf_token=_text(self._unique(ID_BYTES)),
            ends_s=latest_s if ends_s is None else min(latest_s, ends_s),
            used_s=now_s,
        )
        self._of[session.key] = session
        return session_id, session

    def find(self, session_id: str, now_s: float) -> Session | None:
        """Return the session with this id and note its use; None if it does not exist or has ended."""
        found = self._of.get(_key(session_id))
        return found if found is not None and self.use(found, now_s) else None

    def use(self, session: Session, now_s: float) -> bool:
        """Note that a session is used now; return False if it has ended."""
        if self._of.get(session.key) is not session:
            return False
        if now_s >= session.ends_s or now_s - session.used_s >= self._idle_s:
            del self._of[session.key]
            return False
        session.used_s = now_s
        self._of.move_to_end(session.key)
        return True

    def end(self, session: Session) -> None:
        """Remove a session."""
        self._of.pop(session.key, None)


def is_own_token(session: Session, token: str) -> bool:
    """Return True if a change came with the token of this session."""
    return hmac.compare_digest(session.csrf_token.encode(), token.encode("utf-8", "surrogatepass"))


def _key(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


def _text(random: bytes) -> str:
    return base64.urlsafe_b64encode(random).rstrip(b"=").decode()
