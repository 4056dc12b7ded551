"""A sentence for whoever asked for something that cannot be done as things are."""


class Refused(Exception):
    """Nothing was changed; the text is the whole message. Another state of the cluster would allow it."""
