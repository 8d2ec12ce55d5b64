"""Build the docs site: collect the pages in build/site, run zensical, check every link of the result.

    python tools/build_site.py             what `make site` calls; the site is in site/

Pages of docs/ link to files beside docs/ (results, README, …). These files are copied along, and links are rewritten.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from api_reference import reference_pages
from docparts.formatting import ROOT

PAGES, SITE = ROOT / "build" / "site", ROOT / "site"
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE")


def collect(folder: Path) -> None:
    """Everything that the site is made of, with links that hold there."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    shutil.copytree(ROOT / "results", folder / "results")
    for page in folder.glob("*.md"):
        page.write_text(page.read_text(encoding="utf-8").replace("](../", "]("), encoding="utf-8")
    for name in BESIDE:
        shutil.copyfile(ROOT / name, folder / name)
    for name, target in (("README.md", "index.md"), *((name, name) for name in BESIDE if name.endswith(".md"))):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](").replace("](README.md", "](index.md")
        (folder / target).write_text(text, encoding="utf-8")
    (folder / "api").mkdir()
    for name, text in reference_pages().items():
        (folder / "api" / name).write_text(text, encoding="utf-8")


class Links(HTMLParser):
    """Anchors of a page, its links, and what a browser loads to show it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {key: value or "" for key, value in attrs}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        if tag == "a" and "href" in values:
            self.targets.append(values["href"])
        elif tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(values.get("href", ""))
        elif "src" in values:
            self.loaded.append(values["src"])


def problems(site: Path) -> list[str]:
    """Links of a built site that lead nowhere, and everything that would be loaded from the internet."""
    pages = {path: Links(path) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, links in pages.items():
        if path.name == "404.html":  # served from any depth; its links start at the root of the site
            continue
        name = path.relative_to(site)
        found += [f"{name}: loads {url}" for url in links.loaded if urlsplit(url).netloc]
        for url in [*links.targets, *links.loaded]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                found.append(f"{name}: {url} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name}: {url} has no such heading")
    for path in sorted(site.rglob("*.css")):
        urls = re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: loads {url}" for url in urls]
    return found


def main() -> int:
    collect(PAGES)
    shutil.rmtree(SITE, ignore_errors=True)
    done = subprocess.run([Path(sys.executable).with_name("zensical"), "build", "--clean"], cwd=ROOT, check=False)
    if done.returncode:
        return done.returncode
    wrong = problems(SITE)
    print(*wrong, f"{SITE.name}/: {len(list(SITE.rglob('*.html')))} pages, {len(wrong)} problems", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
