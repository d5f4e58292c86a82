"""The documentation site is built without warnings, and its pages load nothing from the network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from places import ROOT

EXTERNAL = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
LOADING = {"link": "href"} | dict.fromkeys(("script", "img", "iframe", "source", "video", "audio"), "src")


class Loaded(HTMLParser):
    """Collects what a page loads, links that a reader follows aside."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.addresses += [values[name] or "" for name in (LOADING.get(tag), "srcset") if name in values]


def external(page: str) -> list[str]:
    """Addresses of other hosts that a page loads."""
    return [address for address in Loaded(page).addresses if EXTERNAL.match(address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    pytest.importorskip("material", reason='MkDocs is not installed: pip install ".[docs]"')
    pytest.importorskip("mkdocstrings", reason='mkdocstrings is not installed: pip install ".[docs]"')
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_load_nothing_from_the_network(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    for path in pages:
        assert not external(path.read_text(encoding="utf-8")), path.name


def test_styles_load_nothing_from_the_network(site):
    for path in site.rglob("*.css"):
        style = path.read_text(encoding="utf-8")
        addresses = re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""", style)
        assert not [address for address in addresses if EXTERNAL.match(address)], path.name


def test_the_reference_has_the_public_names(site):
    import tistreamlines

    page = (site / "python" / "index.html").read_text(encoding="utf-8")
    for name in tistreamlines.__all__:
        assert f'id="tistreamlines.{name}"' in page


def test_sources_of_generated_parts_are_not_published(site):
    assert not list(site.rglob("*.py"))


def test_an_external_address_is_found():
    assert external('<script src="https://example.org/a.js"></script><link href=//example.org/a.css rel=stylesheet>')
    assert not external('<a href="https://example.org">a link</a><img src="images/demo.png"><script src=a.js></script>')
