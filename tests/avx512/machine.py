# SPDX-License-Identifier: Apache-2.0
"""A machine with AVX-512, emulated: Bochs boots Debian's kernel, whose memory holds the programs,
and its serial line is a file here."""

import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import backends
import native_library
from kernel_bits import programs

HERE = Path(__file__).resolve().parent
FOLDER = native_library.ROOT / ".build" / "avx512"
LINUX = FOLDER / "vmlinuz"
LINUX_PACKAGE = "linux-image-cloud-amd64"  # Debian's smallest; it depends on the present one
BOOT_LOADER = [  # of Debian's isolinux and syslinux-common
    Path("/usr/lib/ISOLINUX/isolinux.bin"),
    Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"),
]
DIRECTORY, DEVICE, PROGRAM = 0o40755, 0o20600, 0o100755
CONSOLE = (5, 1)
TIMEOUT = 600


def need_tools():
    if platform.machine() != "x86_64":
        raise backends.Unavailable("the programs of the emulated machine need a compiler of x86-64")
    backends.need("bochs", "genisoimage", "apt-get", "apt-cache", "dpkg-deb")
    for path in BOOT_LOADER:
        if not path.exists():
            raise backends.Unavailable(f"no {path} on this machine")


def fetch_linux():
    """Debian's kernel as a file, which installing it is not needed for."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    ask = ["apt-cache", "depends", LINUX_PACKAGE]
    depends = subprocess.run(ask, capture_output=True, text=True).stdout
    package = re.search(r"linux-image-\d\S*", depends)
    if not package:
        raise backends.Unavailable(f"apt-cache knows no package {LINUX_PACKAGE}")
    subprocess.check_call(["apt-get", "download", "-q", package[0]], cwd=FOLDER)
    (archive,) = FOLDER.glob(f"{package[0]}_*.deb")
    content = FOLDER / "linux"
    subprocess.check_call(["dpkg-deb", "--extract", archive, content])
    (image,) = content.glob("boot/vmlinuz-*")
    image.replace(LINUX)
    archive.unlink()
    shutil.rmtree(content)


def file_in_memory(name, mode, data=b"", device=(0, 0)):
    """An entry of the `newc` archive that Linux unpacks as its first file system."""
    fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def file_system(commands, init):
    files = {Path(program).name: Path(program) for _, program, *_ in commands}
    lines = [
        " ".join([target or "-", f"/{Path(program).name}", *map(str, arguments)])
        for target, program, *arguments in commands
    ]
    entries = [
        file_in_memory("dev", DIRECTORY),
        file_in_memory("dev/console", DEVICE, device=CONSOLE),
        file_in_memory("init", PROGRAM, init.read_bytes()),
        file_in_memory("commands", PROGRAM, "".join(f"{line}\n" for line in lines).encode()),
        *(file_in_memory(name, PROGRAM, path.read_bytes()) for name, path in files.items()),
        file_in_memory("TRAILER!!!", 0),
    ]
    return b"".join(entries)


def write_disc(folder, commands):
    content = folder / "disc"
    content.mkdir()
    init = programs.build(native_library.compiler(), main=HERE / "init.cpp", sources=[])
    (content / "initrd").write_bytes(file_system(commands, init))
    for path in [LINUX, *BOOT_LOADER, HERE / "isolinux.cfg"]:
        shutil.copy(path, content)
    boot = "-b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table".split()
    disc = folder / "disc.iso"
    subprocess.check_call(["genisoimage", "-quiet", "-o", str(disc), *boot, str(content)])


def boot(folder):
    """What the machine wrote to its console, from start to end."""
    subprocess.run(
        ["bochs", "-q", "-f", str(HERE / "bochsrc")],
        cwd=folder,
        env={**os.environ, "TERM": "vt100"},
        input=b"continue\n",  # Debian's Bochs has its debugger, which asks first
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=TIMEOUT,
    )
    return (folder / "console.txt").read_bytes().decode(errors="replace").replace("\r\n", "\n")


def run(folder, commands):
    """What became of each command (target, program, arguments ...) on that machine: its status, and
    what it printed. One boot; a program's name may occur twice only if it is the same program."""
    need_tools()
    if not LINUX.exists():
        fetch_linux()
    write_disc(folder, commands)
    console = boot(folder)
    found = re.findall(r"^=== run\n(.*?)\n=== ended (\d+)$", console, re.MULTILINE | re.DOTALL)
    assert len(found) == len(commands), console[-2000:]
    return [(int(status), printed) for printed, status in found]
