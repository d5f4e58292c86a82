"""Getters, rules and products of other packages: the examples, in the cache, in workers and as commands."""

import inspect
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from places import ROOT
from registries import restore_registries
from small_runs import words_of, write_inputs

import tistreamlines as ts
from tistreamlines import plugins
from tistreamlines.devices import ARCHS
from tistreamlines.errors import TrackingError
from tistreamlines.options.definitions import applies_with, options
from tistreamlines.options.objects import expand
from tistreamlines.tracking.registry import METHODS, PRODUCTS, STOPPING_RULES, rule_for
from tistreamlines.tracking.tables import packing

EXAMPLES = ROOT / "examples"
OWN = ("own_getter", "own_rule", "own_product")
COMMON = {"nseeds": 300, "min_length": 0, "max_steps": 30, "arch": "cpu"}


@pytest.fixture(autouse=True)
def examples():
    """The examples, imported as users would, until the end of a test.

    What the monkeypatch of a test has changed in the registry comes back before: this fixture has another.
    """
    with pytest.MonkeyPatch.context() as patch, restore_registries():
        patch.syspath_prepend(str(EXAMPLES))
        for name in OWN:
            sys.modules.pop(name, None)
            __import__(name)
        yield sys.modules["own_getter"], sys.modules["own_rule"]
        for name in OWN:
            del sys.modules[name]


def points(result):
    assert result.n_streamlines > 20
    return ts.Batch.concatenate(result.batches).points


def test_its_options_are_options():
    assert applies_with("forward_weight") == {"dg": ("forward",)}
    assert applies_with("fa_low") == {"stopping": ("band",)}
    assert {"forward_weight", "fa_low", "fa_high"} <= set(options())
    assert ts.Parameters(dg="forward", forward_weight=False).as_dict()["forward_weight"] is False
    with pytest.raises(ts.ParameterError, match="can be used with dg forward, not with dg prob"):
        ts.Parameters.given({"dg": "prob", "forward_weight": False})
    with pytest.raises(ts.ParameterError, match="fa_low is 2"):
        ts.Parameters(stopping="band", fa_low=2)


def test_its_map_chooses_its_rule(monkeypatch):
    """Of rules that have the same map, the first one that has all maps that are given."""
    row = replace(STOPPING_RULES["threshold"], maps={"stop_map": 0, "limits": 0}, chosen_by=("fa_low",))
    monkeypatch.setitem(STOPPING_RULES, "limited", row)
    assert [rule_for(names)[0] for names in ({"stop_map"}, {"limits"}, {"stop_map", "limits"}, {"fa_low"}, ())] == [
        "threshold", "limited", "limited", "limited", None
    ]
    with pytest.raises(ts.ParameterError, match="limits chooses the stopping rule limited, and act act5"):
        rule_for({"limits": 1, "act": 1})


def test_it_has_an_object(head):
    getter = ts.choice("dg", "forward")(forward_weight=False, model=ts.CSA())
    rule = ts.choice("stopping", "band")(fa_low=0.1, fa_high=1.0)
    assert "forward_weight" in inspect.signature(type(getter)).parameters
    assert expand({"dg": pickle.loads(pickle.dumps(getter))}) == {
        "dg": "forward", "forward_weight": False, "model": "csa"
    }
    result = ts.track(*head.series, dg=getter, stopping=rule, **COMMON)
    named = {"dg": "forward", "forward_weight": False, "model": "csa", "stopping": "band", "fa_low": 0.1}
    assert np.array_equal(points(result), points(ts.track(*head.series, fa_high=1.0, **named, **COMMON)))
    with pytest.raises(TypeError, match="'fa_lower'; its options are"):
        type(rule)(fa_lower=0.2)


def test_without_the_weight_it_is_like_prob(head):
    """Its probabilities are added up in another order; with the weight, streamlines turn less."""
    named = {"model": "csa", "stopping": "band", "fa_low": 0.1, "fa_high": 1.0, **COMMON}
    prob, plain = (ts.track(*head.series, dg=dg, **named) for dg in ("prob", "forward"))
    unweighted = ts.track(*head.series, dg="forward", forward_weight=False, **named)
    def turn(result):
        steps = [np.diff(line, axis=0) for line in result.streamlines if len(line) > 10]
        steps = [step / np.linalg.norm(step, axis=1, keepdims=True) for step in steps]
        cosines = np.concatenate([(step[1:] * step[:-1]).sum(axis=1) for step in steps])
        return np.degrees(np.arccos(np.clip(cosines, -1, 1))).mean()

    assert turn(unweighted) == pytest.approx(turn(prob), rel=0.01)
    assert turn(plain) < 0.98 * turn(prob)


def test_its_tables_are_kept_until_its_source_changes(head, tmp_path, monkeypatch):
    named = {"dg": "forward", "model": "csa", "stopping": "band", "cache_dir": tmp_path, **COMMON}
    first = points(ts.track(*head.series, **named))
    with monkeypatch.context() as patch:
        patch.setattr("tistreamlines.run.plan.read", None)  # would be called
        assert np.array_equal(points(ts.track(*head.series, **named)), first)
    assert len(list(tmp_path.glob("tables-*"))) == 1
    with monkeypatch.context() as patch:
        patch.setitem(vars(plugins)["_digests"], "own_rule", "another")
        ts.track(*head.series, **named)
    assert len(list(tmp_path.glob("tables-*"))) == 2


def test_a_cache_file_imports_nothing(tmp_path, monkeypatch):
    kernel_of = vars(packing)["_look_up"]
    assert kernel_of("own_getter:next_direction").__name__ == "next_direction"
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    for place in ("evil:f", "os:system", "own_getter.evil:f"):
        with pytest.raises(ValueError, match="no kernels and no parts"):
            kernel_of(place)
    with pytest.raises(ValueError, match="no kernel function, no record and no part"):
        kernel_of("own_getter:describe")


def counted(path):
    rows = path.read_text(encoding="utf-8").split()[1:]
    return [int(row.split(",")[1]) for row in rows]


def test_a_product_is_made_with_and_without_a_tractogram_in_parts_and_of_a_run_that_goes_on(head, tmp_path):
    named = COMMON | {"dg": "prob", "model": "csa"}
    whole = ts.track(*head.series, tmp_path / "a.trx", lengths=tmp_path / "a.csv", lengths_bin=4, **named)
    steps = ts.Batch.concatenate(list(ts.track(*head.series, **named).batches)).lengths - 1
    expected = np.bincount((steps * whole.record["step_mm"] / 4).astype(int))
    assert counted(tmp_path / "a.csv") == whole.products["lengths"].tolist() == expected.tolist()
    assert json.loads((tmp_path / "a.json").read_text())["lengths"] == {"path": str(tmp_path / "a.csv"), "bin_mm": 4}
    lengths = ts.choice("products", "lengths")(tmp_path / "b.csv", bin=4)
    alone = ts.track(*head.series, products=[lengths], keep_streamlines=False, **named)
    assert "lengths" in json.loads((tmp_path / "b.json").read_text())
    with pytest.raises(ts.InputError, match="is all that was kept"):
        _ = alone.streamlines
    parts = [tmp_path / f"{k}.trx" for k in (1, 2)]
    for k, part in enumerate(parts, 1):
        ts.track(*head.series, part, part=f"{k}/2", **named)
    ts.join(parts, tmp_path / "c.trx", lengths=tmp_path / "c.csv", lengths_bin=4)
    ts.track(*head.series, tmp_path / "d.trx", lengths=tmp_path / "d.csv", lengths_bin=4, resume=True, **named)
    for name in "bcd":
        assert (tmp_path / f"{name}.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()


def test_a_products_name_is_checked_before_the_work(head, tmp_path):
    with pytest.raises(ts.OutputError, match="unknown suffix"):
        ts.track(*head.series, lengths=tmp_path / "a.txt")
    with pytest.raises(ts.ParameterError, match="also the name of another output"):
        ts.track(*head.series, tmp_path / "a.trx", lengths=tmp_path / "a.csv", json_stats=tmp_path / "a.csv")
    with pytest.raises(ts.ParameterError, match="lengths is written by track"):
        ts.stream(*head.series, lengths=tmp_path / "a.csv")
    with pytest.raises(TypeError, match="unexpected keyword argument 'length'"):
        ts.join([], tmp_path / "a.trx", length=tmp_path / "a.csv")


@pytest.mark.parametrize("name", ["", "a b", "lengths-2", "../a", "é\n", 3, None])
def test_names_that_no_option_can_have(name):
    with pytest.raises(ts.ParameterError, match="cannot be an option"):
        ts.register(name, METHODS["forward"])


def test_a_product_without_an_option_of_its_name():
    with pytest.raises(ts.ParameterError, match="has no option 'histogram', which is to name the file"):
        ts.register("histogram", PRODUCTS["lengths"])


def test_names_that_are_taken():
    with pytest.raises(ts.ParameterError, match="'prob' is taken"):
        ts.register("prob", METHODS["forward"])


def test_a_script_that_starts_runs_while_it_is_imported(monkeypatch):
    monkeypatch.setattr(plugins, "_importing", ["script.py"])
    with pytest.raises(TrackingError, match=r"script\.py starts a run while"):
        plugins.code_that_imports()


@pytest.mark.skipif("vulkan" not in ARCHS, reason="no Vulkan")
def test_a_worker_knows_it(head, tmp_path):
    """A run that can go on has a worker, which imports the script that registers it."""
    script, few = tmp_path / "script.py", COMMON | {"nseeds": 12}
    script.write_text(
        (EXAMPLES / "own_getter.py").read_text(encoding="utf-8").split("def main(")[0]
        + "if __name__ == '__main__':\n"
        f"    named = {few!r} | {{'arch': sys.argv[1]}}\n"
        f"    result = ts.track(*sys.argv[3:], sys.argv[2], dg='forward', model='csa', resume=True, **named)\n",
        encoding="utf-8",
    )
    command = [sys.executable, str(script), "vulkan", str(tmp_path / "a.trk"), *map(str, head.series)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    ts.track(*head.series, tmp_path / "b.trk", dg="forward", model="csa", **few)
    assert (tmp_path / "a.trk").read_bytes() == (tmp_path / "b.trk").read_bytes()


def test_an_entry_point_adds_it_to_the_command_line(head, tmp_path):
    info = tmp_path / "own-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[tistreamlines]\nforward = own_getter\nbroken = there_is_no_such_module\n", encoding="utf-8"
    )
    path = os.pathsep.join([str(tmp_path), str(EXAMPLES), str(Path(ts.__file__).parents[1])])
    command = [sys.executable, "-m", "tistreamlines", "track"]

    def run(*arguments):
        return subprocess.run(
            [*command, *map(str, arguments)], cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
            env={**os.environ, "PYTHONPATH": path},
        )

    shown = run("--help-all")
    assert "--no-forward-weight" in shown.stdout
    assert "with --dg forward" in " ".join(shown.stdout.split())
    assert "Warning: the plugin broken (there_is_no_such_module) cannot be imported: No module" in shown.stderr
    done = run(*head.series, "-o", "a.trk", "--dg", "forward", "--model", "csa", "--nseeds", 100, "--arch", "cpu")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "a.json").read_text())["parameters"]["forward_weight"] is True


def installed(folder, points, **modules):
    """Install packages: one with these entry points, and one that is in order."""
    for name, text in (("other", points), ("own", b"[tistreamlines]\nforward = own_getter\n")):
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
        (info / "entry_points.txt").write_bytes(text)
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")


BAD = b"[tistreamlines]\nbad = bad\n"


@pytest.mark.parametrize(
    ("points", "module", "words"),
    [
        (BAD, "raise SystemExit(3)", "the plugin bad (bad) cannot be imported: 3"),
        (BAD, "raise BaseException('a\\nb')", "the plugin bad (bad) cannot be imported: a b"),
        (BAD, "def f(:", "the plugin bad (bad) cannot be imported: invalid syntax"),
        (BAD, "raise GeneratorExit", "the plugin bad (bad) cannot be imported: GeneratorExit"),
        (BAD, "import own_product\nfrom tistreamlines.tracking.registry import PRODUCTS, register\n"
         "register('a b', PRODUCTS['lengths'])", "the plugin bad (bad) cannot be imported: 'a b'"),
        (b"[tistreamlines]\nbad = !!\n", "", "the plugin bad (!!) cannot be imported"),
        (b"[tistreamlines]\nbad = bad:none\n", "", "the plugin bad (bad:none) cannot be imported"),
        (b"[tistreamlines]\nbad = \xff\n", "", "other-1.0.dist-info cannot be read"),
    ],
)
def test_a_plugin_that_cannot_be_imported(tmp_path, monkeypatch, points, module, words):
    """It is told of, and the rest works; ``test_an_entry_point_adds_it_to_the_command_line`` sees the line."""
    installed(tmp_path, points, bad=module)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("bad", "own_getter"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.delitem(METHODS, "forward")
    with pytest.warns(plugins.PluginWarning) as warned:
        plugins.import_installed()
    (text,) = (str(warning.message) for warning in warned)
    assert words in text
    assert "\n" not in text
    assert "forward" in METHODS


@pytest.mark.parametrize(
    ("method", "error"), [("add", "SystemExit(0)"), ("write", "ValueError('no')"), ("write", "KeyError('x')")]
)
def test_a_plugin_that_raises(tmp_path, method, error):
    """One line names it, and nothing half-written stays."""
    product = (EXAMPLES / "own_product.py").read_text(encoding="utf-8").split("def main(")[0]
    place = product.index(f"    def {method}(")
    body = product.index('"""', product.index('"""', place) + 3) + 3
    bad = product[:body] + f"\n        raise {error}\n" + product[body:]
    installed(tmp_path, b"[tistreamlines]\nbad = bad_product\n", bad_product=bad)
    (inputs := tmp_path / "inputs").mkdir()
    before = {path.name for path in tmp_path.iterdir()}
    words = [*words_of(write_inputs(inputs)), "-o", "a.trx", "--lengths", "a.csv", "--arch", "cpu", "-q"]
    path = os.pathsep.join([str(tmp_path), str(EXAMPLES), str(Path(ts.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-m", "tistreamlines", "track", *words], cwd=tmp_path, capture_output=True, text=True,
        timeout=240, check=False, env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == 1, done.stderr
    line = done.stderr.splitlines()[-1]
    assert line.startswith("Error: the plugin bad_product raised ")
    assert {path.name for path in tmp_path.iterdir()} - before <= {"__pycache__"}


def test_helping_processes_do_not_import_a_module_that_raises(tmp_path, monkeypatch):
    """Also where it has registered something before that."""
    installed(tmp_path, b"[tistreamlines]\nlate = late_plugin\n")
    note = "from tistreamlines import plugins\nplugins.note([__name__])\n"
    (tmp_path / "late_plugin.py").write_text(f"{note}raise MemoryError\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.warns(plugins.PluginWarning, match="late_plugin"):
        plugins.import_installed()
    assert "late_plugin" not in plugins.code_that_imports()
