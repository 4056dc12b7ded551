"""The options of a format itself, beside the settings of its Kafka client.

Spark hands options to Python in lower case; messages spell them as they are documented.
"""

from collections.abc import Iterable, Mapping

from ottla.pipeline.client.setting_names import PREFIX
from ottla.pipeline.words import OptionError, with_nearest


def own_options(
    options: Mapping[str, str], *, honoured: Iterable[str], refused: Mapping[str, str], of: str
) -> dict[str, str]:
    """Return the options without `kafka.*`, as `honoured` spells them; `of` is "source" or "sink".

    Raises OptionError for the first option that is unknown, or among `refused`, which has the reasons.
    """
    known = tuple(honoured)
    spellings = {name.lower(): name for name in (*known, *refused)}
    found = {}
    for name, value in sorted(options.items()):
        if name.lower().startswith(PREFIX):
            continue
        spelling = spellings.get(name.lower())
        if spelling is None:
            raise OptionError(name, with_nearest(f"is not an option of this {of}", name, known))
        if spelling in refused:
            raise OptionError(spelling, refused[spelling])
        found[spelling] = value
    return found
