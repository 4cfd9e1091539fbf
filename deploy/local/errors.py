"""What ends a command with a message for the person at the terminal instead of a traceback."""


class DeployError(Exception):
    """The message says what is wrong and what to do."""
