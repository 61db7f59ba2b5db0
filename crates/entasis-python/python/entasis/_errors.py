"""Errors, by what the caller can do about them.

What the operating system, a file object or a store says comes as it is: `FileNotFoundError`, `PermissionError`, …
"""


class EntasisError(Exception):
    """What Entasis itself has to say; the classes below say what can be done about it."""


class CorruptError(EntasisError):
    """The file is damaged or cut short: restore it, or read what is whole. The message says where."""


class UnsupportedError(EntasisError, NotImplementedError):
    """The file or the table needs something that this version doesn't have, or isn't what it was taken for."""


class InvalidArgumentError(EntasisError, ValueError):
    """The call can't be answered as made: change its arguments."""
