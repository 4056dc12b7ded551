"""Checks the options of one source, sink or task by its kind, and reports each refused one with its line."""

from collections.abc import Callable, Mapping
from typing import Final

from ottla.pipeline.jobs.tree_values import Options, SourceLocation, TreeValues
from ottla.pipeline.words import OptionError

# A check stops at the first error. That option is removed and the check repeated, up to this many times.
MAX_PROBLEMS: Final = 20


def check_options(
    values: TreeValues,
    location: SourceLocation,
    options: Options,
    check: Callable[[Mapping[str, str]], object],
) -> None:
    """Add a problem for each option that the kind refuses, or else for the first one that is missing.

    After a refusal, missing options are not reported. `check` checks the options of a kind.
    """
    left = dict(options.values)
    lines = {name.lower(): line for name, line in options.lines.items()}
    reported: set[str] = set()
    for _ in range(MAX_PROBLEMS):
        try:
            check(left)
        except OptionError as error:
            name = error.option.lower()
            # An option that is missing after another was removed may be missing only for that reason.
            if name in reported or (reported and name not in lines):
                return
            values.wrong(location.below(error.option, lines.get(name)), error.problem)
            reported.add(name)
            if name not in lines:
                return
            left = {key: value for key, value in left.items() if key.lower() != name}
        else:
            return
