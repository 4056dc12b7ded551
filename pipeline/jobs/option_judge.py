"""The options of one source, sink or task, judged by its own kind, with the line of each that it refuses."""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.pipeline.jobs.tree_values import Options, SourceLocation, TreeValues
from ottla.pipeline.words import OptionError

# A judge stops at the first. What it refuses is taken away and it is asked again, for so many.
MAX_PROBLEMS: Final = 20


def judge(
    values: TreeValues, place: SourceLocation, options: Options, by: Callable[[Mapping[str, str]], object]
) -> None:
    """Add a problem for each option that the kind refuses, and for the first one that it misses."""
    left = dict(options.values)
    lines = {name.lower(): line for name, line in options.lines.items()}
    told: set[str] = set()
    for _ in range(MAX_PROBLEMS):
        try:
            by(left)
        except OptionError as error:
            name = error.option.lower()
            # What is missed once another was taken away may be missed for that alone.
            if name in told or (told and name not in lines):
                return
            values.wrong(place.below(error.option, lines.get(name)), error.problem)
            told.add(name)
            if name not in lines:
                return
            left = {key: value for key, value in left.items() if key.lower() != name}
        else:
            return
