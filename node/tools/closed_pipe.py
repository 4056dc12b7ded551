"""Handles an output that cannot be written any more.

If its reader has gone, as after `| head`, the command ends quietly. If the disk is full, it prints an error.
"""

import errno
import os
from typing import Final

# Errors that reads and sockets do not fail with: a command that gets one could not write its output.
_OF_OUTPUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def end_quietly() -> int:
    """Redirect the output to nowhere, as Python flushes it at exit and would complain; return exit code 0."""
    dev_null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(dev_null, 1)
    os.close(dev_null)
    return 0


def is_of_output(error: OSError) -> bool:
    """Return True if writing the output failed; the error of a file opened by name has a file name."""
    return error.errno in _OF_OUTPUT and error.filename is None


def output_refused(error: OSError) -> str:
    """Return the message for output that cannot be written."""
    return f"The output cannot be written: {error.strerror}."
