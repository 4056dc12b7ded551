"""The error that stops the demo."""


class DemoError(Exception):
    """The reason why the demo cannot go on, in a sentence."""
