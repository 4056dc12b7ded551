"""Derives a key from `cluster.secret` that replaces the secret in every hash and proof.

Any client can obtain values that are derived from the secret: the false salts of users that do not exist, the
id of a new cluster, the proof with which a node answers the first message of a handshake. With each of them
an attacker can test guesses offline, at the speed of HMAC, and would find a secret that a person chose. So
those values are derived from a key, which scrypt derives from the secret once per process. Each guess then
costs scrypt's time and memory.
"""

import hashlib
from functools import lru_cache
from typing import Final

KEY_BYTES: Final = 32
# scrypt takes 32 MiB for a tenth of a second, at each start of a node.
COST: Final = 1 << 15
BLOCK: Final = 8
_MAX_BYTES: Final = 64 << 20
# One salt for all clusters: a new node knows nothing of its cluster but the secret.
SALT: Final = b"ottla cluster key 1"


@lru_cache(maxsize=16)
def cluster_key(secret: str) -> bytes:
    """Return the key derived from a secret. The first call takes a tenth of a second."""
    return hashlib.scrypt(
        secret.encode(), salt=SALT, n=COST, r=BLOCK, p=1, maxmem=_MAX_BYTES, dklen=KEY_BYTES
    )
