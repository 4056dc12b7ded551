"""All targets of the fuzzer, by name."""

from typing import Final

from tests.fuzz import record_targets, rest_targets, state_targets, text_targets, wire_targets
from tests.fuzz.target import Target

TARGETS: Final[tuple[Target, ...]] = (
    *wire_targets.TARGETS,
    *record_targets.TARGETS,
    *state_targets.TARGETS,
    *text_targets.TARGETS,
    *rest_targets.TARGETS,
)
BY_NAME: Final = {one.name: one for one in TARGETS}
assert len(BY_NAME) == len(TARGETS), "two targets have one name"
