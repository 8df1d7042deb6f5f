# SPDX-License-Identifier: Apache-2.0
"""The kernels of csrc/cpu/ alone as aarch64 runs them: cross-compiled, under an emulator."""

import backends
from kernel_bits import programs

CROSS_COMPILER = "aarch64-linux-gnu-g++"
EMULATOR = "qemu-aarch64-static"


def on_aarch64(*flags, main=programs.MAIN):
    """The command that runs them."""
    backends.need(EMULATOR)
    return [EMULATOR, programs.build([CROSS_COMPILER], *flags, main=main)]
