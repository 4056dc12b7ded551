"""What AlterConfigs and IncrementalAlterConfigs share: from resource numbers to one command."""

from collections import Counter
from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING

from logstore.errors import ErrorCode, KafkaError
from metadata_raft.commands import AlterConfigs, ConfigChange, ResourceChanges, ResourceResult
from metadata_raft.image import EVERY_BROKER
from metadata_raft.records import ConfigResourceType
from node.runtime.turns import listed

if TYPE_CHECKING:
    from node.broker import Broker


def checked_resource_type(broker: "Broker", number: int, name: str) -> ConfigResourceType:
    """The type of a resource that this broker may change; INVALID_REQUEST for any other.

    The settings of a broker are checked by that broker, so another one's are refused.
    """
    try:
        kind = ConfigResourceType(number)
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {number}") from None
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER) and name != EVERY_BROKER:
        if not (name.isascii() and name.lstrip("-").isdigit() and len(name) <= 11):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name[:100]}"
            )
        if int(name) != broker.config.node_id:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {broker.config.node_id}, but received {name}",
            )
    return kind


async def alter_resources(
    broker: "Broker",
    resources: Sequence[tuple[int, str, Sequence[ConfigChange] | KafkaError]],
    *,
    replace_all: bool,
    validate_only: bool,
    is_large: bool,
) -> list[ResourceResult]:
    """The result of each (type, name, changes), in order; a resource that is refused here goes no further."""
    times = Counter((number, name) for number, name, _ in resources)

    def judged(
        number: int, name: str, changes: Sequence[ConfigChange] | KafkaError
    ) -> ResourceChanges | ResourceResult:
        try:
            if isinstance(changes, KafkaError):
                raise changes
            if times[number, name] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            kind = checked_resource_type(broker, number, name)
        except KafkaError as error:
            return ResourceResult(error_code=error.code, error_message=error.detail)
        return ResourceChanges(
            resource_type=kind, resource_name=name, changes=changes, replace_all=replace_all
        )

    outcomes = await listed(starmap(judged, resources), is_large=is_large)
    accepted = [one for one in outcomes if isinstance(one, ResourceChanges)]
    results = iter(await _submit(broker, accepted, validate_only=validate_only))
    return [one if isinstance(one, ResourceResult) else next(results) for one in outcomes]


async def _submit(
    broker: "Broker", accepted: Sequence[ResourceChanges], *, validate_only: bool
) -> Sequence[ResourceResult]:
    if not accepted:
        return ()
    command = AlterConfigs(resources=accepted, validate_only=validate_only)
    try:
        return (await broker.metadata.submit(command)).resources
    except KafkaError as error:
        return [ResourceResult(error_code=error.code, error_message=error.detail)] * len(accepted)
