"""The key that stands for `cluster.secret` wherever something is made of it.

Much of what is made of it is shown to anybody who asks: the false salts of users that do not exist, the id of
a new cluster, the proof with which a node answers the first message of a handshake. By each of them guesses
can be tried elsewhere, as fast as machines compute HMAC, and a secret that somebody chose would be found. So
nothing is made of the secret itself: scrypt makes a key of it, once for a process, and each guess costs
its time and memory.
"""

import hashlib
from functools import lru_cache
from typing import Final

KEY_BYTES: Final = 32
# 32 MiB for a tenth of a second, at each start of a node.
COST: Final = 1 << 15
BLOCK: Final = 8
_MAX_BYTES: Final = 64 << 20
# The same for all clusters: who is new to one knows nothing of it but the secret.
SALT: Final = b"ottla cluster key 1"


@lru_cache(maxsize=16)
def cluster_key(secret: str) -> bytes:
    """Return the key that a secret stands for; the first time it takes a tenth of a second."""
    return hashlib.scrypt(
        secret.encode(), salt=SALT, n=COST, r=BLOCK, p=1, maxmem=_MAX_BYTES, dklen=KEY_BYTES
    )
