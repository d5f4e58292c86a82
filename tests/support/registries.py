"""The tables of the registry as they were, after tests that register rows."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from tistreamlines import plugins
from tistreamlines.tracking import registry


@contextmanager
def restore_registries() -> Iterator[None]:
    """Forget what is registered in the context, and bring back what is deleted there."""
    tables = registry.METHODS, registry.STOPPING_RULES, registry.PRODUCTS, registry.SOURCES
    with ExitStack() as stack:
        for table in (*tables, vars(registry)["_REGISTERED"], vars(plugins)["_digests"]):
            stack.enter_context(patch.dict(table))
        yield
