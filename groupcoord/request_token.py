"""The number under which a request of a client waits for its answer."""

from typing import TypeAlias

Token: TypeAlias = int
