"""The assignors by the names that `group.consumer.assignors` and members use for them."""

from collections.abc import Callable, Mapping

from ottla.groupcoord.assignment import Assignment
from ottla.groupcoord.assignors.assignor_spec import GroupSpec
from ottla.groupcoord.assignors.range_assignor import assign_range
from ottla.groupcoord.assignors.uniform_assignor import assign_uniform

# In Kafka's default order of `group.consumer.assignors`.
ASSIGNORS: Mapping[str, Callable[[GroupSpec], dict[str, Assignment]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
