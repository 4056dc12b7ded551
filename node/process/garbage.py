"""The collector of garbage of a node: it looks at new objects only."""

import gc

# Net allocations until the youngest objects are looked at, and then of the next older ones so many times. All
# objects are looked at a hundred times less often than Python does by itself.
_COLLECTION_THRESHOLDS = (700, 10, 1_000)


def freeze() -> None:
    """Keep what is there now out of collections: it stays as long as the node."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
