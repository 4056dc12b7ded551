"""The number of a client's request that waits for its answer."""

from typing import TypeAlias

Token: TypeAlias = int
