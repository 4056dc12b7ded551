"""What a record batch says of who made it. By itself, as the driver's part of a sink encodes no rows."""

from typing import NamedTuple


class ProducerPair(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int
