"""All attacks, in the order in which they run."""

from collections.abc import Sequence
from typing import Final

from attacks import (
    adding_up,
    closed_doors,
    costly_texts,
    giant_requests,
    json_bombs,
    long_ids,
    metrics_bomb,
    poisoned_batches,
    quota_floods,
    record_bombs,
    request_floods,
    rest_floods,
    security_attacks,
    share_floods,
    slow_patterns,
)
from attacks.attack import Attack

ATTACKS: Final[Sequence[Attack]] = (
    *long_ids.ATTACKS,
    *giant_requests.ATTACKS,
    *metrics_bomb.ATTACKS,
    *slow_patterns.ATTACKS,
    *costly_texts.ATTACKS,
    *json_bombs.ATTACKS,
    *adding_up.ATTACKS,
    *record_bombs.ATTACKS,
    *poisoned_batches.ATTACKS,
    *closed_doors.ATTACKS,
    *request_floods.ATTACKS,
    *quota_floods.ATTACKS,
    *share_floods.ATTACKS,
    *rest_floods.ATTACKS,
    *security_attacks.ATTACKS,
)
# On secured nodes: `scripts/attack --secure`.
SECURED: Final[Sequence[Attack]] = (*security_attacks.ATTACKS, *security_attacks.OTHERS)
