"""Opens standard input, output and error: the parent process may have closed some of them."""

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed_streams() -> None:
    """Open /dev/null for each stream that is closed; call it before any other file is opened.

    The system assigns the lowest free descriptor: otherwise a socket or the loop's own descriptor would
    become standard output, and uvloop ends a process that closes one of these.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            assert opened == number, "those below it are open"
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:  # it was closed when Python started
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
