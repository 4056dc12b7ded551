"""Named settings: their types, defaults, limits and documentation, and the parser of their values.

Topic, broker and group settings are all tables of `ConfigKey` in a `ConfigDef`. Texts are parsed by the rules
of Kafka's own parser (numbers trimmed and signed, booleans in any case, lists split at commas with repeats
dropped), because the same `server.properties` and the same AdminClient calls must have the same effect here.
A rejected text raises INVALID_CONFIG with one sentence that names the setting, the value and the allowed
ones.

Two rules are stricter than Kafka's: a DOUBLE must be a finite decimal number (NaN and hexadecimal are
rejected), and no text may contain a zero byte or more than MAX_CONFIG_VALUE_LENGTH characters.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum

from ottla.logstore.words.errors import ErrorCode, KafkaError

INT_MAX = 2**31 - 1
SHORT_MAX = 2**15 - 1
LONG_MAX = 2**63 - 1
MAX_CONFIG_VALUE_LENGTH = 1 << 15  # characters; the most that a STRING of the wire protocol can hold
_SHOWN_VALUE_LENGTH = 200  # characters of a rejected value that an error repeats
_JAVA_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's String.trim() strips
_INTEGER = re.compile(r"[+-]?\d+")
# The quantifiers are possessive: backtracking over 32,000 digits would take a minute.
_DECIMAL = re.compile(r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?[fFdD]?")
_SPACE = re.compile(r"\s")

ConfigValue = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The type of a setting, numbered as a DescribeConfigs response carries it (int8)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigScope(IntEnum):
    """The scope in which a setting can change while the broker runs: Kafka's update modes (KIP-226)."""

    READ_ONLY = 0  # only by a restart
    PER_BROKER = 1  # for one broker or for all
    CLUSTER_WIDE = 2  # a default of all brokers, which one broker may override


class Importance(IntEnum):
    """The importance of a setting to a reader of the documentation."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Validator:
    """A condition on a parsed value: `problem_of(value)` returns None or the end of an error sentence."""

    allowed: str  # for documentation: "[0,...]", "[compact, delete]"
    problem_of: Callable[[ConfigValue], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A setting. `default` is a typed value; None is Kafka's null: no value unless one is set."""

    name: str
    type: ConfigType
    default: ConfigValue
    documentation: str
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    scope: ConfigScope = ConfigScope.READ_ONLY
    sensitive: bool = False
    internal: bool = False
    prefixed_scope: ConfigScope | None = None  # the scope of its name with a prefix; None: `scope`, too

    @property
    def read_only(self) -> bool:
        """True if no request can change the setting, as DescribeConfigs reports it."""
        return self.scope is ConfigScope.READ_ONLY

    def parse(self, text: str) -> ConfigValue:
        """Return the typed and checked value of `text`; raise INVALID_CONFIG if it is not valid."""
        if "\0" in text:  # no name of a file or host may contain it, and no other setting needs it
            raise _refused(self, text, "it contains a zero byte.")
        value = _typed(self, text)
        self.check(value, text)
        return value

    def check(self, value: ConfigValue, text: str | None = None) -> None:
        """Raise INVALID_CONFIG unless the validator accepts the typed value."""
        problem = self.validator.problem_of(value) if self.validator else None
        if problem:
            shown = text if text is not None else value_to_text(value)
            raise _refused(self, shown, problem)


class ConfigDef:
    """A table of settings by name; `kind` ("topic", "broker", "group") names the table in errors.

    `base_name` returns the setting to which a name with a prefix belongs, or None: `max.connections` for
    `listener.name.inner.max.connections`.
    """

    __slots__ = ("_base_name", "keys", "kind")

    def __init__(
        self,
        kind: str,
        keys: tuple[ConfigKey, ...],
        *,
        base_name: Callable[[str], str | None] = lambda _name: None,
    ) -> None:
        self.kind = kind
        self._base_name = base_name
        self.keys: Mapping[str, ConfigKey] = {key.name: key for key in keys}
        assert len(self.keys) == len(keys), f"a {kind} config is defined twice"

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self.keys.values())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (name in self.keys or self._base_name(name) in self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def key(self, name: str) -> ConfigKey:
        """Return the setting of that name; raise INVALID_CONFIG if there is none."""
        found = self.keys.get(name)
        if found is None:
            base = self.keys.get(self._base_name(name) or "")
            found = base and replace(base, name=name, scope=base.prefixed_scope or base.scope)
        if found is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown {self.kind} config name: {name[:200]}")
        return found

    def parse(self, name: str, text: str) -> ConfigValue:
        """Return the typed and checked value of `text` for the setting `name`."""
        return self.key(name).parse(text)

    def parse_all(self, texts: Mapping[str, str]) -> dict[str, ConfigValue]:
        """Return the value of every setting: the one in `texts`, or the default. Reject unknown names."""
        given = {name: self.parse(name, text) for name, text in texts.items()}
        return {name: given.get(name, key.default) for name, key in self.keys.items()}


def invalid_value(name: str, value: object, problem: str) -> KafkaError:
    """Return the error for a rejected value, in Kafka's words: the value, the setting and the reason."""
    shown = str(value)
    if len(shown) > _SHOWN_VALUE_LENGTH:
        shown = shown[:_SHOWN_VALUE_LENGTH] + "..."
    return KafkaError(ErrorCode.INVALID_CONFIG, f"Invalid value {shown} for configuration {name}: {problem}")


def at_least(minimum: float) -> Validator:
    """Return a validator that accepts numbers from `minimum` on."""
    return between(minimum, None)


def between(minimum: float | None, maximum: float | None) -> Validator:
    """Return a validator of numbers from `minimum` to `maximum`, inclusive; None is no limit. Null passes."""

    def problem_of(value: ConfigValue) -> str | None:
        if not isinstance(value, int | float):
            return None if value is None else "it must be a number."
        if minimum is not None and value < minimum:
            return f"it must be at least {minimum}."
        if maximum is not None and value > maximum:
            return f"it must be at most {maximum}."
        return None

    low, high = "" if minimum is None else minimum, "" if maximum is None else maximum
    return Validator(allowed=f"[{low},...,{high}]" if high != "" else f"[{low},...]", problem_of=problem_of)


def between_or(minimum: int, maximum: int, other: int) -> Validator:
    """Return a validator of integers from `minimum` to `maximum`, or `other`, which has a special meaning."""

    def problem_of(value: ConfigValue) -> str | None:
        if isinstance(value, int) and (value == other or minimum <= value <= maximum):
            return None
        return f"it must be between {minimum} and {maximum}, or {other}."

    return Validator(allowed=f"[{minimum},...,{maximum}] or {other}", problem_of=problem_of)


def one_of(*allowed: str, ignore_case: bool = False) -> Validator:
    """Return a validator that accepts one of the given words."""
    words = {word.lower() for word in allowed} if ignore_case else set(allowed)
    shown = ", ".join(allowed)

    def problem_of(value: ConfigValue) -> str | None:
        if isinstance(value, str) and (value.lower() if ignore_case else value) in words:
            return None
        return f"it must be one of: {shown}."

    return Validator(allowed=f"[{shown}]", problem_of=problem_of)


def list_of(*allowed: str, may_be_empty: bool = True) -> Validator:
    """Return a validator of lists whose entries are all among the given words."""
    words = set(allowed)
    shown = ", ".join(allowed)

    def problem_of(value: ConfigValue) -> str | None:
        if not isinstance(value, tuple) or not words.issuperset(value):
            return f"every entry must be one of: {shown}."
        return None if value or may_be_empty else "it must not be empty."

    return Validator(allowed=f"[{shown}]", problem_of=problem_of)


def entries(*, may_be_absent: bool = False) -> Validator:
    """Return a validator of lists with at least one entry and no empty one; `may_be_absent` admits null."""

    def problem_of(value: ConfigValue) -> str | None:
        if value is None and may_be_absent:
            return None
        if not isinstance(value, tuple) or not value:
            return "it must not be empty."
        return None if all(value) else "it must not contain an empty entry."

    return Validator(allowed="non-empty", problem_of=problem_of)


def value_to_text(value: ConfigValue) -> str | None:
    """Return a typed value as DescribeConfigs shows it: in Java's form, lists with commas, null as None."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            # Java writes numbers outside [1e-3, 1e7) with an exponent, as "1.0E-4".
            if value == 0 or 1e-3 <= abs(value) < 1e7:
                return repr(value)
            exact = Decimal(repr(value)).normalize()
            exponent = exact.adjusted()
            return f"{float(exact.scaleb(-exponent))!r}E{exponent}"
        case tuple():
            return ",".join(value)
        case int() | str():
            return str(value)


def _refused(key: ConfigKey, text: object, problem: str) -> KafkaError:
    """Return the error for a rejected value of a setting; it hides the value of a sensitive one."""
    return invalid_value(key.name, "(hidden)" if key.sensitive else text, problem)


def _typed(key: ConfigKey, text: str) -> ConfigValue:
    if len(text) > MAX_CONFIG_VALUE_LENGTH:
        raise _refused(key, text, f"it is longer than {MAX_CONFIG_VALUE_LENGTH} characters.")
    trimmed = text.strip(_JAVA_BLANKS)
    match key.type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise _refused(key, text, "it must be either true or false.")
            return trimmed.lower() == "true"
        case ConfigType.INT:
            return _integer(key, text, trimmed, INT_MAX)
        case ConfigType.SHORT:
            return _integer(key, text, trimmed, SHORT_MAX)
        case ConfigType.LONG:
            return _integer(key, text, trimmed, LONG_MAX)
        case ConfigType.DOUBLE:
            number = float(trimmed.rstrip("fFdD")) if _DECIMAL.fullmatch(trimmed) else float("nan")
            if not abs(number) < float("inf"):
                raise _refused(key, text, "it is not a number of type DOUBLE.")
            return number
        case ConfigType.LIST:
            entries = trimmed.split(",") if trimmed else []
            if _SPACE.search(trimmed) is not None:
                entries = [entry.strip() for entry in entries]
            return tuple(dict.fromkeys(entries))
        case ConfigType.STRING | ConfigType.CLASS | ConfigType.PASSWORD | ConfigType.UNKNOWN:
            return trimmed


def _integer(key: ConfigKey, text: str, trimmed: str, maximum: int) -> int:
    # Ten times the digits of a long leave room for leading zeros; more would only cost time in int().
    number = int(trimmed) if len(trimmed) <= 200 and _INTEGER.fullmatch(trimmed) else None
    if number is None or not -maximum - 1 <= number <= maximum:
        raise _refused(key, text, f"it is not a number of type {key.type.name}.")
    return number
