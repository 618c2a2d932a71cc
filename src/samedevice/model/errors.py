"""Errors of use: what the command line turns into one clear sentence and status 2."""

#: what every part says that cannot work without it
MISSING_TORCH = "virtual GPUs need PyTorch in this environment: install it (the CPU build is enough)"


class UserError(Exception):
    """Something the user can put right; the text names the way out."""
