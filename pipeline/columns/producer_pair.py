"""The producer of a record batch. A module of its own, as the driver's part of a sink encodes no rows."""

from typing import NamedTuple


class ProducerPair(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int
