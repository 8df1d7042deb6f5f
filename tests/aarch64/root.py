# SPDX-License-Identifier: Apache-2.0
"""`make test-aarch64`: the whole package under an aarch64 torch, on a machine that is not aarch64.

    python tests/aarch64/root.py [ARGUMENTS OF PYTEST]      (as root, on Debian)

Makes a Debian root of arm64 in .build/aarch64/root, of this machine's release, with Python and the
aarch64 torch; cross-compiles the library against it; and runs the tests below there. Nothing of the
root is started by this machine's kernel: qemu runs its Python, with the root in place of the
system's files, so neither binfmt nor chroot is needed. A test takes some thirty times as long there
as it does here.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / ".build" / "aarch64"
DEBIAN = FOLDER / "root"
ARCHIVES = FOLDER / "debian"
CROSS_COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"
TOOLS = {  # and the Debian packages that have them
    "debootstrap": "debootstrap",
    "dpkg-deb": "dpkg",
    CROSS_COMPILER: "g++-aarch64-linux-gnu",
    EMULATOR: "qemu-user-static",
}
TORCH = "torch==2.10.0"  # the oldest that the library serves
# Named, because pip asks this machine, and not the other, which of torch's needs are its own.
TORCH_NEEDS = ["filelock", "fsspec", "jinja2", "networkx", "sympy", "typing-extensions"]
TESTS_NEED = ("hypothesis", "kernels", "numpy", "pytest")
# Whatever computes, and starts no other Python: this machine's kernel could not run it. Without the
# longest, which spend their time in Python: any_input, block_rule and law.
TESTS = [
    f"tests/test_{stem}.py"
    for stem in (
        *("goldens", "accept", "block", "boundaries", "coupled", "decoder"),
        *("decoder_arguments", "errors", "filter", "sample", "verify"),
    )
]


def check_tools():
    missing = [f"{tool} (package {TOOLS[tool]})" for tool in TOOLS if not shutil.which(tool)]
    if missing:
        raise SystemExit(f"Missing: {', '.join(missing)}")


def release():
    """The code name of this machine's Debian: the cross compiler's library is of that release."""
    text = Path("/etc/os-release").read_text()
    name = re.search(r"^VERSION_CODENAME=(\w+)$", text, re.MULTILINE)
    if not name:
        raise SystemExit("/etc/os-release names no VERSION_CODENAME: this is not a Debian release")
    return name[1]


def unpack_debian():
    """The packages as they are: what would set them up needs to run on arm64."""
    print(f"==> Debian {release()} of arm64, by debootstrap", flush=True)
    shutil.rmtree(ARCHIVES, ignore_errors=True)
    packages = "--include=python3,libpython3-dev,libgomp1"
    options = ["--arch=arm64", "--variant=minbase", packages, "--download-only"]
    subprocess.check_call(["debootstrap", *options, release(), str(ARCHIVES)])
    for package in sorted(ARCHIVES.glob("var/cache/apt/archives/*.deb")):
        subprocess.check_call(["dpkg-deb", "--extract", str(package), str(DEBIAN)])
    shutil.rmtree(ARCHIVES)


def python():
    """The root's own, by its version: python3.11, or the like."""
    found = [path for path in DEBIAN.glob("usr/bin/python3.*") if re.search(r"\.\d+$", path.name)]
    return found[0]


def install(*requirements):
    version = python().name[len("python") :]
    site = DEBIAN / "usr" / "local" / "lib" / f"python{version}" / "dist-packages"
    platforms = ["--platform=manylinux_2_28_aarch64", "--platform=manylinux_2_17_aarch64"]
    options = [f"--target={site}", f"--python-version={version}", *platforms]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--upgrade"]
    subprocess.check_call([*pip, *options, "--only-binary=:all:", *requirements])


def install_packages():
    print(f"==> {TORCH} of aarch64, and what the tests need", flush=True)
    lines = (ROOT / "tests" / "requirements.txt").read_text().splitlines()
    install("--no-deps", TORCH)
    install(*TORCH_NEEDS, *(line for line in lines if re.split(r"\W", line)[0] in TESTS_NEED))


def make_root():
    """The root, unless it is there."""
    done = FOLDER / "root-is-complete"
    if done.exists():
        return
    shutil.rmtree(DEBIAN, ignore_errors=True)
    DEBIAN.mkdir(parents=True)
    unpack_debian()
    install_packages()
    done.touch()


def lay_out(environment):
    subprocess.check_call(
        [sys.executable, str(ROOT / "packaging" / "kernel_layout.py"), "cpu"],
        env={**environment, "SPEC_DECODE_OPS_SYSROOT": str(DEBIAN)},
    )


def main():
    check_tools()
    make_root()
    environment = {**os.environ, "CXX": CROSS_COMPILER}
    lay_out(environment)
    emulated = [EMULATOR, "-L", str(DEBIAN), str(python())]
    pytest = ["-m", "pytest", "-p", "no:cacheprovider", *TESTS, *sys.argv[1:]]
    sys.exit(subprocess.call([*emulated, *pytest], cwd=ROOT, env=environment))


if __name__ == "__main__":
    main()
