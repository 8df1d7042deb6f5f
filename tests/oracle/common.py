# SPDX-License-Identifier: Apache-2.0
"""csrc/common/ as a ctypes library, compiled once for its content: `common.philox(...)`, ..."""

import ctypes
import os
import subprocess
from functools import lru_cache
from pathlib import Path

SOURCE = Path(__file__).parent / "oracle.cpp"
FLAGS = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-Wall", "-Wextra"]

u32, u64 = ctypes.c_uint32, ctypes.c_uint64
i32, i64 = ctypes.c_int32, ctypes.c_int64
f32, f64, flag = ctypes.c_float, ctypes.c_double, ctypes.c_bool
array = ctypes.c_void_p  # of a numpy array: a.ctypes.data

SIGNATURES = {
    "philox": (None, array, u64, array),
    "fraction": (u64, u64, u64, u32, u32, u32),
    "noise": (None, u64, u64, u32, i64, array),
    "masses": (None, array, i64, f32, f32, array),
    "gumbel_of": (f32, u32, u32),
    "mass_of": (u64, f32),
    "fixed_point_of": (u64, f32, i32, i32),
    "exponent_of": (i32, f32),
    "quota_of": (u64, f64, u64),
    "half_of": (f32, ctypes.c_uint16),
    "key_of": (u32, f32),
    "value_of": (f32, u32),
    "least_logit_of": (f32, f32, f32),
    "quotient_of": (f32, f32, f32),
    "accepts_of": (flag, u64, u64, u64, u64, u64),
    "residual_of": (None, u64, u64, u64, u64, array),
    "scale_of": (None, u64, u64, u64, array),
    "divide_of": (None, array, array, array),
    "next_share_of": (u64, u64, u64, u64, u64, u64),
    "last_stands_of": (flag, u64, u64, u64, u64, u64, u64),
    "may_stand_of": (flag, u64, u64),
    "stands_of": (flag, u64, array, u64, u64, u64),
    "block_weight_of": (None, u64, u64, u64, u64, u64, array),
    "scale_triple_of": (None, u64, array, array),
    "add_and_sub_of": (None, array, array, array, array),
    "beats_of": (flag, f32, f32, i32, f32, f32, i32),
}


@lru_cache(None)
def load():
    import native_library  # not there in the Hub builder's sandbox, which needs no oracle

    csrc = native_library.ROOT / "csrc"
    texts = [path.read_text() for path in sorted(csrc.glob("common/*.h"))]
    name = native_library.digest(*native_library.compiler(), *FLAGS, SOURCE.read_text(), *texts)
    library = native_library.ROOT / ".build" / f"oracle-{name}.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        unfinished = library.with_suffix(f".{os.getpid()}")
        command = [*native_library.compiler(), *FLAGS, f"-I{csrc}", str(SOURCE)]
        subprocess.run([*command, "-o", str(unfinished)], check=True)
        unfinished.replace(library)
    return ctypes.CDLL(str(library))


class Common:
    """The functions of oracle.cpp; compiled when the first is called."""

    def __getattr__(self, name):
        function = getattr(load(), name)
        function.restype, *function.argtypes = SIGNATURES[name]
        setattr(self, name, function)
        return function


common = Common()
