"""Recipes: the numbers of streamlines, and a record that says how they are tracked again."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from ..aliases import Array, Json
from ..errors import InputError, ParameterError, TrackingError
from ..io.numbers import SUFFIX, read_numbers
from ..io.trx import contents, member_names
from ..option import record_value
from ..options.definitions import join_options, kind, names_affecting, product_options
from ..options.parameters import Parameters
from ..tracking.engine.kernels import KernelParts
from ..tracking.products.connectome.connectome import LONGEST
from .hashes import hashing
from .plan import Plan
from .record import RunRecord, versions
from .saving import VERSION, damaged, difference, identity, record_of

SERIES = ("dwi", "bvals", "bvecs")


def recipe_of(parameters: Parameters, plan: Plan, kernels: KernelParts, output: Path) -> Json:
    """Return what the record of a run says besides, so that streamlines can be tracked again from their numbers.

    It holds the options that the user has given, and hashes of the tables and of the text of the kernels. It also holds
    the folder in which relative paths begin, relative to the folder of the record.
    """
    options = {name: record_value(getattr(parameters, name)) for name in parameters.given_names}
    here, beside = Path.cwd(), output.parent.resolve()
    try:
        folder = os.path.relpath(here, beside)
    except ValueError:  # on another drive of Windows
        folder = str(here)
    return {"recipe": {"options": options, "folder": folder, **_hashes(plan, kernels)}}


def _hashes(plan: Plan, kernels: KernelParts) -> dict[str, str]:
    return {"tables": plan.prepared.digest(), "kernels": kernels.digest()}


@dataclass(frozen=True)
class RecipeRecord(RunRecord):
    """The record beside numbers of streamlines."""

    recipe: Json | None = None


class Recipe:
    """The numbers of the streamlines of a run, and its record.

    Parameters
    ----------
    path : the numbers, .npz, or the record beside them, .json.

    Raises
    ------
    InputError
        If one of them is missing or damaged, or if they do not belong together.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_suffix(SUFFIX) if path.suffix.lower() == ".json" else path
        if self.path.suffix.lower() != SUFFIX:
            raise InputError(f"{path}: holds no numbers of streamlines: give a {SUFFIX} of tistreamlines track")
        self.record = record_of(self.path, RecipeRecord)
        if self.record.recipe is None:
            raise InputError(f"{self.path}: its record has no recipe: give what track -o FILE{SUFFIX} has written")
        self.numbers = read_numbers(self.path)
        with zipfile.ZipFile(self.path) as archive:
            members = contents(archive)
        if (len(self.numbers), members) != (self.record.result.n_streamlines, self.record.tractogram.contents):
            raise damaged(self.path, "it is not the file that its record describes")

    @cached_property
    def inputs(self) -> dict[str, Path]:
        """Path of each input; relative ones begin where those of the run did, as seen from the record."""
        assert self.record.recipe is not None
        folder = self.path.parent.resolve() / self.record.recipe["folder"]
        return {name: folder / file.path for name, file in self.record.inputs.items()}

    @property
    def series(self) -> dict[str, str]:
        """Paths of the series and its gradients, or nothing."""
        return {name: str(self.inputs[name]) for name in SERIES if name in self.inputs}

    def parameters(self, others: Mapping[str, object]) -> Parameters:
        """Return the options of the run that say what is tracked and what a tractogram holds, and others."""
        assert self.record.recipe is not None
        content = set(join_options()) - {*product_options(), "groups"}
        left = names_affecting("run") - content
        options = {name: self._located(name, value) for name, value in self.record.recipe["options"].items()
                   if name not in left}
        try:
            return Parameters.given({**options, **others})
        except (ParameterError, TypeError) as error:
            raise InputError(f"{self.path}: this version cannot track as its record says: {error}") from error

    def _located(self, name: str, value: object) -> object:
        """Return the value of an option with the paths of its inputs."""
        if kind(name) == "list" and isinstance(value, list):
            return [str(self.inputs.get(f"{name} {number}", item)) for number, item in enumerate(value, 1)]
        return str(self.inputs[name]) if name in self.inputs else value

    def changed_input(self) -> str:
        """Say which file is missing, or another one than when it was tracked; nothing if all are the same."""
        for name, path in self.inputs.items():
            if not path.exists():
                return f"{path}: is missing, from which {self.path.name} was tracked"
            if hashing({name: path})()[name] != self.record.inputs[name].sha256:
                return f"{path}: has changed since {self.path.name} was tracked"
        return ""

    def check(self, plan: Plan, kernels: KernelParts, record: Json) -> None:
        """Raise an InputError if a run with this plan, kernels and record would give other streamlines."""
        for name, digest in plan.hashes.items():
            known = self.record.inputs.get(name)
            if known is not None and known.sha256 != digest:
                raise self.refusal()
        now, then = (_without_versions(identity(content)) for content in (record, self.record.content))
        if differs := difference(now, then):
            raise InputError(f"{self.path}: this version makes other options of its record: {differs}")
        assert self.record.recipe is not None
        for name, digest in _hashes(plan, kernels).items():
            if self.record.recipe.get(name) != digest:
                what = "the kernels are others" if name == "kernels" else "other tables are made of the inputs here"
                raise InputError(
                    f"{self.path}: would get other bits: {what} than when it was tracked{self._versions()}: use the "
                    "versions and the computer of its record, or track it again"
                )

    def refusal(self, error: TrackingError | None = None) -> TrackingError:
        """Return the error about an input that has changed, or the one that was met if none has."""
        if changed := self.changed_input():
            return InputError(f"{changed}: give the file as it was, or track again")
        return error or damaged(self.path, "its record")

    def _versions(self) -> str:
        """Name the versions that differ."""
        now = versions()
        others = [f"{name} is {now[name]}, not {then}" for name, then in self.record.versions.items()
                  if name in now and now[name] != then]
        return f" ({', '.join(others)})" if others else ""

    def rows_of_nodes(self, names: Sequence[str], *, joined: bool) -> Array:
        """Return which streamlines have an end in one of the nodes, or with ``joined`` one in each of two, (n,)."""
        chosen = np.zeros(len(self.numbers), bool)
        if not self.numbers.groups:
            raise InputError(f"{self.path}: has no nodes of streamlines: track with --connectome and --groups")
        assert self.record.recipe is not None
        stems = [Path(file).stem for _, file in self.record.recipe["options"]["connectome"]]
        parcels = list(zip(stems, (kind.names for kind in self.numbers.groups), strict=True))
        rows = [_row_of(self.path, parcels, name) for name in names]
        if joined and rows[0][0] != rows[1][0]:
            raise ParameterError(f"{names[0]} and {names[1]} are nodes of two parcellations: give two of one")
        if joined:
            (place, first), (_, second) = rows
            ends = np.sort(self.numbers.groups[place].numbers, axis=1)
            return (ends == sorted((first, second))).all(axis=1)
        for place, row in rows:
            chosen |= (self.numbers.groups[place].numbers == row).any(axis=1)
        return chosen


def _row_of(path: Path, parcels: Sequence[tuple[str, Collection[str]]], wanted: str) -> tuple[int, int]:
    """Return the parcellation and the number of a node, by its whole name, FILE_NODE, or by that of the node.

    ``parcels`` are the name of the file and those of all nodes, for each parcellation.
    """
    all_rows = [(place, row, name) for place, (_, kind) in enumerate(parcels) for row, name in enumerate(kind, 1)]
    matches, files = [known for known in all_rows if known[2] == wanted], [file.lower() for file, _ in parcels]
    if not matches:
        names = [re.escape(name) for file, _ in parcels for name in member_names([f"{file}_{wanted}"], LONGEST)]
        # a name that a file of the same name has taken, in another folder, has a number behind it
        names = [name + r"(_\d+)?" * (files[place] in files[:place]) for place, name in enumerate(names)]
        matches = [known for known in all_rows if re.fullmatch(names[known[0]], known[2])]
    if len(matches) != 1:
        examples = ", ".join(name for _, _, name in (matches or all_rows)[:3])
        what = f"has {len(matches)} nodes that may be {wanted!r}" if matches else f"has no node {wanted!r}"
        raise InputError(f"{path}: {what}: give a whole name, such as {examples}")
    return matches[0][:2]


def _without_versions(record: Json) -> Json:
    """Return what decides about the bits besides versions, which hashes of tables and kernels stand for."""
    return {name: value for name, value in record.items() if not name.startswith(VERSION)}
