"""Which devices are found does not depend on the compiler that the tests run with."""

import pytest


@pytest.fixture(autouse=True)
def no_compiler_is_named(monkeypatch):
    """Let each arch have the first compiler that is installed and compiles for it."""
    monkeypatch.delenv("TISTREAMLINES_COMPILER", raising=False)
