"""The one exception that a user is meant to read."""


class ProgpoError(Exception):
    """Something the user can mend: bad input, a bad setting, a damaged artifact.

    The message names the thing and the remedy, in one or a few lines. The command line prints it without a
    traceback and exits with status 1; nothing has been written by then.
    """
