"""What a command does when nobody reads its output any more, as after `| head`: it ends, and says nothing."""

import os


def end_quietly() -> int:
    """The exit code. Python would complain when it flushes at its end: from here on it flushes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return 0
