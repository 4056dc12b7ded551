"""What stops the demo."""


class DemoError(Exception):
    """Why the demo cannot go on, in a sentence."""
