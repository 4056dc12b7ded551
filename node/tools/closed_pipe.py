"""What a command does when its output cannot be written any more.

Nobody reads it, as after `| head`: it ends, and says nothing. The disk behind it is full: it says so.
"""

import errno
import os
from typing import Final

# What no socket and no file that is read fails with: a command that fails so could not write its output.
_OF_OUTPUT: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def end_quietly() -> int:
    """The exit code. Python would complain when it flushes at its end: from here on it flushes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return 0


def is_of_output(error: OSError) -> bool:
    """Whether this is what writing the output fails with; a file that was opened by name tells its name."""
    return error.errno in _OF_OUTPUT and error.filename is None


def output_refused(error: OSError) -> str:
    """The sentence about it."""
    return f"The output cannot be written: {error.strerror}."
