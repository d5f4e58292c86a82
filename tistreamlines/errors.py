"""What can go wrong for a reason that the user can mend."""


class TrackingError(Exception):
    """A problem the user can mend: one line naming the file, the value and the way out."""


class InputError(TrackingError):
    """A file or value given to the program is missing, damaged or does not fit the others."""


class OutputError(TrackingError):
    """A result cannot be written where it was asked for."""


class DeviceError(TrackingError):
    """The device that was asked for is missing or cannot do the work."""


class ParameterError(TrackingError, ValueError):
    """An option has a value that it cannot have, or does not go with another: wrong use."""
