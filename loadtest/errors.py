"""What the person at the keyboard can put right."""


class LoadTestError(Exception):
    """Its message stands alone: what is wrong, with what, and what to do."""
