# SPDX-License-Identifier: Apache-2.0
"""How long a call takes: on a GPU by events, in a CUDA graph and eagerly; on a CPU, which is only
there to try this script, by the wall clock. Medians, in microseconds."""

import statistics
import time

import torch

RUNS = 15
GRAPH_US = 3000.0  # about as much work in a graph, so that starting it costs nothing to speak of
MOST_CALLS = 20
WARM_UP = 3


def same(results, others):
    if torch.is_tensor(results):
        results, others = (results,), (others,)
    return all(torch.equal(a, b) for a, b in zip(results, others))


class GpuClock:
    name = "GPU time by CUDA events"

    def __init__(self, device, l2_bytes):
        # Reading twice of L2 leaves nothing else there, and nothing to write back.
        self._filler = torch.zeros(2 * l2_bytes // 4, device=device)
        self._sum = torch.empty((), device=device)

    def _flush(self):
        torch.sum(self._filler, 0, out=self._sum)

    def _between_events(self, run):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def eager(self, call):
        """One call after another, with what the host takes to launch it if that is longer."""
        for _ in range(WARM_UP):
            call()
        once = self._between_events(call)
        calls = calls_of(once)

        def several():
            for _ in range(calls):
                call()

        torch.cuda.synchronize()
        return statistics.median(self._between_events(several) / calls for _ in range(RUNS))

    def graph(self, call, deterministic=False):
        """Calls of one graph, each beginning with what the last one left in L2. If it is said to be
        deterministic, what it leaves must be what the call gives eagerly."""
        calls = calls_of(self.eager(call))
        graph, results = self._capture(call, calls)
        took = self._replays(graph) / calls
        if deterministic and not same(results, call()):
            raise AssertionError("the graph's results are not those of the call")
        return took

    def cold(self, call):
        """The same, but nothing of L2 is the call's when it begins: what calls between flushes take
        longer than the flushes alone."""
        calls = 5

        def flush_and_call():
            self._flush()
            return call()

        alone, _ = self._capture(self._flush, calls)
        both, _ = self._capture(flush_and_call, calls)
        return (self._replays(both) - self._replays(alone)) / calls

    def _capture(self, call, calls):
        torch.cuda.synchronize()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(calls):
                results = call()
        return graph, results

    def _replays(self, graph):
        graph.replay()
        torch.cuda.synchronize()
        return statistics.median(self._between_events(graph.replay) for _ in range(RUNS))

    def copy_gbs(self):
        """Bytes read and written by a copy, a second."""
        free, _ = torch.cuda.mem_get_info()
        count = min(1 << 30, free // 8) // 4
        source = torch.zeros(count, device="cuda")
        target = torch.empty_like(source)
        return 8 * count / self.graph(lambda: target.copy_(source)) / 1e3


class CpuClock:
    name = "CPU self-test, not a GPU time"

    def eager(self, call):
        call()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        return statistics.median(times)

    def graph(self, call, deterministic=False):
        if deterministic and not same(call(), call()):
            raise AssertionError("two calls give different results")
        return self.eager(call)

    def cold(self, call):
        return self.eager(call)

    def copy_gbs(self):
        source = torch.zeros(1 << 18)
        target = torch.empty_like(source)
        return 8 * source.numel() / self.eager(lambda: target.copy_(source)) / 1e3


def calls_of(microseconds):
    """How many calls make up a graph."""
    return max(1, min(MOST_CALLS, int(GRAPH_US / max(microseconds, 1.0))))
