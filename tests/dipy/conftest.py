"""The phantom for comparisons with DIPY."""

import pytest
from dipy_case import Case


@pytest.fixture(scope="module")
def case(head):
    return Case(head.phantom)
