"""Standard input, output and error are there: who started this process may have closed some of them."""

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed_streams() -> None:
    """Have /dev/null stand for each that is closed; to be called before anything else is opened.

    The system gives the lowest number that is free: a socket or the loop's own descriptor would get one of
    these, be taken for output, and uvloop ends a process that closes one.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDONLY if mode == "r" else os.O_WRONLY)
            assert opened == number, "those below it are open"
            os.set_inheritable(number, True)
        if getattr(sys, name) is None:  # Python found it closed when it began
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
