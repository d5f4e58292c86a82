"""Public bug reports of other programs, replayed on small inputs made by code: ``test_replayed.py`` has their table."""

import pytest

NAMES = ("scene", "gradients", "images", "runs", "tractograms")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in NAMES))
