#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Makes what users install from what `make install` installs: a Debian package, an archive for any
other Linux, an image for containers, and their checksums and that of the wheel, in
`target/packages`.

The same commit gives the same bytes: times are the commit's, owners are root, names are in order.
With `CROSS`, Rust's name of another machine, they are for that one, in another folder; its programs
run here on an emulated processor.
"""

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
import cache
import reference
from debian import Apt, check_tools, unpack

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CROSS = os.environ.get("CROSS", "")
MACHINE = CROSS.split("-")[0] or os.uname().machine
# Cargo's profile with which all is built.
PROFILE = os.environ.get("PROFILE", "release")
# As Debian and images of containers call it.
ARCHITECTURE = {"aarch64": "arm64", "x86_64": "amd64"}[MACHINE]
# Folder of Debian's cross compiler below /usr, and the beginning of its tools' names.
SYSTEM = CROSS.replace("-unknown", "")
TOOLCHAIN = f"{SYSTEM}-" if CROSS else ""
PACKAGES = TARGET / (f"packages-{ARCHITECTURE}" if CROSS else "packages")
DESCRIPTION = """Description: moves data between host, FPGA and remote memory over PCIe and RDMA
 The program, its C and C++ library, and services that give cards to programs
 and to other nodes. The same driver and benchmarks run on cards and in a
 simulator, whose systems are described in text files.
"""
# Debian's packages that the program of the image needs.
IMAGE_PACKAGES = ("libc6", "libgcc-s1")
COMPLETIONS = {
    "bash": "share/bash-completion/completions/crosslane",
    "zsh": "share/zsh/vendor-completions/_crosslane",
    "fish": "share/fish/vendor_completions.d/crosslane.fish",
}


def run(*command: str | Path, **options) -> str:
    """Output of a command."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def emulated(root: Path) -> tuple[str, ...]:
    """The emulator's command, with the root that has libraries; empty on the same machine."""
    return (f"qemu-{MACHINE}", "-L", str(root)) if CROSS else ()


def packed(content: bytes) -> bytes:
    """Content compressed with gzip, always to the same bytes."""
    return gzip.compress(content, 6, mtime=0)


def version() -> str:
    """The workspace's version."""
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def commit_time() -> int:
    """The time of the commit, s: that of every file."""
    return int(run("git", "log", "-1", "--format=%ct", cwd=ROOT))


def staged(into: Path) -> Path:
    """A tree with all that is installed below `usr`, its library in `usr/lib`."""
    shutil.rmtree(into, ignore_errors=True)
    make = [os.environ.get("MAKE", "make"), "--no-print-directory", "install"]
    run(*make, f"DESTDIR={into}", "PREFIX=/usr", cwd=ROOT)
    usr = into / "usr"
    program = usr / "bin" / "crosslane"
    run(f"{TOOLCHAIN}strip", program)
    run(f"{TOOLCHAIN}strip", "--strip-debug", usr / "lib/libcrosslane.a")
    started = (*emulated(Path("/usr", SYSTEM)), program)
    for shell, path in COMPLETIONS.items():
        (usr / path).parent.mkdir(parents=True, exist_ok=True)
        (usr / path).write_text(run(*started, "completions", shell))
    pages = usr / "share/man/man1"
    pages.mkdir(parents=True, exist_ok=True)
    run(*started, "manual", pages)
    functions = usr / "share/man/man3"
    functions.mkdir()
    header = (usr / "include/crosslane.h").read_text()
    for name, text in reference.man_pages(header, version()).items():
        (functions / f"{name}.3").write_text(text)
    for page in sorted([*pages.iterdir(), *functions.iterdir()]):
        page.with_name(page.name + ".gz").write_bytes(packed(page.read_bytes()))
        page.unlink()
    about = usr / "share/doc/crosslane"
    about.mkdir(parents=True, exist_ok=True)
    for name in ("README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"):
        shutil.copy(ROOT / name, about / name)
    # Manual pages and errors name pages of docs, and those name examples.
    not_read = shutil.ignore_patterns("book.*", "__pycache__", ".*")
    for name in ("docs", "examples/c", "examples/python"):
        shutil.copytree(ROOT / name, about / name, ignore=not_read)
    return into


def with_libraries_in(folder: str, tree: Path, into: Path) -> Path:
    """A copy of a tree, its library in a folder below `usr/lib`."""
    shutil.copytree(tree, into, symlinks=True)
    libraries = into / "usr/lib"
    libraries.rename(into / "usr/libraries")
    libraries.mkdir()
    (into / "usr/libraries").rename(libraries / folder)
    config = libraries / folder / "pkgconfig/crosslane.pc"
    config.write_text(config.read_text().replace("=/usr/lib\n", f"=/usr/lib/{folder}\n"))
    return into


def needs(tree: Path) -> str:
    """The packages that the programs and libraries of a tree need, with the oldest C library."""
    versions = set()
    for path in [*tree.glob("usr/bin/*"), *tree.glob("usr/lib/**/*.so.*")]:
        if not path.is_symlink():
            found = re.findall(r"GLIBC_(\d+)\.(\d+)", run(f"{TOOLCHAIN}objdump", "-T", path))
            versions |= {(int(major), int(minor)) for major, minor in found}
    major, minor = max(versions)
    return f"libc6 (>= {major}.{minor}), libgcc-s1, passwd"


def set_times(tree: Path, seconds: int) -> None:
    """Gives every file of a tree the same time."""
    for path in [tree, *tree.rglob("*")]:
        os.utime(path, (seconds, seconds), follow_symlinks=False)


def debian_package(tree: Path, into: Path) -> Path:
    """A Debian package of a tree, to which the services and udev's rules are added."""
    for folder, name in (("systemd", "lib/systemd/system"), ("udev", "lib/udev/rules.d")):
        (tree / name).mkdir(parents=True)
        for source in sorted((HERE / folder).iterdir()):
            text = source.read_text().replace("/usr/local/bin/", "/usr/bin/")
            (tree / name / source.name).write_text(text)
    about = tree / "usr/share/doc/crosslane"
    licences = "On Debian systems the Apache License 2.0 is /usr/share/common-licenses/Apache-2.0."
    mit = (about / "LICENSE-MIT").read_text()
    (about / "copyright").write_text(f"Apache-2.0 OR MIT\n\n{licences}\n\n{mit}")
    (about / "LICENSE-APACHE").unlink()
    (about / "LICENSE-MIT").unlink()
    kib = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024
    control = tree / "DEBIAN"
    control.mkdir()
    fields = {
        "Package": "crosslane",
        "Version": version(),
        "Architecture": ARCHITECTURE,
        "Maintainer": "The Crosslane developers <crosslane@localhost>",
        "Section": "science",
        "Priority": "optional",
        "Installed-Size": str(kib),
        "Depends": needs(tree),
        "Suggests": "libfabric1",
    }
    lines = "".join(f"{key}: {value}\n" for key, value in fields.items())
    (control / "control").write_text(lines + DESCRIPTION)
    for name in ("postinst", "postrm"):
        shutil.copy(HERE / "debian" / name, control / name)
        (control / name).chmod(0o755)
    set_times(tree, commit_time())
    package = into / f"crosslane_{version()}_{ARCHITECTURE}.deb"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit_time())}
    options = ["--root-owner-group", "-Zzstd", "--build"]
    run("dpkg-deb", *options, tree, package, env=environment)
    return package


def layer(tree: Path, prefix: str, seconds: int) -> bytes:
    """A tar archive of a tree, the same for the same files."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = seconds
        return entry

    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            name = f"{prefix}{path.relative_to(tree)}"
            archive.add(path, name, recursive=False, filter=plain)
    return made.getvalue()


def fetch_libraries(into: Path) -> None:
    """The libraries of the image, in the folder `root`."""
    check_tools("apt-get", "dpkg-deb")
    with tempfile.TemporaryDirectory() as folder:
        apt = Apt(Path(folder), ("bookworm",), ARCHITECTURE)
        apt.run("update")
        unpack(apt.download(Path(folder) / "archives", *IMAGE_PACKAGES), into / "root")


def image(tree: Path, into: Path) -> Path:
    """An image of OCI's layout with the program of a tree and the libraries that it needs, to be
    loaded by `podman load`, `docker load` or `skopeo`."""
    name = f"image-{cache.key(ARCHITECTURE, *IMAGE_PACKAGES)[:10]}"
    libraries = cache.made("packages", name, fetch_libraries)
    about = "usr/share/doc/crosslane"
    for name in ("DEBIAN", "lib", "usr/include", "usr/lib", f"{about}/docs", f"{about}/examples"):
        shutil.rmtree(tree / name)
    blobs: dict[str, bytes] = {}

    def blob(kind: str, content: bytes) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    seconds = commit_time()
    layers = [layer(folder, "", seconds) for folder in (libraries / "root", tree)]
    layer_blobs = [blob("layer.v1.tar+gzip", packed(content)) for content in layers]
    digests = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in layers]
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "config": {"Entrypoint": ["/usr/bin/crosslane"], "Cmd": ["--help"], "Env": []},
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    config_blob = blob("config.v1+json", json.dumps(config).encode())
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config_blob,
        "layers": layer_blobs,
    }
    entry = blob("manifest.v1+json", json.dumps(manifest).encode())
    entry["annotations"] = {"org.opencontainers.image.ref.name": f"crosslane:{version()}"}
    index = {"schemaVersion": 2, "manifests": [entry]}
    files = {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
    files["index.json"] = json.dumps(index).encode()
    files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    path = into / f"crosslane-{version()}-{ARCHITECTURE}.oci.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, content in sorted(files.items()):
            item = tarfile.TarInfo(name)
            item.size, item.mtime = len(content), seconds
            archive.addfile(item, io.BytesIO(content))
    return path


def main() -> None:
    """Makes all of them."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    into, stage = PACKAGES, PACKAGES.with_suffix(".stage")
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    shutil.rmtree(stage, ignore_errors=True)
    plain = staged(stage / "plain")
    tree = with_libraries_in(f"{MACHINE}-linux-gnu", plain, stage / "debian")
    # Wherever it is unpacked, its pkg-config file finds it.
    config = plain / "usr/lib/pkgconfig/crosslane.pc"
    text = config.read_text().replace("prefix=/usr\n", "prefix=${pcfiledir}/../..\n")
    config.write_text(text.replace("libdir=/usr/lib\n", "libdir=${prefix}/lib\n"))
    name = f"crosslane-{version()}-linux-{MACHINE}"
    archive = packed(layer(plain / "usr", f"{name}/", commit_time()))
    (into / f"{name}.tar.gz").write_bytes(archive)
    debian_package(tree, into)
    image(tree, into)
    wheels = (TARGET / "wheels").glob(f"*_{MACHINE}.whl")
    shutil.copy(max(wheels, key=lambda path: path.stat().st_mtime), into)
    shutil.rmtree(stage)
    sums = ""
    for path in sorted(into.iterdir()):
        sums += f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")
    (into / "SHA256SUMS").write_text(sums)


if __name__ == "__main__":
    main()
