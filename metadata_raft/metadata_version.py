"""`metadata.version`: the finalized feature that fixes the versions of records that every broker can read.

Its levels, and the records that each allows, are Apache Kafka's (4.3-IV0 is 30). A new cluster begins at the
highest level. A cluster that is upgraded node by node keeps its level, and writes records in the versions of
that level, until UpdateFeatures raises it.
"""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
# 3.7-IV2: the first with directories (KIP-858); without them a replica and a lost one look alike.
LOWEST_METADATA_VERSION: Final = 17
LATEST_METADATA_VERSION: Final = 30

ELIGIBLE_LEADER_REPLICAS_SINCE: Final = 23  # 4.0-IV1
CORDONED_LOG_DIRS_SINCE: Final = 30  # 4.3-IV0
# The levels at which a record got a new version. Kafka does not downgrade below such a level: fields of the
# newer records could not be written any more.
CHANGES_OF_RECORDS: Final = (LOWEST_METADATA_VERSION, ELIGIBLE_LEADER_REPLICAS_SINCE, CORDONED_LOG_DIRS_SINCE)


def writes_the_same(one: int, other: int) -> bool:
    """Return True if both levels write every record in the same version."""
    return _generation(one) == _generation(other)


def _generation(level: int) -> int:
    return sum(level >= since for since in CHANGES_OF_RECORDS)
