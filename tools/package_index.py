"""The files of a package index, with their SHA-256, and what each version needs; for ``tools/lock.py``."""

from __future__ import annotations

import hashlib
import io
import json
import urllib.request
import zipfile
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from packaging.metadata import parse_email
from packaging.specifiers import SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

OLD = {f"cp{number}" for number in (27, *range(30, 40), 310)}  # interpreters that the package does not run on


@dataclass(frozen=True)
class File:
    """A file of a release: its name, its address (empty: not on the index) and its SHA-256."""

    name: str
    address: str
    sha256: str

    @property
    def version(self) -> Version | None:
        """The version in the file's name; None where pip could not read it either."""
        try:
            if self.name.endswith(".whl"):
                return parse_wheel_filename(self.name)[1]
            return parse_sdist_filename(self.name)[1]
        except ValueError:
            return None

    @property
    def is_wanted(self) -> bool:
        """Whether pip on Linux or macOS, with a supported Python, may choose the file."""
        try:
            tags = parse_wheel_filename(self.name)[3]
        except InvalidWheelFilename:
            return True
        return any(
            tag.platform.startswith(("any", "manylinux", "linux", "macosx"))
            and (tag.abi == "abi3" or tag.interpreter not in OLD)
            and tag.interpreter.startswith(("py3", "cp3"))
            for tag in tags
        )


class Links(HTMLParser):
    """The links of an index page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value for key, value in attrs if tag == "a" and key == "href" and value]


class Index:
    """The files of a package index, and of a folder of wheels."""

    def __init__(self, address: str, wheels: Path | None) -> None:
        self.address, self.wheels = address.rstrip("/"), wheels

    def read(self, address: str) -> bytes:
        wanted = "application/vnd.pypi.simple.v1+json, text/html;q=0.1, */*;q=0.01"
        request = urllib.request.Request(address, headers={"Accept": wanted})
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: bytes = answer.read()
        return found

    @cache  # noqa: B019 (one index per run of the tool)
    def files(self, name: str) -> tuple[File, ...]:
        """All files of a package."""
        page = f"{self.address}/{canonicalize_name(name)}/"
        data = self.read(page).decode()
        if data.startswith("{"):
            listed = [(urljoin(page, one["url"]), one["hashes"].get("sha256", "")) for one in json.loads(data)["files"]]
        else:
            found = [(urljoin(page, link), urlsplit(link).fragment) for link in Links(data).addresses]
            listed = [(link.partition("#")[0], sha.removeprefix("sha256=")) for link, sha in found if "sha256=" in sha]
        files = [File(unquote(link.rpartition("/")[2]), link, sha256) for link, sha256 in listed]
        for path in sorted(self.wheels.glob("*.whl")) if self.wheels is not None else ():
            if canonicalize_name(parse_wheel_filename(path.name)[0]) == canonicalize_name(name):
                files.append(File(path.name, "", hashlib.sha256(path.read_bytes()).hexdigest()))
        return tuple(files)

    def of_version(self, name: str, version: Version) -> list[File]:
        return [file for file in self.files(name) if file.version == version]

    def newest(self, name: str, allowed: SpecifierSet) -> Version:
        versions = {file.version for file in self.files(name) if file.version is not None and file.is_wanted}
        return max(allowed.filter(versions))

    @cache  # noqa: B019
    def requires(self, name: str, version: Version) -> tuple[str, ...]:
        """What a version needs, from the metadata of a wheel, one for Linux where there are several."""
        files = [file for file in self.of_version(name, version) if file.name.endswith(".whl") and file.address]
        for file in sorted(files, key=lambda file: "manylinux" not in file.name)[:1]:
            try:
                data = self.read(file.address + ".metadata")
            except OSError:  # this index does not serve metadata alone
                with zipfile.ZipFile(io.BytesIO(self.read(file.address))) as wheel:
                    data = wheel.read(next(one for one in wheel.namelist() if one.endswith(".dist-info/METADATA")))
            return tuple(parse_email(data)[0].get("requires_dist", []))
        raise SystemExit(f"{name} {version}: the index has no wheel of it; choose another version")
