# SPDX-License-Identifier: Apache-2.0
"""The ops as torch sees them: schemas and fakes, torch.compile, threads."""

import multiprocessing
import os

import cases
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.library import opcheck

B, K, V = 3, 2, 40
OFF = (0, 1.0, 0.0, 1.0)  # top_k, top_p, min_p, repetition_penalty
PLACE = (7, 3)  # seed and offset


def tensors_of_filters():
    """In place of the temperature and of OFF."""
    return [
        torch.tensor([0.0, 0.7, 1.0]),
        torch.tensor([5]),
        torch.full((B,), 0.9, dtype=torch.float64),
        torch.tensor([0.1]),
        torch.tensor([1.0, 1.1, 1.2]),
    ]


def tensors_of_all():
    return [*tensors_of_filters(), torch.arange(B), torch.tensor([5])]


def history():
    return torch.zeros(B, 4, dtype=torch.int64)


def a_round():
    g = torch.Generator().manual_seed(1)
    target, draft = torch.randn(B, K + 1, V, generator=g), torch.randn(B, K, V, generator=g)
    return target, draft, torch.randint(V, (B, K), generator=g)


# From top_k to the last tensor; those of an op without noise.
REST = {
    "scalars": lambda way: (*OFF, None, way),
    "tensors": lambda way: (*OFF, history(), way, *tensors_of_all()),
}
REST_WITHOUT_NOISE = {
    "scalars": REST["scalars"],
    "tensors": lambda way: (*OFF, history(), way, *tensors_of_filters()),
}


@pytest.fixture(scope="module")
def ops(sdo):
    return sdo._ops.ops


@pytest.mark.kernels_ci
@pytest.mark.parametrize(
    "kind, shape",
    [("scalars", (B, V)), ("scalars", (0, V)), ("scalars", (V,)), ("tensors", (B, V))],
)
def test_opcheck_of_sample_and_filter_logits(ops, kind, shape):
    logits = torch.randn(shape)
    for overload in ("default", "check"):
        opcheck(getattr(ops.filter_logits, overload), (logits, 1.0, *REST_WITHOUT_NOISE[kind](0)))
        opcheck(getattr(ops.sample, overload), (logits, 1.0, *PLACE, *REST[kind](1)))
        opcheck(getattr(ops.sample, overload), (logits, 1.0, *PLACE))


@pytest.mark.kernels_ci
@pytest.mark.parametrize("kind", REST)
@pytest.mark.parametrize("rule", [0, 1, 2])
@pytest.mark.parametrize("deterministic", [False, True])
def test_opcheck_of_verify(ops, kind, rule, deterministic):
    target, draft, tokens = a_round()
    for words in (None, torch.zeros(B, K + 1, dtype=torch.int64)):
        arguments = (target, None if deterministic else draft, tokens, 1.0, *PLACE, rule)
        for overload in (ops.verify.default, ops.verify.check):
            opcheck(overload, (*arguments, *REST[kind](2)), {"words": words})


@pytest.mark.kernels_ci
def test_opcheck_of_accept_and_verify_greedy(ops):
    target, draft, tokens = (t[0] for t in a_round())
    uniforms = torch.rand(K + 1, dtype=torch.float64)
    for normalized in (False, True):
        for q in (None, draft.softmax(-1)):
            arguments = (target.softmax(-1), q, tokens, uniforms, normalized, int(normalized))
            for overload in (ops.accept.default, ops.accept.tensors):
                opcheck(overload, arguments)
            opcheck(ops.accept.check, arguments[:3] + (None,))
    for overload in (ops.verify_greedy.default, ops.verify_greedy.tensors, ops.verify_greedy.check):
        opcheck(overload, (target, tokens))


@pytest.mark.kernels_ci
@pytest.mark.parametrize("batch", [0, 1, B])
def test_opcheck_of_batches_of_accept_and_verify_greedy(ops, batch):
    target, draft, tokens = (t[:batch] for t in a_round())
    uniforms = torch.rand(batch, K + 1, dtype=torch.float64)
    for q in (None, draft.softmax(-1)):
        opcheck(ops.accept.tensors, (target.softmax(-1), q, tokens, uniforms, False, 1))
        opcheck(ops.accept.check, (target.softmax(-1), q, tokens, uniforms))
    opcheck(ops.verify_greedy.tensors, (target, tokens))


# ---- torch.compile ----


def compiled(function):
    torch.compiler.reset()
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(function, backend=counter, fullgraph=True), counter


def test_20_offsets_compile_to_at_most_2_graphs(sdo):
    logits = cases.rows("normal", B, V)
    function, counter = compiled(
        lambda x, offset: sdo.sample(x, 0.8, 20, 0.9, 0.01, seed=5, offset=offset)
    )
    for offset in range(20):
        token = function(logits, offset)
        eager = sdo.sample(logits, 0.8, 20, 0.9, 0.01, seed=5, offset=offset)
        assert torch.equal(token, eager)
    assert counter.frame_count <= 2


def test_a_compiled_call_refuses_a_number_without_meaning(sdo):
    """Without a guard for it: the op itself refuses."""
    x = cases.rows("normal", B, V)
    function, counter = compiled(lambda x, n: sdo.sample(x, seed=1, offset=n))
    for offset in range(2, 9):
        function(x, offset)
    graphs = counter.frame_count
    for offset in (-3, 1 << 60):
        with pytest.raises(RuntimeError, match=f"offset is {offset}, wanted"):
            function(x, offset)
    assert counter.frame_count == graphs


def test_20_seeds_and_top_ks_compile_to_at_most_2_graphs(sdo):
    logits = cases.rows("normal", B, V)
    function, counter = compiled(lambda x, n: sdo.sample(x, seed=n, offset=3 * n, top_k=n + 2))
    for n in range(20):
        eager = sdo.sample(logits, seed=n, offset=3 * n, top_k=n + 2)
        assert torch.equal(function(logits, n), eager)
    assert counter.frame_count <= 2


def test_parameters_in_tensors_compile_to_1_graph(sdo):
    logits = cases.rows("normal", B, V)
    function, counter = compiled(
        lambda x, t, p, seed, offset: sdo.sample(x, t, top_p=p, seed=seed, offset=offset)
    )
    for n in range(20):
        arguments = torch.tensor([0.1 * n]), torch.full((B,), 1 - n / 40)
        noise = torch.arange(B) + n, torch.tensor([n])
        t, p = arguments
        eager = sdo.sample(logits, t, top_p=p, seed=noise[0], offset=noise[1])
        assert torch.equal(function(logits, *arguments, *noise), eager)
    assert counter.frame_count == 1


@pytest.mark.parametrize("method", ["token", "block", "coupled"])
def test_verify_over_20_offsets_compiles_to_at_most_2_graphs(sdo, method):
    target, draft, tokens = a_round()

    def verify(target, draft, tokens, offset):
        return sdo.verify(target, draft, tokens, 0.9, seed=5, offset=offset, method=method)

    function, counter = compiled(verify)
    for offset in range(20):
        eager = verify(target, draft, tokens, offset)
        for a, b in zip(function(target, draft, tokens, offset), eager):
            assert torch.equal(a, b)
    assert counter.frame_count <= 2


def test_filter_logits_compiles_with_moving_batch_sizes(sdo):
    function, counter = compiled(lambda x: sdo.filter_logits(x, 0.7, top_k=5))
    for batch in range(2, 12):
        logits = cases.rows("normal", batch, V)
        assert cases.same_bits(function(logits), sdo.filter_logits(logits, 0.7, top_k=5))
    assert counter.frame_count <= 2


def test_a_missing_seed_is_drawn_anew_at_each_compiled_call(sdo):
    logits = torch.zeros(B, 50257)
    function, _ = compiled(lambda x: sdo.sample(x))
    tokens = [tuple(function(logits).tolist()) for _ in range(4)]
    assert len(set(tokens)) == 4


@pytest.mark.parametrize("generated", [False, True])
def test_batches_of_accept_and_verify_greedy_compile_with_moving_batch_sizes(sdo, generated):
    def both(target, draft, tokens, uniforms):
        accepted = sdo.accept(target.softmax(-1), draft.softmax(-1), tokens, uniforms=uniforms)
        return (*accepted, *sdo.verify_greedy(target, tokens))

    function, counter = compiled(both)
    for batch in range(2, 12):
        target, draft = cases.rows("normal", batch * (K + 1), V), cases.rows("flat", batch * K, V)
        target, draft = target.view(batch, K + 1, V), draft.view(batch, K, V)
        tokens = draft.argmax(-1)
        uniforms = None if generated else torch.rand(batch, K + 1, dtype=torch.float64)
        torch.manual_seed(batch)
        eager = both(target, draft, tokens, uniforms)
        torch.manual_seed(batch)
        for a, b in zip(function(target, draft, tokens, uniforms), eager):
            assert torch.equal(a, b) or generated
            assert a.shape == (batch,)
    assert counter.frame_count <= 2


# ---- Gradients and vmap ----


def test_results_never_require_a_gradient(sdo):
    """As torch.argmax's: a gradient that is silently zero would be the wrong answer."""
    target, draft, tokens = a_round()
    target.requires_grad_(), draft.requires_grad_()
    uniforms = torch.rand(B, K + 1, dtype=torch.float64)
    temperature = torch.ones(B, requires_grad=True)
    results = [
        sdo.filter_logits(target[:, 0], temperature, top_k=5),
        sdo.sample(target[:, 0], temperature, seed=1),
        *sdo.verify(target, draft, tokens, seed=1),
        *sdo.accept(target.softmax(-1), draft.softmax(-1), tokens, uniforms=uniforms),
        *sdo.verify_greedy(target, tokens),
    ]
    assert [result.requires_grad for result in results] == [False] * len(results)
    with pytest.raises(RuntimeError, match="does not require grad"):
        results[0].sum().backward()
    function, _ = compiled(lambda x: sdo.filter_logits(x, top_k=5) + 1)
    assert not function(target[:, 0]).requires_grad


def test_vmap_is_refused_where_rows_would_share_a_noise_stream(sdo):
    target, draft, tokens = a_round()
    wanted = "torch.func.vmap, wanted a batch"
    with pytest.raises(RuntimeError, match=f"sample: called under {wanted}"):
        torch.func.vmap(lambda x: sdo.sample(x, seed=1))(target[:, 0])
    with pytest.raises(RuntimeError, match=f"verify: called under {wanted}"):
        torch.func.vmap(lambda *round: sdo.verify(*round, seed=1)[1])(
            target[:, None], draft[:, None], tokens[:, None]
        )


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_of_what_draws_nothing_is_the_batch(sdo):
    logits = cases.rows("normal", B, V)
    rows = torch.func.vmap(lambda x: sdo.filter_logits(x, 0.7, top_k=5))(logits)
    assert cases.same_bits(rows, sdo.filter_logits(logits, 0.7, top_k=5))


# ---- Threads ----


def test_the_number_of_threads_does_not_matter(sdo):
    logits = cases.rows("flat", 12, 50257)
    target = logits.view(4, 3, 50257)
    tokens = target[:, :2].argmax(-1)
    threads = torch.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            results.append(
                (
                    *sdo.sample(logits, seed=3, top_p=0.9).tolist(),
                    *sdo.filter_logits(logits, top_k=50).flatten().tolist(),
                    *sdo.verify(target, None, tokens, seed=3)[1].flatten().tolist(),
                )
            )
    finally:
        torch.set_num_threads(threads)
    assert results[0] == results[1] == results[2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_computes_on_its_own(sdo):
    """Torch's threads do not survive a fork: a child that waits for them hangs."""
    logits = cases.rows("flat", 12, 50257)
    tokens = sdo.sample(logits, seed=3, top_p=0.9).tolist()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(
        target=lambda: queue.put(sdo.sample(logits, seed=3, top_p=0.9).tolist())
    )
    child.start()
    try:
        assert queue.get(timeout=60) == tokens
    finally:
        child.kill()


def test_a_callers_rounding_mode_for_subnormals_does_not_matter(sdo):
    logits = cases.rows("normal", 4, 999) * 1e-41
    plain = sdo.filter_logits(logits, 1e-41, top_p=0.9)
    assert plain.isfinite().sum() < 4 * 999
    if not torch.set_flush_denormal(True):
        pytest.skip("this machine cannot flush denormals")
    try:
        flushed = sdo.filter_logits(logits, 1e-41, top_p=0.9)
        tokens = sdo.sample(logits, 1e-41, seed=1)
        assert torch.set_flush_denormal(True)  # the caller's setting is still there
        assert float(torch.tensor(1e-41) * 1) == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert cases.same_bits(plain, flushed)
    assert torch.equal(tokens, sdo.sample(logits, 1e-41, seed=1))
