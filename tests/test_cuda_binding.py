# SPDX-License-Identifier: Apache-2.0
"""The CUDA library as far as it can be had without a GPU: built for all of them and loaded, and
its binding run on tensors of the CPU, with a stand-in for what is behind it."""

import os
import shutil
import subprocess
import sys

import cases
import cuda_toolkit
import kernel_layout
import native_library
import pytest
import torch
from native_library import ROOT

FOLDER = ROOT / "tests" / "cuda_binding"
NAMESPACE = "_spec_decode_ops_stand_in"
ON_A_GPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
OF_TORCH_CUDA = {
    "aoti_torch_create_cuda_guard",
    "aoti_torch_delete_cuda_guard",
    "aoti_torch_get_current_cuda_stream",
}
B, K, V = 3, 2, 40


@pytest.fixture(scope="module", autouse=True)
def toolkit():
    if cuda_toolkit.nvcc() is None:
        assert not os.environ.get("CI"), "nvcc is missing"
        pytest.skip("needs nvcc and what comes with it")


# ---- The binding, with a stand-in behind it ----


@pytest.fixture(scope="module")
def stand_in(sdo, tmp_path_factory, toolkit):
    """The package over a library whose CUDA ops are those of tests/cuda_binding/."""
    folder = tmp_path_factory.mktemp("binding") / "package_over_stand_in"
    shutil.copytree(kernel_layout.VARIANT, folder, ignore=shutil.ignore_patterns("*.so", "_ops.py"))
    (folder / "_ops.py").write_text(native_library.ops_module(NAMESPACE))
    sources = [*native_library.SOURCES, native_library.CUDA_BINDING]
    objects = [native_library.compile_source(path, NAMESPACE, "cuda") for path in sources]
    stand_in = folder / "stand_in.o"
    includes = [f"-I{path}" for path in (ROOT / "csrc", *cuda_toolkit.include_folders())]
    command = [*native_library.compiler(), *native_library.FLAGS, *includes]
    source = str(FOLDER / "stand_in.cpp")
    subprocess.run([*command, "-c", source, "-o", str(stand_in)], check=True)
    native_library.link([*objects, stand_in], folder / f"{NAMESPACE}.abi3.so")
    sys.path.insert(0, str(folder.parent))
    try:
        import package_over_stand_in

        yield package_over_stand_in
    finally:
        sys.path.remove(str(folder.parent))


class OnAGpu(torch.utils._python_dispatch.TorchDispatchMode):
    """Every op of the stand-in's library is called as for a CUDA tensor."""

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        ours = op.namespace == NAMESPACE and op._overloadname != "check"
        return op.redispatch(ON_A_GPU, *args) if ours else op(*args, **(kwargs or {}))


def a_round():
    target, draft = cases.rows("normal", B * (K + 1), V), cases.rows("flat", B * K, V)
    return target.view(B, K + 1, V), draft.view(B, K, V), draft.view(B, K, V).argmax(-1)


def calls(package):
    """Every public op, with and without tensors for parameters."""
    target, draft, tokens = a_round()
    logits = target[:, 0]
    uniforms = torch.rand(B, K + 1, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    filters = {
        "temperature": torch.tensor([0.0, 0.7, 1.0]),
        "top_k": torch.tensor([9]),
        "top_p": torch.full((B,), 0.9, dtype=torch.float64),
        "min_p": 0.05,
        "repetition_penalty": 1.2,
        "prev_tokens": torch.arange(5),
    }
    p, q = target.softmax(-1), draft.softmax(-1)
    return [
        package.sample(logits, seed=7),
        package.sample(logits[0], seed=7, algorithm="sort"),
        package.sample(logits.bfloat16(), **filters, seed=torch.arange(B), offset=3),
        package.filter_logits(logits, **filters),
        package.filter_logits(logits[1], top_k=3, algorithm="select"),
        *package.verify(target, draft, tokens, **filters, seed=7, offset=torch.arange(B)),
        *package.verify(target, None, tokens, seed=7, method="coupled"),
        *package.sample(logits, **filters, seed=7, return_logprobs=True)[1],
        *package.verify_greedy(target, tokens),
        *package.accept(p, q, tokens, uniforms=uniforms),
        *package.accept(p[0], None, tokens[0], uniforms=uniforms[0], normalized=True),
    ]


def test_every_op_hands_the_kernels_what_the_cpu_gets(sdo, stand_in):
    with OnAGpu():
        given = calls(stand_in)
    for a, b in zip(given, calls(sdo)):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert cases.same_bits(a, b) if a.is_floating_point() else torch.equal(a, b)


def test_every_error_of_a_launch_is_an_exception_that_names_the_op(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_ERROR", "700")
    target, draft, tokens = a_round()
    for op, call in {
        "sample": lambda: stand_in.sample(target[0], seed=1),
        "filter_logits": lambda: stand_in.filter_logits(target[0]),
        "verify": lambda: stand_in.verify(target, draft, tokens, seed=1),
        "verify_greedy": lambda: stand_in.verify_greedy(target, tokens),
        "accept": lambda: stand_in.accept(target.exp(), None, tokens),
    }.items():
        with OnAGpu(), pytest.raises(RuntimeError, match=f"^{op}: CUDA error: another error"):
            call()
    monkeypatch.delenv("STAND_IN_ERROR")
    with OnAGpu():  # the guard of a failed call is gone
        stand_in.sample(target[0], seed=1)


def test_an_unsupported_gpu_is_an_exception_that_says_so(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_ERROR", "209")
    wanted = r"no kernel image \(this GPU has compute capability 7\.5, wanted 8\.0 or newer"
    with OnAGpu(), pytest.raises(RuntimeError, match=wanted):
        stand_in.sample(torch.zeros(1, 9), seed=1)


@pytest.mark.parametrize("number, name", [(0, "auto"), (1, "sort"), (2, "select")])
def test_the_algorithm_asked_for_is_the_one_run(stand_in, monkeypatch, number, name):
    monkeypatch.setenv("STAND_IN_ALGORITHM", str(number))
    with OnAGpu():
        stand_in.filter_logits(torch.zeros(1, 9), algorithm=name)
        with pytest.raises(RuntimeError, match="CUDA error"):
            stand_in.filter_logits(torch.zeros(1, 9), algorithm="sort" if number == 0 else "auto")


def test_no_rows_are_no_launch(stand_in, monkeypatch):
    monkeypatch.setenv("STAND_IN_ERROR", "700")
    target, draft, tokens = (each[:0] for each in a_round())
    with OnAGpu():
        results = [
            stand_in.sample(target[:, 0], seed=1),
            stand_in.filter_logits(target[:, 0]),
            *stand_in.verify(target, draft, tokens, seed=1),
            *stand_in.verify_greedy(target, tokens),
            *stand_in.accept(target.exp(), None, tokens),
        ]
    assert [len(result) for result in results] == [0] * 8


def test_arguments_are_refused_as_on_the_cpu(stand_in):
    with OnAGpu():
        with pytest.raises(RuntimeError, match=r"sample: logits is float64\[2, 9\]"):
            stand_in.sample(torch.zeros(2, 9, dtype=torch.float64), seed=1)
        with pytest.raises(RuntimeError, match=r"verify: draft_tokens is int64\[3, 1\]"):
            stand_in.verify(a_round()[0], None, torch.zeros(B, 1).long(), seed=1)


@pytest.mark.slow
def test_the_binding_is_cpp20_too():
    command = native_library.compile_command(native_library.CUDA_BINDING, NAMESPACE, "cuda")
    subprocess.run([*command, "-std=c++20", "-fsyntax-only", "-Werror"], check=True)


# ---- The library that is shipped ----


@pytest.fixture(scope="module")
def library(toolkit):
    """The CUDA variant's library; its objects are made once, by `make cuda` if it ran."""
    kernel_layout.lay_out("cuda")
    return kernel_layout.library("cuda")


def symbols(library, *options):
    listing = subprocess.check_output(["nm", "-D", *options, library], text=True)
    return {line.split()[-1].split("@")[0]: line.split()[-2] for line in listing.splitlines()}


@pytest.mark.slow
def test_the_cuda_library_shows_only_its_entry(library):
    assert symbols(library, "--defined-only") == {
        f"PyInit_{kernel_layout.identifier('cuda')}": "T",
    }


@pytest.mark.slow
def test_what_only_a_cuda_torch_has_is_weak(library):
    undefined = symbols(library, "--undefined-only")
    assert {name for name in undefined if "cuda_guard" in name or "cuda_stream" in name} == (
        OF_TORCH_CUDA
    )
    assert {undefined[name] for name in OF_TORCH_CUDA} == {"w"}


@pytest.mark.slow
def test_the_cuda_library_shares_the_runtime_of_the_process(library):
    needed = subprocess.check_output(["readelf", "-d", library], text=True)
    major, _ = cuda_toolkit.version()
    assert f"[libcudart.so.{major}]" in needed
    assert "[libtorch.so]" in needed


@pytest.mark.slow
def test_a_torch_without_cuda_loads_the_cuda_library_and_runs_its_cpu_ops(library, sdo):
    code = f"""
import sys
import torch
sys.path.insert(0, {str(kernel_layout.ROOT / "build")!r})
import importlib
package = importlib.import_module({library.parent.name!r})
print(package.sample(torch.linspace(0, 1, 50).expand(9, 50), seed=7).tolist())
try:
    gpu = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    package._ops.ops.sample.default.redispatch(gpu, torch.zeros(1, 9), 1.0, 0, 0)
except RuntimeError as error:
    print(error)
"""
    if torch.version.cuda:
        pytest.skip("this torch has CUDA")
    runtime = os.pathsep.join(map(str, cuda_toolkit.library_folders()))
    env = {**os.environ, "LD_LIBRARY_PATH": runtime}
    result = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    tokens, error = result.stdout.splitlines()
    assert tokens == str(sdo.sample(torch.linspace(0, 1, 50).expand(9, 50), seed=7).tolist())
    assert error == "sample: this torch has no CUDA"


# ---- Whether to build for CUDA ----


def test_every_capability_of_build_toml_gets_its_code():
    assert cuda_toolkit.architecture_flags() == [
        "-gencode=arch=compute_80,code=sm_80",
        "-gencode=arch=compute_86,code=sm_86",
        "-gencode=arch=compute_89,code=sm_89",
        "-gencode=arch=compute_90,code=sm_90",
        "-gencode=arch=compute_90,code=compute_90",
    ]


@pytest.mark.parametrize(
    "wish, torch_has, nvcc_is, built",
    [
        ("", None, "nvcc", False),
        ("", "same", "nvcc", True),
        ("", "same", "no-such-compiler", False),
        ("", "1.0", "nvcc", False),
        ("0", "same", "nvcc", False),
        ("1", None, "nvcc", True),
        ("1", "same", "nvcc", True),
        ("1", None, "no-such-compiler", "nvcc: no such CUDA compiler.*SPEC_DECODE_OPS_CUDA=0"),
        ("1", "1.0", "nvcc", "nvcc is of CUDA .*, torch of CUDA 1.0"),
        ("yes", None, "nvcc", "SPEC_DECODE_OPS_CUDA is 'yes', wanted 1, 0 or nothing"),
    ],
)
def test_cuda_is_built_where_it_can_be_or_where_it_is_asked_for(
    monkeypatch, wish, torch_has, nvcc_is, built
):
    version = "{}.{}".format(*cuda_toolkit.version()) if torch_has == "same" else torch_has
    monkeypatch.setattr(cuda_toolkit, "torch_cuda_version", lambda: version)
    monkeypatch.setenv("SPEC_DECODE_OPS_CUDA", wish)
    if nvcc_is != "nvcc":
        monkeypatch.setenv("NVCC", nvcc_is)
    if isinstance(built, str):
        with pytest.raises(SystemExit, match=built):
            cuda_toolkit.wanted()
    else:
        assert cuda_toolkit.wanted() is built
