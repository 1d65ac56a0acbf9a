# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Kernel and first file system of the guest, made from the packages that `packages` has unpacked.

The file system is a `newc` archive (the kernel's Documentation/driver-api/early-userspace) that the
kernel unpacks into memory: a shell, the named modules and their dependencies, and the programs
under test with their libraries.
"""

import lzma
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from packages import VmError

INIT = Path(__file__).resolve().parent / "init.sh"
# Modules that a guest may load; `modules_in_order` puts each after its dependencies.
MODULES = (
    "vfio",
    "vfio_iommu_type1",
    "vfio-pci",
    # Soft-RoCE requests the checksum by name, which no dependency mentions.
    "crc32_generic",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "veth",
)
GUEST_PROGRAMS = ("bin/ip", "usr/bin/rdma")
LIBRARY_FOLDERS = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib", "lib64")
# Loaded by name when a program asks for RDMA devices, and the files that list them for the loader.
PROVIDERS = (
    "usr/lib/x86_64-linux-gnu/libfabric.so.1",
    "usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so",
    "etc/libibverbs.d/rxe.driver",
)

# In a boot sector (the kernel's Documentation/x86/boot.rst): the number of sectors of set-up code,
# the offset of the compressed kernel behind them, and its length.
SETUP_SECTORS_AT, PAYLOAD_OFFSET_AT, PAYLOAD_LENGTH_AT = 0x1F1, 0x248, 0x24C
SECTOR_BYTES = 512
XZ_MAGIC = b"\xfd7zXZ\x00"


def kernel(guest: Path) -> bytes:
    """The kernel as an ELF file, which QEMU starts directly: no firmware, no decompression."""
    images = sorted((guest / "boot").glob("vmlinuz-*"))
    if len(images) != 1:
        raise VmError(f"{guest}/boot has {len(images)} kernels, not one")
    image = images[0].read_bytes()

    def number(at: int) -> int:
        return int.from_bytes(image[at : at + 4], "little")

    start = (image[SETUP_SECTORS_AT] + 1) * SECTOR_BYTES + number(PAYLOAD_OFFSET_AT)
    payload = image[start : start + number(PAYLOAD_LENGTH_AT)]
    if not payload.startswith(XZ_MAGIC):
        raise VmError(f"{images[0].name} is not compressed with xz, as Debian's kernels are")
    # The stream is followed by its length, which is not part of it.
    return lzma.LZMADecompressor().decompress(payload)


def modules_in_order(guest: Path, wanted: Iterable[str]) -> list[Path]:
    """Files of modules, each after its dependencies."""
    files = {
        path.stem.replace("-", "_"): path
        for path in (guest / "lib" / "modules").glob("*/kernel/**/*.ko")
    }
    order: dict[Path, None] = {}

    def add(name: str) -> None:
        path = files.get(name.replace("-", "_"))
        if path is None:
            raise VmError(f"the kernel has no module {name}")
        if path in order:
            return
        depends = re.search(rb"\0depends=([^\0]*)\0", path.read_bytes())
        for one in depends.group(1).decode().split(",") if depends else []:
            if one:
                add(one)
        order[path] = None

    for name in wanted:
        add(name)
    return list(order)


def needed(program: Path) -> list[str]:
    """Libraries that a program or a library names."""
    command = ["readelf", "-d", str(program)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", listed)


def libraries_of_guest(guest: Path, programs: Iterable[Path]) -> dict[str, Path]:
    """Libraries of programs from the guest's packages, by their paths in the guest."""
    found: dict[str, Path] = {}
    left = [name for program in programs for name in needed(program)]
    while left:
        name = left.pop()
        # Some are in subfolders, and an installation would link to them by name.
        files = [
            file
            for folder in LIBRARY_FOLDERS
            for pattern in (name, f"**/{name}", f"**/{name}.*")
            for file in (guest / folder).glob(pattern)
        ]
        if not files:
            raise VmError(f"the guest's packages have no {name}")
        place = f"{LIBRARY_FOLDERS[0]}/{name}"
        if place not in found:
            found[place] = files[0]
            left += needed(files[0])
    return found


def libraries_of_host(program: Path) -> dict[str, Path]:
    """Libraries of a program built here, by their paths, as the loader finds them."""
    listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        # A static program: `ldd` says so and fails.
        return {}
    if "not found" in listed.stdout:
        raise VmError(f"libraries of {program.name} are missing: {listed.stdout.strip()}")
    places = re.findall(r"(/\S+) \(0x", listed.stdout)
    return {place.lstrip("/"): Path(place) for place in places}


class Archive:
    """A `newc` archive."""

    # File types and rights (inode(7)).
    FILE, FOLDER, CHARACTER_DEVICE = 0o100755, 0o040755, 0o020600

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.names: set[str] = set()
        self.count = 0

    def _add(
        self, name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
    ) -> None:
        self.count += 1
        encoded = name.encode() + b"\0"
        # Inode, mode, owner, group, links, time, length, device (2), device of the node (2),
        # length of the name, checksum.
        fields = (self.count, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        head = b"070701" + "".join(f"{field:08X}" for field in fields).encode() + encoded
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def folder(self, name: str) -> None:
        """A folder, and those above it."""
        if name in ("", ".") or name in self.names:
            return
        self.folder(str(Path(name).parent))
        self.names.add(name)
        self._add(name, self.FOLDER)

    def file(self, name: str, data: bytes) -> None:
        """An executable file; a second one of the same name is left out."""
        if name in self.names:
            return
        self.folder(str(Path(name).parent))
        self.names.add(name)
        self._add(name, self.FILE, data)

    def console(self) -> None:
        """The console, which the kernel opens for the first program."""
        self.folder("dev")
        self._add("dev/console", self.CHARACTER_DEVICE, device=(5, 1))

    def bytes(self) -> bytes:
        """The archive."""
        self._add("TRAILER!!!", 0)
        return b"".join(self.parts)


def file_system(guest: Path, programs: dict[str, Path], modules: Iterable[str] = MODULES) -> bytes:
    """The guest's files: those of its packages, and programs under test by name in its `/bin`."""
    archive = Archive()
    for name in ("proc", "sys", "dev", "tmp", "run"):
        archive.folder(name)
    archive.console()
    archive.file("bin/busybox", (guest / "bin" / "busybox").read_bytes())
    archive.file("init", INIT.read_bytes())
    order = modules_in_order(guest, modules)
    for path in order:
        archive.file(f"modules/{path.name}", path.read_bytes())
    listed = "".join(f"{path.name}\n" for path in order)
    archive.file("modules/order", listed.encode())
    for name, path in programs.items():
        archive.file(f"bin/{name}", path.read_bytes())
        for place, library in libraries_of_host(path).items():
            archive.file(place, library.read_bytes())
    own = [guest / name for name in (*GUEST_PROGRAMS, *PROVIDERS) if not name.startswith("etc/")]
    for place, library in libraries_of_guest(guest, own).items():
        archive.file(place, library.read_bytes())
    for name in (*GUEST_PROGRAMS, *PROVIDERS):
        archive.file(name, (guest / name).read_bytes())
    archive.file("lib64/ld-linux-x86-64.so.2", (guest / "lib64/ld-linux-x86-64.so.2").read_bytes())
    return archive.bytes()
