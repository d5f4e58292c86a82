"""Types of values that many modules hand on: arrays of any shape and kind, and objects of JSON."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
Json = dict[str, Any]  # an object of JSON, such as what a record says of a file
