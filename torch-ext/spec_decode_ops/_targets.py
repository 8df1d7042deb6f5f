# SPDX-License-Identifier: Apache-2.0
"""Which instruction set the CPU kernels use."""

from ._ops import ops


def cpu_target(name=""):
    """The name of the CPU target that runs: avx512, avx2, neon or scalar.

    With a name, that target runs from here on in this process, as if SPEC_DECODE_OPS_CPU_TARGET
    had named it. All targets give the same bits.

    Raises:
        RuntimeError: this machine has no such target; the text lists those it has.
    """
    return ops.cpu_target.default(name)
