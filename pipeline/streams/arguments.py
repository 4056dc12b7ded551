"""Arguments of functions, as text from a job file. Errors are OptionErrors with the argument's name."""

from collections.abc import Collection

from ottla.pipeline.query import parse_interval_ms
from ottla.pipeline.words import OptionError

MAX_NAMES = 1_000  # of columns; more are a mistake


def names_of(text: str, option: str, columns: Collection[str], *, may_be_empty: bool = False) -> list[str]:
    """Read `carrier, origin`: names of `columns`, each once."""
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    if not names and not may_be_empty:
        raise OptionError(option, "needs the name of at least one column")
    if len(names) > MAX_NAMES:
        raise OptionError(option, f"has {len(names)} names; at most {MAX_NAMES} are allowed")
    for index, name in enumerate(names):
        name_of(name, option, columns)
        if name in names[:index]:
            raise OptionError(option, f"names {name} twice")
    return names


def name_of(text: str, option: str, columns: Collection[str]) -> str:
    """Read the name of one column that exists."""
    name = text.strip()
    if name not in columns:
        raise OptionError(option, f"names {name!r}, but the columns are {', '.join(sorted(columns))}")
    return name


def interval_of(text: str, option: str, *, may_be_zero: bool = False) -> str:
    """Read a time in Spark's notation, `10 minutes`; return it in milliseconds, so that all readers agree."""
    interval_ms = parse_interval_ms(text, option)
    if not interval_ms and not may_be_zero:
        raise OptionError(option, "must be longer than 0")
    return f"{interval_ms} milliseconds"


def one_of(text: str, option: str, choices: Collection[str]) -> str:
    """Return the text if it is one of the choices."""
    if text not in choices:
        raise OptionError(option, f"is {text!r}; it must be one of {', '.join(choices)}")
    return text


def number_of(text: str, option: str, *, least: int, most: int) -> int:
    """Read a whole number from `least` to `most`."""
    try:
        number = int(text)
    except ValueError:
        raise OptionError(option, f"is {text!r}; it must be a whole number") from None
    if not least <= number <= most:
        raise OptionError(option, f"is {number}; it must be from {least} to {most}")
    return number


def refuse_existing_columns(names: Collection[str], option: str, columns: Collection[str]) -> None:
    """Reject the name of an existing column: it would be ambiguous, which fails only much later."""
    taken = sorted(set(names) & set(columns))
    if taken:
        raise OptionError(option, f"would add a second column {taken[0]}")
