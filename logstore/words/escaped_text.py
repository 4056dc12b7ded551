"""Text with control characters written as escapes, for terminals and logs.

Other parties choose names, records and error messages: an escape sequence in them could clear a screen, hide
a line or forge one.
"""

import re
from typing import Final

# C0 and C1 control characters, line and paragraph separators, overrides of the writing direction, and lone
# surrogates, which no stream can encode.
CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CONTROLS_OF_LINES: Final = re.compile(CONTROLS.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def escape_controls(text: str, *, keeps_lines: bool = False) -> str:
    r"""Return the text with each control character replaced by its escape, such as `\x1b`.

    With `keeps_lines`, tabs and line feeds stay as they are, for text of several lines.
    """
    pattern = _CONTROLS_OF_LINES if keeps_lines else CONTROLS
    return pattern.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
