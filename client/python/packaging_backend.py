"""PEP 517 build backend that uses only the standard library, so that installing needs nothing from a registry.

The package is plain Python. Its wheel is a zip of the sources with three metadata files.
"""

from __future__ import annotations

import base64
import hashlib
import pathlib
import tarfile
import tomllib
import zipfile
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Write the wheel and return its name. pip calls this."""
    project = _project()
    about = f"{project['name']}-{project['version']}.dist-info"
    name = f"{project['name']}-{project['version']}-py3-none-any.whl"
    files = {str(path.relative_to(HERE)): path.read_bytes() for path in _sources()}
    files[f"{about}/METADATA"] = _metadata(project).encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: stagedoor\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},sha256={_digest(data)},{len(data)}\n" for path, data in files.items())
    files[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n".encode()
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            # A fixed time makes the wheel reproducible.
            wheel.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
    return name


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Write a source archive and return its name. Build tools call this before publishing."""
    project = _project()
    top = f"{project['name']}-{project['version']}"
    about = pathlib.Path(sdist_directory) / "PKG-INFO"
    about.write_text(_metadata(project))
    beside = [HERE / name for name in ("pyproject.toml", "README.md", "LICENSE", "packaging_backend.py")]
    with tarfile.open(pathlib.Path(sdist_directory) / f"{top}.tar.gz", "w:gz") as archive:
        for path in [*_sources(), *beside]:
            archive.add(path, f"{top}/{path.relative_to(HERE)}")
        archive.add(about, f"{top}/PKG-INFO")
    about.unlink()
    return f"{top}.tar.gz"


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    return project


def _sources() -> list[pathlib.Path]:
    package = HERE / "stagedoor"
    return sorted([*package.rglob("*.py"), package / "py.typed"])


def _metadata(project: dict[str, Any]) -> str:
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        *(f"Classifier: {one}" for one in project["classifiers"]),
        "Description-Content-Type: text/markdown",
    ]
    return "\n".join(lines) + "\n\n" + (HERE / "README.md").read_text()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
