"""The examples run as they are, without arguments, and print their results.

All but a short one nightly, since each is a process that fits and tracks; `test_documents.py` checks their keywords.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from places import ROOT

import tistreamlines
from tistreamlines.cli.main import cli

EXAMPLES = ROOT / "examples"
PACKAGES = str(Path(tistreamlines.__file__).parent.parent)


def example(name, *arguments, folder):
    """Run an example in an empty folder; return what it printed."""
    path = os.pathsep.join(filter(None, [PACKAGES, os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=240, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_has_a_test():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "bootstrap.py", "probabilistic.py", "deterministic.py", "ptt.py", "drop_in.py", "beside_dipy.py",
        "dipy_drop_in.py", "own_getter.py", "own_rule.py", "own_product.py",
        "nipype_node.py", "live_client.py",
    }


@pytest.mark.nightly
def test_live_client(tmp_path, head):
    pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    words = ["view", "--live", *head.series, "--mask", head.mask, "--arch", "cpu", "--no-browser", "-q"]
    command = [sys.executable, "-m", "tistreamlines", *words]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        shown = example("live_client.py", server.stdout.readline().strip(), 4, -6, 2, folder=tmp_path)
        assert server.wait(60) == 0, "it ends with its last client"
    assert len(re.findall(r"\d+ streamlines in", shown)) == 10
    assert shown.splitlines()[-1].startswith("tistreamlines track ")


@pytest.mark.nightly
def test_bootstrap(tmp_path):
    shown = example("bootstrap.py", folder=tmp_path)
    assert int(re.match(r"(\d+) streamlines of \d+ mm", shown)[1]) > 1000
    assert int(re.search(r"longest has (\d+) points", shown)[1]) > 40
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_bootstrap_on_files(tmp_path, head):
    example("bootstrap.py", *head.series, "brain.tck", folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"brain.tck", "brain.json"}


@pytest.mark.nightly
def test_probabilistic(tmp_path):
    shown = example("probabilistic.py", folder=tmp_path)
    assert int(re.match(r"(\d+) streamlines of \d+ mm", shown)[1]) > 1000
    assert 0.5 < float(re.search(r"lie ([\d.]+) mm apart", shown)[1]) < 50
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_deterministic(tmp_path):
    shown = example("deterministic.py", folder=tmp_path)
    assert int(re.match(r"(\d+) streamlines of \d+ mm", shown)[1]) > 1000
    assert int(re.search(r"longest has (\d+) points", shown)[1]) > 40
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_ptt(tmp_path):
    shown = example("ptt.py", folder=tmp_path)
    assert int(re.match(r"(\d+) streamlines of \d+ mm", shown)[1]) > 1000
    short, long = (float(turn) for turn in re.findall(r"turns by ([\d.]+) degrees", shown))
    assert 0 < long < short < 20
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_beside_dipy(tmp_path):
    """Both give nearly the same streamlines."""
    shown = example("beside_dipy.py", folder=tmp_path)
    lines = re.findall(r"with_\w+: (\d+) streamlines of (\d+) mm", shown)
    (their_count, their_mm), (our_count, our_mm) = [(int(count), int(mm)) for count, mm in lines]
    assert our_count == pytest.approx(their_count, rel=0.05)
    assert our_mm == pytest.approx(their_mm, rel=0.1)
    assert not list(tmp_path.iterdir())


def test_beside_dipy_takes_no_more_lines_of_code():
    lines = lines_of_code(EXAMPLES / "beside_dipy.py")
    assert 0 < lines["with_tistreamlines"] <= lines["with_dipy"]


def lines_of_code(path):
    """Lines of each function, and of the imports that it alone needs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    used = {
        name: {leaf.id for leaf in ast.walk(node) if isinstance(leaf, ast.Name)} for name, node in functions.items()
    }
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return {
        name: node.end_lineno - node.lineno + 1
        + sum(bool({alias.asname or alias.name for alias in line.names} & used[name]) for line in imports)
        for name, node in functions.items()
    }


@pytest.mark.nightly
def test_drop_in(tmp_path):
    shown = example("drop_in.py", folder=tmp_path)
    assert int(re.match(r"(\d+) streamlines from \d+ seeds", shown)[1]) > 300
    for name in ("seeds", "seed_number", "direction_number", "stop_reasons"):
        assert name in shown
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_dipy_drop_in(tmp_path):
    shown = example("dipy_drop_in.py", folder=tmp_path)
    count, mm, seeds = map(int, re.match(r"(\d+) streamlines of (\d+) mm on average from (\d+) seeds", shown).groups())
    assert 0.9 * seeds < count <= seeds
    assert mm > 30
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_dipy_drop_in_on_files(tmp_path, head):
    example("dipy_drop_in.py", *head.series, "brain.trk", folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["brain.trk"]


@pytest.mark.nightly
def test_own_getter(tmp_path):
    shown = example("own_getter.py", folder=tmp_path)
    assert all(int(count) > 1000 for count in re.findall(r"weighted: (\d+) streamlines of \d+ mm", shown))
    assert shown.count("weighted") == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_own_rule(tmp_path):
    """The band ends more streamlines, the narrower it is."""
    shown = example("own_rule.py", folder=tmp_path)
    wide, narrow = map(float, re.findall(r"of (\d+) mm", shown))
    assert narrow < 0.7 * wide
    assert not list(tmp_path.iterdir())


def test_own_product(tmp_path):
    """All streamlines are in the table."""
    shown = example("own_product.py", folder=tmp_path)
    count, *rows = map(int, re.findall(r"(?:^|mm: )(\d+)", shown))
    assert count == sum(rows) > 1000
    assert not list(tmp_path.iterdir())


def test_they_say_what_they_are():
    assert not [path for path in EXAMPLES.glob("*.py") if not path.read_text(encoding="utf-8").startswith('"""')]


def test_nipype_node(tmp_path, head):
    """The node runs the command, and finds its outputs."""
    pytest.importorskip("nipype", reason="needs nipype")
    inputs = dict(zip(("dwi", "bvals", "bvecs"), map(str, head.series), strict=True))
    inputs |= {"mask": str(head.mask), "dg": "det", "nseeds": 50, "arch": "cpu", "density": "map.nii.gz"}
    code = f"from nipype_node import Track; print(Track(**{inputs}).run().outputs)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(EXAMPLES), PACKAGES])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                          check=False, env=environment)
    assert done.returncode == 0, done.stderr
    for name, file in {"out_file": "tractogram.trx", "record": "tractogram.json", "density": "map.nii.gz"}.items():
        assert f"{name} = {tmp_path / file}" in done.stdout
        assert (tmp_path / file).exists()


def test_options_of_the_nodes_exist():
    """Those of Nipype's node and nf-neuro's module are options of track, and the module describes its own."""
    track = cli.get_command(click.Context(cli), "track")
    options = track.get_params(click.Context(track))
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    module = EXAMPLES / "nf-neuro" / "tracking" / "tistreamlines"
    process = (module / "main.nf").read_text(encoding="utf-8")
    for text in (process, (EXAMPLES / "nipype_node.py").read_text(encoding="utf-8")):
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)) - {"--version", "--help"}
        assert len(named) > 8
        assert named <= known
    described = (module / "meta.yml").read_text(encoding="utf-8").partition("\nargs:\n")[2]
    options = set(re.findall(r"task\.ext\.(\w+)", process)) - {"when", "prefix", "container"}
    assert options == set(re.findall(r"^  - (\w+):$", described, re.MULTILINE))
