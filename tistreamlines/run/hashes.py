"""Hashes of the inputs of a run, and doubts about where its images lie."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path

from ..devices.threads import reader
from ..io import ahead, gradients, images, placement, sidecar
from ..io.fixel_images import fixel_files
from ..io.images import AnyPath
from ..io.in_memory import InMemory
from ..options.definitions import names_affecting
from ..options.parameters import Parameters
from ..tracking.sources import SOURCES
from ..tracking.stopping.segmentation import OPTIONS as OF_TISSUES
from ..tracking.stopping.segmentation import subject_at
from .series import Series

OF_FIXELS = ("sift2", "seed_dynamic", "fod")  # inputs that may be a folder of fixels


def hashing(sources: Series, known: dict[images.FileState, str] | None = None) -> Callable[[], dict[str, str]]:
    """Check that the inputs exist, start to compute the sha256 of each, and return a function that waits for them.

    ``known`` has those of files that were not written to since, and gets the others.
    """
    known = {} if known is None else known
    files = {name: _parts(name, path) for name, path in sources.items() if not isinstance(path, InMemory)}
    future = reader("hashing").submit(lambda: {name: _hash(parts, known) for name, parts in files.items()})

    @cache
    def hashes() -> dict[str, str]:
        digests = future.result()
        return {
            name: _hash_in_memory(source) if isinstance(source, InMemory) else digests[name] + _label(source)
            for name, source in sources.items()
        }

    return hashes


def inputs_of_tables(parameters: Parameters) -> dict[str, AnyPath]:
    """Return the inputs that the tables are made of, besides the series, by name; one of several is 'name 1'."""
    affecting = names_affecting("tables")
    return {name: source for name, source in parameters.inputs().items() if name.split()[0] in affecting}


def doubts_of_places(sources: Series) -> list[str]:
    """Return warnings about images whose headers leave open where they lie, or contradict themselves."""
    parts = ([path] if isinstance(path, InMemory) else _parts(name, path) for name, path in sources.items())
    return placement.placement_doubts(chain.from_iterable(parts))


def _parts(name: str, path: AnyPath) -> list[AnyPath]:
    """Return the existing files of an input.

    An image may have its header and values in two. A source has its own, and a folder those that are read.
    """
    if isinstance(path, gradients.PipeContent):
        return [path]
    option = name.split()[0]  # one of several files is 'bedpostx 1'
    if option in SOURCES and (listing := SOURCES[option].files):
        parts = listing(path)
    elif option in OF_TISSUES and (subject := subject_at(path)) is not None:
        parts = subject.files
    elif option in OF_FIXELS and (fixels := fixel_files(path)) is not None:
        parts = list(fixels)
    elif option == "tractogram":
        from ..io.trx_schema import files_of_trx

        parts = files_of_trx(Path(path))
    else:
        path = images.existing_path(images.label_in(path)[0])
        with images.reading(path):
            parts = images.reader_of(path).files(path)
    return [images.existing_path(part) for part in parts]


def _hash(parts: list[AnyPath], known: dict[images.FileState, str]) -> str:
    contents = [hashlib.sha256(part.content).hexdigest() for part in parts if isinstance(part, gradients.PipeContent)]
    return "+".join(contents or [_hash_of_file(Path(part), known) for part in parts])


def _hash_of_file(path: Path, known: dict[images.FileState, str]) -> str:
    state = images.state_of_file(path)
    if state not in known:
        known[state] = ahead.digest_ahead(str(path)) or sidecar.sha256(path)
    return known[state]


def _label(source: AnyPath) -> str:
    """Return what says in a hash which label of an image is meant, or nothing."""
    label = None if isinstance(source, gradients.PipeContent) else images.label_in(source)[1]
    return "" if label is None else f":{label}"


def _hash_in_memory(source: InMemory) -> str:
    with images.reading(Path(source)):
        return source.sha256()
