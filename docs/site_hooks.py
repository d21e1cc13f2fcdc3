"""What `make docs` adds to the pages that lie in docs/: pages that are built, and two checks.

Pages of measurements are made from benchmarks/results/, so that git keeps no copy of a table. Links
that leave docs/ name files of the repository, which is no part of the site: they become the path.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# Without NONE, TVM looks for schedule tables on the network.
os.environ.setdefault("TOPHUB_LOCATION", "NONE")

LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>(?:\.\./)+[^)#\s]+)[^)]*\)")
ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):(?=<code>)")
FETCHED = re.compile(
    r"""<(?:script|img|iframe)\b[^>]*\bsrc=["']?https?:|<link\b[^>]*\brel=["']?stylesheet[^>]*"""
    r"""\bhref=["']?https?:|url\(["']?https?:|@import\s+["']https?:""",
    re.IGNORECASE,
)


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from results, and the changelog."""
    # The scripts of this folder are no package. MkDocs takes back what a hook adds when it loads.
    sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT)]
    from measured_runs import RESULTS, TEMPLATES, newest_run, read_run
    from results_page import markdown, page
    from template_page import page_of

    folder = newest_run()
    templates = max(RESULTS.glob(f"*/*/{TEMPLATES}"), default=None)
    if folder is None or templates is None:
        raise PluginError(f"{RESULTS}: no results; run `make bench` first")
    run = read_run(folder)
    made = {
        "results/full_run.md": markdown(run),
        "results/results.html": page(run),
        "results/templates.md": page_of(templates),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    }
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Write links out of docs/ as the path of the file in the repository."""
    docs = Path(config["docs_dir"])
    here = docs / Path(page.file.src_uri).parent

    def named(link: re.Match[str]) -> str:
        target = (here / link["target"]).resolve()
        if target.is_relative_to(docs) or not target.is_relative_to(ROOT):
            return link[0]
        return f"{link['text']} (`{target.relative_to(ROOT).as_posix()}`)"

    return LINK.sub(named, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Leave out Sphinx's roles, which docstrings write before the names that they mean."""
    return ROLE.sub("", html)


def on_post_build(config: Any) -> None:
    """Refuse a site that loads anything from another machine."""
    site = Path(config["site_dir"])
    pages = [path for path in site.rglob("*") if path.suffix in (".html", ".css")]
    remote = [
        f"{path.relative_to(site)}: {found[0][:120]}"
        for path in pages
        if (found := FETCHED.search(path.read_text(encoding="utf-8")))
    ]
    if remote:
        raise PluginError(f"the site must work offline, and loads {remote}")
