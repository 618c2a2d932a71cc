"""Errors of use: what the command line turns into one clear sentence and status 2."""


class UserError(Exception):
    """Something the user can put right; the text names the way out."""
