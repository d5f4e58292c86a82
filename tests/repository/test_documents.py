"""What the documents say can be traced: figures to files of results, options and commands to the code."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import json
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType

import click
import pytest
from places import ROOT

import tistreamlines as ts
from tistreamlines.cli.main import COMMANDS, LIVE, cli
from tistreamlines.cli.options import explanation, options_of
from tistreamlines.option import bounds, flag
from tistreamlines.options.definitions import options
from tistreamlines.options.parameters import Parameters

PACKAGE = ROOT / "tistreamlines"
RESULTS = ROOT / "benchmarks" / "results"
PAGES = tuple(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))
CURRENT = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", *PAGES)  # which say what is so today
DOCUMENTS = (*CURRENT, "CHANGELOG.md")
FILE = re.compile(r"\b(?:suite|sweeps|h200|cpu|two-cores|parity|micro|frames|attack)-[a-z0-9*-]+\.json")
MEASURED = re.compile(r"\d (?:Mpoints/s|million points|[mnu]?s\b(?!/mm)|seconds\b|%|times\b|percent)|\b1e-\d")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")
PATH = re.compile(r"(?:[\w.*-]+/)+[\w.*-]*")
ELSEWHERE = ("K/N", "NAME", "~/", "../")  # numbers of a part, and files that are not those of the repository
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# options in the running text that belong to other programs, which the same paragraph names
OTHERS = {
    "tests.attack": {"--only", "--first", "--tries", "--jobs"}, "sbatch": {"--array"},
    "nakemake": {"--retries", "--cores", "--resources"}, "mkdocs": {"--strict"}, "uv": {"--resolution"},
    "pytest": {"--durations", "--collect-only", "--ignore"}, "mris_convert": {"--to-scanner"}, "Trekker": {"--seed"},
    "probtrackx2": {
        "--avoid", "--cthr", "--distthresh", "--distthresh1", "--distthresh3", "--fibthresh", "--fopd", "--loopcheck",
        "--lrtarget3", "--mask", "--modeuler", "--network", "--nsamples", "--nsteps", "--omatrix1", "--omatrix2",
        "--omatrix3", "--ompl", "--opd", "--os2t", "--pd", "--randfib", "--rseed", "--samples", "--sampvox", "--seed",
        "--s2tastext", "--seedref", "--steplength", "--stop", "--target2", "--target3", "--targetmasks", "--usef",
        "--waypoints", "--xfm",
    },
}


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """A document without blocks of code and without generated parts, whose source is the code."""
    return re.sub(r"^```.*?^```|<!-- generated: ([a-z-]+) -->.*?<!-- /generated: \1 -->", "", text, flags=re.M | re.S)


def sections(text: str) -> list[str]:
    """Headed parts of a document, without blocks of code and options, whose source is the code."""
    prose = re.sub(r"^```.*?^```|<!-- generated: [a-z]+-options -->.*?<!-- /generated", "", text, flags=re.M | re.S)
    return re.split(r"^(?=##)", prose, flags=re.M)


def generator() -> ModuleType:
    """The script that makes the generated parts."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ------------------------------------------------------------------------------------------------- figures and files
def test_files_of_results_that_are_named_are_there():
    named = [(name, pattern) for name in DOCUMENTS for pattern in FILE.findall(text(name))]
    assert not [(name, pattern) for name, pattern in named if not list(RESULTS.glob(pattern))]


def test_sections_with_measurements_name_their_source():
    parts = [(name, section) for name in DOCUMENTS for section in sections(text(name)) if MEASURED.search(section)]
    assert not [
        (name, section.splitlines()[0], MEASURED.search(section)) for name, section in parts
        if not FILE.search(section) and not re.search(r"tests/[\w/]*test_\w+\.py", section)
    ]


def test_source_files_that_are_named_are_there():
    assert not [(name, missing_files(text(name))) for name in CURRENT if missing_files(text(name))]


def missing_files(page: str) -> list[str]:
    """Files and folders with a slash between backticks that are neither in the repository nor in the package."""
    words = [word for span in SPAN.findall(prose(page)) for word in span.split() if PATH.fullmatch(word)]
    return [
        word for word in words
        if not any(part in word for part in ELSEWHERE) and not any(any(top.glob(word)) for top in (ROOT, PACKAGE))
    ]


def test_a_file_that_is_missing_is_found():
    page = "`benchmarks/no.py`, `docs/`, `tracking/engine/engine.py`, `python docs/nowhere.py`\n```\n`a/b.py`\n```\n"
    assert missing_files(page) == ["benchmarks/no.py", "docs/nowhere.py"]


def known_options() -> set[str]:
    """Options of all commands."""
    context = click.Context(cli)
    parameters = [option for name in COMMANDS for option in cli.get_command(context, name).get_params(context)]
    return {name for option in parameters for name in (*option.opts, *option.secondary_opts)} | {LIVE}


def unknown_options(page: str, known: set[str]) -> list[str]:
    """Options in the running text that no command has, nor a program that the same paragraph names."""
    return [
        option
        for paragraph in re.split(r"\n\s*\n", prose(page))
        for option in OPTION.findall(" ".join(SPAN.findall(paragraph)))
        if option not in known.union(*(options for program, options in OTHERS.items() if program in paragraph))
    ]


def test_options_in_the_running_text_exist():
    """Those of another program stand in a paragraph that names it."""
    known = known_options()
    assert not [(name, unknown_options(text(name), known)) for name in DOCUMENTS if unknown_options(text(name), known)]


def test_an_option_that_does_not_exist_is_found():
    page = "Give `--dg prob` or `--no-such-thing`.\n\nUse `sbatch --array=1`.\n\nUse `--array`.\n```\nx --y\n```\n"
    assert unknown_options(page, known_options()) == ["--no-such-thing", "--array"]


def test_every_page_is_linked_from_the_first_one_and_in_the_navigation():
    pages = {str(Path(page).relative_to("docs")) for page in PAGES} - {"index.md"}
    linked = set(re.findall(r"\]\(([a-z/-]+\.md)\)", text("docs/index.md")))
    listed = re.findall(r"^ +- .+: ([a-z/-]+\.md)$", text("mkdocs.yml"), re.MULTILINE)
    assert len(pages) > 20
    assert pages == linked
    assert sorted([*pages, "index.md"]) == sorted(listed)


def anchors(page: str) -> set[str]:
    """Anchors of a page: of its headings, as GitHub and MkDocs make them, and those that are written out."""
    heads = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", head).lower() for head in heads)
    links = (re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip()) for head in plain)
    # mkdocstrings has an anchor for each object that it shows
    return {*links, *re.findall(r'<a id="([^"]+)"', page), *re.findall(r"^::: (\S+)$", page, re.MULTILINE)}


def broken_links(name: str, page: str) -> list[str]:
    """Links of a page to files or headings that are not there."""
    broken = []
    for link, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", re.sub(BLOCK, "", page)):
        target = (ROOT / name).parent / link
        there = target.exists()
        if there and anchor:
            there = anchor in anchors(target.read_text(encoding="utf-8") if link else page)
        if not there:
            broken.append(f"{link}#{anchor}" if anchor else link)
    return broken


def test_links_lead_to_files_and_headings_that_are_there():
    broken = {name: links for name in DOCUMENTS if (links := broken_links(name, text(name)))}
    assert not broken


def test_a_broken_link_is_noticed():
    links = "[a](docs/no.md) [b](docs/speed.md#no) [c](#no) [d](docs/speed.md#whole-commands) [e](#a-head-code)"
    page = f"# A head, `code`\n{links}"
    assert broken_links("README.md", page) == ["docs/no.md", "docs/speed.md#no", "#no"]


def test_the_lowest_python_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lowest = project["requires-python"].removeprefix(">=")
    assert re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))[0] == lowest
    for page in ("README.md", "docs/getting-started.md"):
        assert f"You need Python {lowest} to " in (ROOT / page).read_text(encoding="utf-8"), page


def test_results_have_their_commands():
    paths = sorted(RESULTS.glob("*.json"))
    assert len(paths) > 100
    for path in paths:
        content = path.read_text()
        results = json.loads(content)
        for record in results if isinstance(results, list) else [results]:
            commands = record.get("commands") or [record["command"]]
            assert any(re.search(r"tistreamlines |python |pytest ", command) for command in commands), path.name
        assert not re.search(r"/(?:home|root|tmp|work)/", content), path.name


def test_shares_of_short_streamlines_are_those_of_the_results():
    runs = json.loads((RESULTS / "cpu-two-cores-lengths.json").read_text(encoding="utf-8"))["runs"]
    shares = {run["dg"]: run["percent_under_10_mm"] for run in runs if run["data"] == "sherbrooke_1p8mm"}
    page = " ".join(text("docs/measurements.md").split())
    assert f"{shares['boot']:.0f} % of the streamlines of `boot`, " in page
    for dg in ("prob", "det", "ptt"):
        assert f"{shares[dg]:.0f} % of `{dg}`" in page


def test_a_measurement_without_a_source_is_found():
    assert MEASURED.search("It does 27 Mpoints/s in chunks")
    assert MEASURED.search("a wait takes 0.57 ms there")
    assert not MEASURED.search("8 of 3 kB, in 40 lines, 5.5 degrees, b=50 s/mm2")
    assert len(sections("# a\n\n## b\n```\n## not this\n```\n### c\n")) == 3


# --------------------------------------------------------------------------------------------------- generated parts
def test_generated_parts_are_up_to_date():
    script, parts = generator(), []
    for path in script.documents():
        page = path.read_text(encoding="utf-8")
        assert script.renewed(page) == page, f"{path.name}: run python docs/generate.py"
        parts += re.findall("<!-- generated: ([a-z-]+) -->", page)
    assert sorted(parts) == sorted(script.PARTS)


def test_a_part_that_is_out_of_date_is_found():
    old = "before\n<!-- generated: references -->\n\n- nobody\n\n<!-- /generated: references -->\nafter\n"
    new = generator().renewed(old)
    assert "nobody" not in new
    assert "Garyfallidis" in new
    assert new.startswith("before\n")
    assert new.endswith("-->\nafter\n")


def test_every_option_is_on_the_options_page_with_its_unit_and_default():
    rows = dict(re.findall(r"^\| `(--[a-z0-9-]+)` \| (.*) \|$", text("docs/options.md"), re.MULTILINE))
    for name, option in options().items():
        row = rows[flag(name)].replace("\\|", "|")
        assert option.unit in row
        assert all(f"`{word}`" in row for word in option.choices)
        assert explanation(name, option).rpartition("default: ")[2].rstrip("]") in re.sub(r"[\\`]", "", row)
        if bounds(option) != "a number":
            assert bounds(option).removeprefix("a number ") in row


# ----------------------------------------------------------------------------------------------- commands and scripts
def commands(page: str) -> list[list[str]]:
    """Arguments of each ``tistreamlines`` command in the blocks of code and in the running text."""
    scripts = [body.replace("\\\n", " ") for language, body in BLOCK.findall(page) if language in ("", "bash")]
    lines = [line for script in scripts for line in script.splitlines()]
    lines += re.findall(r"`(tistreamlines [^`]+)`", re.sub(BLOCK, "", page))
    parts = [part.strip() for line in lines for part in re.split(r"&&|;", line)]
    return [shlex.split(part)[1:] for part in parts if part.startswith("tistreamlines ")]


def check(arguments: list[str]) -> None:
    """Parse a command without running it, and check that its options go together."""
    name, *rest = arguments
    if LIVE in rest:
        name, rest = f"{name} {LIVE}", [word for word in rest if word != LIVE]
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    # a command named in the running text stands for itself, without the arguments that it needs
    with command.make_context(name, rest, resilient_parsing=not rest) as context:
        chosen = options_of(context)
        if name == "batch" and rest:
            check(list(context.params["command"]))
        if name == "track":
            Parameters.given(chosen)
            without = context.params["citations"] or context.params["dry_run"]
            assert without or not rest or context.params["output"], arguments


def test_commands_have_options_that_exist_and_go_together():
    failures = []
    for name in CURRENT:
        for arguments in (arguments for arguments in commands(text(name)) if "--help" not in arguments):
            try:
                check(arguments)
            except (click.UsageError, ValueError, AssertionError) as error:
                failures.append((name, arguments, error))
    assert not failures


def test_commands_of_the_workflows_have_options_that_exist():
    runs = "".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yml"))
    commands = [shlex.split(line) for line in re.findall(r"run: tistreamlines (.*)", runs)]
    assert ["verify", "--arch", "metal", "--arch", "cpu"] in [arguments[:5] for arguments in commands]
    for arguments in commands:
        check(arguments)


def test_most_guides_have_commands():
    assert sum(bool(commands(text(name))) for name in PAGES) > 8
    assert len(commands(text("docs/guides/dwi.md"))) > 4


def test_a_wrong_command_is_found():
    for wrong in ("track --no-such-option", "track --dg prob --angular-weight 1 -o a.trx", "track --sh a.nii -o a.trx"):
        (arguments,) = commands(f"```\ntistreamlines {wrong}\n```\n")
        with pytest.raises((click.UsageError, ValueError)):
            check(arguments)


def calls(source: str) -> list[tuple[str, ast.Call]]:
    """Calls of ``ts.track`` and ``ts.stream`` in a script, with the function's name."""
    called = [(ast.unparse(node.func), node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [(name.removeprefix("ts."), node) for name, node in called if name in ("ts.track", "ts.stream")]


def test_python_blocks_and_examples_have_keywords_that_exist():
    blocks = [(name, body) for name in ("README.md", *PAGES) for language, body in BLOCK.findall(text(name))
              if language == "python"]
    files = (path for path in (ROOT / "examples").glob("*.py") if not path.name.startswith("own_"))  # with new options
    blocks += [(path.name, path.read_text(encoding="utf-8")) for path in files]
    scripts = [(name, function, call) for name, body in blocks for function, call in calls(body)]
    assert len(scripts) > 20
    for name, function, call in scripts:
        known = inspect.signature(getattr(ts, function)).parameters
        assert {keyword.arg for keyword in call.keywords} - {None} <= {*known}, name


def test_scripts_that_track_are_found():
    functions = calls("import tistreamlines as ts\nfor batch in ts.stream(nseeds=1):\n    ts.track(no_such_option=1)\n")
    assert sorted(name for name, _ in functions) == ["stream", "track"]
    assert "no_such_option" not in inspect.signature(ts.track).parameters
    blocks = [body for language, body in BLOCK.findall(text("docs/guides/dipy.md")) if language == "python"]
    assert sum(len(calls(body)) for body in blocks) == 3
