# SPDX-License-Identifier: Apache-2.0
"""The kernels under load: many threads, many calls, forks, an interpreter that ends meanwhile, and
no memory left."""

import ctypes
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import cases
import own_process
import pytest
import torch

THREADS = 64


def calls(sdo, vocab):
    """Calls of every op, by name: each gives the same list of ints at every time."""
    logits = cases.rows("peaked", 3, vocab)
    target, draft = cases.rows("flat", 6, vocab).view(2, 3, vocab), cases.rows("flat", 4, vocab)
    draft = draft.view(2, 2, vocab)
    tokens = draft.argmax(-1)
    previous = cases.history(3, 12, vocab)
    uniforms = torch.linspace(0.1, 0.9, 6, dtype=torch.float64).view(2, 3)
    p, q = target.softmax(-1), draft.softmax(-1)
    chain = {"top_k": 40, "min_p": 0.01, "repetition_penalty": 1.3, "prev_tokens": previous}
    verify = {"seed": 3, "offset": 7}

    def ints(*results):
        return [int(each) for result in results for each in result.reshape(-1)]

    def kept(filtered):
        return ints(cases.bits(filtered).sum(), filtered.isfinite().sum())

    return {
        "sample": lambda: ints(sdo.sample(logits, 0.8, seed=3)),
        "sample of a chain": lambda: ints(sdo.sample(logits, 0.8, **chain, seed=3)),
        "sample by top-p": lambda: ints(sdo.sample(logits.half(), top_p=0.8, seed=3)),
        "filter_logits": lambda: kept(sdo.filter_logits(logits, 0.8, **chain)),
        "filter_logits by top-p": lambda: kept(sdo.filter_logits(logits, top_p=0.7)),
        "verify": lambda: ints(*sdo.verify(target, draft, tokens, **verify)),
        "verify with filters": lambda: ints(*sdo.verify(target, draft, tokens, top_k=9, **verify)),
        "verify coupled": lambda: ints(
            *sdo.verify(target, None, tokens, method="coupled", **verify)
        ),
        "verify_greedy": lambda: list(sdo.verify_greedy(target[0], tokens[0])),
        "accept": lambda: ints(*sdo.accept(p, q, tokens, uniforms=uniforms)),
        "accept one": lambda: list(sdo._accept_with_uniforms(p[0], q[0], tokens[0], uniforms[0])),
    }


@pytest.fixture
def torch_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("torch_threads", [1, 2], indirect=True)
def test_64_threads_get_what_one_gets(sdo, torch_threads):
    asked = [call for vocab in (33, 999, 32768) for call in calls(sdo, vocab).values()]
    expected = [call() for call in asked]
    start = threading.Barrier(THREADS)

    def wrong_answers(number):
        order = [(number * 7 + i) % len(asked) for i in range(len(asked))]
        start.wait(60)
        return [i for i in order if asked[i]() != expected[i]]

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(wrong_answers, range(THREADS))) == [[]] * THREADS


# ---- Forks and the end of the interpreter ----

FORKS = """
logits = torch.linspace(-3, 3, 50257).expand(12, 50257)
tokens = sdo.sample(logits, top_p=0.9, seed=3).tolist()

def keep_calling():
    while True:
        sdo.sample(logits, top_p=0.9, seed=3)

def child_is_right(depth):
    pid = os.fork()
    if pid:
        return os.waitpid(pid, 0)[1] == 0
    right = sdo.sample(logits, top_p=0.9, seed=3).tolist() == tokens
    os._exit(0 if right and (depth == 0 or child_is_right(depth - 1)) else 1)

print(child_is_right(2))
for _ in range(4):
    threading.Thread(target=keep_calling, daemon=True).start()
print(all(child_is_right(0) for _ in range(20)))
os._exit(0)  # of the threads' end another test speaks
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_forked_child_and_its_child_compute_even_while_others_are_in_a_call(sdo, threads):
    code = "import sys\nsys.stdout.reconfigure(line_buffering=True)\n" + FORKS
    assert own_process.run(sdo, code, threads=threads).split() == ["True", "True"]


LONG_CALL = """
import time
logits = torch.linspace(-3, 3, 50257).expand(300_000, 50257)  # one row, read for many seconds
threading.Thread(target=lambda: sdo.sample(logits, top_p=0.9, seed=3), daemon=True).start()
time.sleep(0.3)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_the_interpreter_may_end_during_a_call(sdo, threads):
    own_process.run(sdo, LONG_CALL, threads=threads)


SHORT_CALLS = """
logits = torch.linspace(-3, 3, 50257).repeat(12, 1)
begun = threading.Semaphore(0)

def keep_calling():
    while True:
        begun.release()
        {call}

for _ in range(4):
    threading.Thread(target=keep_calling, daemon=True).start()
for _ in range(12):
    begun.acquire()
"""


def test_a_call_that_returns_to_an_ended_interpreter_does_what_torchs_own_do(sdo):
    """Before Python 3.14 that is to abort: a thread may not come back then. A second thread that
    aborts in the meantime may say so too."""
    ends = []
    for call in ("sdo.sample(logits, top_p=0.9, seed=3)", "torch.sort(logits)"):
        result = own_process.finished(sdo, SHORT_CALLS.format(call=call))
        ends.append((result.returncode, result.stderr.splitlines()[:1]))
    assert ends[0] == ends[1]


def test_a_call_while_the_interpreter_ends_works(sdo):
    code = """
import atexit
logits = torch.linspace(0, 9, 999)
atexit.register(lambda: print(int(sdo.sample(logits, 0.0))))
"""
    assert own_process.run(sdo, code).split() == ["998"]


# ---- Memory ----


class MallInfo(ctypes.Structure):
    """What glibc's mallinfo2 returns."""

    NAMES = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in NAMES.split()]


def memory_in_use():
    """Bytes that malloc has given to this thread, and a lower bound of Python's own. What the
    process has of the system says little: it keeps what was freed."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("needs mallinfo2 of glibc 2.33")
    libc.mallinfo2.restype = MallInfo
    info = libc.mallinfo2()
    return info.uordblks + info.hblkhd + 16 * sys.getallocatedblocks()


def address_space():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def growth(function, count, memory=memory_in_use):
    """By how many bytes `memory` has grown after so many calls."""
    for _ in range(count // 10 + 1):
        function()
    gc.collect()
    before = memory()
    for _ in range(count):
        function()
    gc.collect()
    return memory() - before


def every_op_in_turn(sdo):
    """Short calls, and one that is refused."""
    logits = torch.linspace(-1, 1, 33)[None]
    target, tokens = logits.expand(3, 33), torch.tensor([3, 4])
    generator = torch.Generator()

    def refused():
        try:
            sdo.sample(logits, top_k=torch.ones(2))
        except RuntimeError:
            return
        raise AssertionError("nothing was raised")

    turn = [
        lambda: sdo.sample(logits, 0.8, top_p=0.9),
        lambda: sdo.filter_logits(logits, top_k=5),
        lambda: sdo.verify(target[None], None, tokens[None], 0.9),
        lambda: sdo.accept(target, None, tokens, generator),
        lambda: sdo.verify_greedy(target, tokens),
        refused,
    ]
    calls = iter(range(2**62))
    return lambda: turn[next(calls) % len(turn)]()


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(100_000, marks=pytest.mark.slow),
        pytest.param(1_000_000, marks=pytest.mark.long),
    ],
)
def test_many_calls_take_no_memory(sdo, one_thread, count):
    assert growth(every_op_in_turn(sdo), count) < count  # less than a byte a call


LEAKS = {
    "of Python": lambda kept: lambda: kept.append(object()),
    "of C": lambda kept: lambda: ctypes.CDLL(None).malloc(16),
}


@pytest.mark.parametrize("kind", LEAKS)
def test_a_leak_of_16_bytes_a_call_is_noticed(kind):
    assert growth(LEAKS[kind]([]), 10_000) > 10 * 10_000


def test_a_thread_that_ends_gives_its_workspace_back(sdo, one_thread):
    logits = torch.linspace(-3, 3, 2**19)

    def one_call():
        thread = threading.Thread(target=lambda: sdo.sample(logits, top_k=5, seed=1))
        thread.start()
        thread.join()

    assert growth(one_call, 40, address_space) < 100 * 2**20  # one workspace has over 2**24


NO_MEMORY = """
import resource
few, many = torch.zeros(4, 20000), torch.zeros(2, 2**20)
few[:, 7] = many[:, 777_777] = 50.0
tokens = torch.full((2, 1), 777_777)
calls = {
    "sample": lambda x: sdo.sample(x, seed=1).tolist(),
    "filter_logits": lambda x: sdo.filter_logits(x, 0.0).isfinite().sum(1).tolist(),
    "verify": lambda x: sdo.verify(x[:, None], None, tokens[:, :0], seed=1)[1][:, 0].tolist(),
    "accept": lambda x: sdo.accept(x, None, tokens[:1, 0])[1],
    "verify_greedy": lambda x: sdo.verify_greedy(x, tokens[:1, 0])[1],
}
for name, call in calls.items():
    call(few[:2])
sdo.sample(few, seed=1)  # all threads have begun

limits = resource.getrlimit(resource.RLIMIT_AS)
with open("/proc/self/statm") as statm:
    size = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 24 * 2**20, limits[1]))
for name, call in calls.items():
    for _ in range(3):
        try:
            print(name, call(many))
        except RuntimeError as error:
            print(name, error)
        assert sdo.sample(few, seed=1).tolist() == [7] * 4, "a short call"
resource.setrlimit(resource.RLIMIT_AS, limits)
for name, call in calls.items():
    print(name, call(many))
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_without_memory_for_a_workspace_a_call_raises_and_the_next_one_works(sdo, threads):
    lines = own_process.run(sdo, NO_MEMORY, threads=threads).splitlines()
    names = ["sample", "filter_logits", "verify", "accept", "verify_greedy"]
    refusal = "spec_decode_ops: no memory for the workspace of a row"
    assert lines[:15] == [f"{name} {refusal}" for name in names for _ in range(3)]
    results = [[777_777] * 2, [1] * 2, [777_777] * 2, 777_777, 777_777]
    assert lines[15:] == [f"{name} {result}" for name, result in zip(names, results)]
