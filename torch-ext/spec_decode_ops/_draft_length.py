# SPDX-License-Identifier: Apache-2.0
"""How many tokens a round drafts: always the most, or as many as pay by what was measured.

A round of k drafts is expected to give 1 + a_1 + a_1 a_2 + ... + a_1 ... a_k tokens, a_i being the
chance that draft token i is accepted once those before it are. It takes k times the seconds of a
draft token, and those of a target call that reads k + 1 tokens. The best k gives most tokens a
second. All of it is learned from earlier rounds, so that k never depends on the round's own draft
and the emitted stream keeps its law.
"""

from typing import NamedTuple

MEMORY = 0.9  # weight of what was known before each new observation
PRIOR, PRIOR_WEIGHT = 0.5, 2.0  # acceptance before anything was seen, and how many trials it counts
FIRST = 5  # draft tokens a round before a draft's seconds were measured, or if it is dear, at most
FREE = 0.02  # share of a target call under which drafts are asked for only to watch them
PROBE_AFTER, PROBE_AT_MOST = 16, 256  # rounds without a draft before one is tried; doubles
PROBE = 2  # draft tokens of such a trial
PLAIN_SHARE = 0.6  # of a call with one draft token, that one without is thought to take untimed
GAIN = 1.05  # by which drafting must beat plain decoding: measurements are noisy


class Plan(NamedTuple):
    """Ask the draft for so many tokens, and let the target read so many of them."""

    ask: int
    use: int


class FixedLength:
    """Always the most."""

    def plan(self, limit: int) -> Plan:
        return Plan(limit, limit)

    def add_acceptance(self, drafted: int, accepted: int) -> None:
        pass

    def add_times(self, asked: int, read: int, draft_seconds: float, seconds: float) -> None:
        pass

    def watch(self, draft: list, emitted: list, row: int = 0) -> None:
        pass


class AdaptiveLength:
    """As many as pay, by what was measured.

    While drafting does not pay, a draft that is nearly free is still asked for and compared with
    what the target then says; a dear one is tried again now and then.
    """

    def __init__(self, most: int):
        # By position, after a draft that came true and after one that did not: a text copies for a
        # while, or does not.
        self._trials_after = {right: [_Share() for _ in range(most)] for right in (True, False)}
        self._came_true = False
        self._draft_token = _Average()
        self._plain = _Average()  # seconds of a target call without drafts
        self._drafted = _Line()  # seconds of others, by the number of tokens they read
        self._rounds_without = 0
        self._probe_after = PROBE_AFTER
        # By row: a draft that was not used, and how much of it came true.
        self._watched: dict[int, tuple[list, int]] = {}
        self._first_call = 0.0  # its seconds: it reads the prompt

    def plan(self, limit: int) -> Plan:
        use = self._best(limit)
        if use:
            return Plan(use, use)
        return Plan(limit if self._is_free(limit) else 0, 0)

    def add_acceptance(self, drafted: int, accepted: int) -> None:
        """What became of a draft that the target read."""
        for i in range(min(drafted, accepted + 1)):
            self._trials_after[self._came_true][i].add(i < accepted)
        if drafted:
            self._watched.clear()
            self._came_true = good = accepted == drafted
            self._probe_after = PROBE_AFTER if good else min(2 * self._probe_after, PROBE_AT_MOST)

    def add_times(self, asked: int, read: int, draft_seconds: float, seconds: float) -> None:
        """Seconds of drafting `asked` tokens, and of a target call with `read` draft tokens."""
        if asked:
            self._draft_token.add(draft_seconds / asked)
        self._rounds_without = 0 if read else self._rounds_without + 1
        if not self._first_call:
            self._first_call = seconds
        elif read:
            self._drafted.add(read + 1, seconds)
        else:
            self._plain.add(seconds)

    def watch(self, draft: list, emitted: list, row: int = 0) -> None:
        """Compares a draft that the target did not read with what it emitted instead, in this
        round and the next ones until they differ."""
        draft, depth = self._watched.pop(row, (draft, 0))
        for token in emitted[: len(draft) - depth]:
            right = draft[depth] == token
            self._trials_after[self._came_true][depth].add(right)
            self._came_true = right
            depth += 1
            if not right:
                return
        if depth < len(draft):
            self._watched[row] = draft, depth

    def _best(self, limit: int) -> int:
        if limit <= 0:
            return 0
        if not self._drafted.seen:
            return limit if self._draft_token.seen and self._is_free(limit) else min(limit, FIRST)
        best, most = 0, GAIN / self._seconds(0)
        expected, chance, estimate = 1.0, 1.0, PRIOR
        for k in range(1, limit + 1):
            estimate = self._trials_after[self._came_true][k - 1].estimate(estimate)
            chance *= estimate
            expected += chance
            if expected / self._seconds(k) > most:
                best, most = k, expected / self._seconds(k)
        if not best and not self._is_free(limit) and self._rounds_without >= self._probe_after:
            return min(limit, PROBE)
        return best

    def _seconds(self, k: int) -> float:
        """Of a round with k drafts."""
        if k == 0:
            return self._plain.value if self._plain.seen else PLAIN_SHARE * self._drafted.at(2)
        return self._draft_token.value * k + self._drafted.at(k + 1)

    def _is_free(self, k: int) -> bool:
        """By the first call's seconds, which reads the prompt, before others were timed."""
        return self._draft_token.value * k < FREE * (self._seconds(0) or self._first_call)


class _Share:
    """Of recent trials, the share that succeeded."""

    def __init__(self):
        self.tried = self.succeeded = 0.0

    def add(self, success: bool) -> None:
        self.tried = self.tried * MEMORY + 1
        self.succeeded = self.succeeded * MEMORY + success

    def estimate(self, prior: float) -> float:
        return (self.succeeded + PRIOR_WEIGHT * prior) / (self.tried + PRIOR_WEIGHT)


class _Average:
    """Of recent values; one that is far off, as on a busy machine, counts as twice the average."""

    def __init__(self):
        self.value, self.seen = 0.0, 0

    def add(self, value: float) -> None:
        self.seen += 1
        if self.seen == 1:
            self.value = value
        else:
            weight = max(1 - MEMORY, 1 / self.seen)
            self.value += weight * (min(value, 2 * self.value) - self.value)


class _Line:
    """Seconds as a line over the number of tokens, by least squares over recent values."""

    def __init__(self):
        self.seen = 0
        self.weight = self.n = self.t = self.nn = self.nt = 0.0

    def add(self, n: int, seconds: float) -> None:
        if self.seen:
            seconds = min(seconds, 2 * self.at(n))
        self.seen += 1
        self.weight = self.weight * MEMORY + 1
        self.n = self.n * MEMORY + n
        self.t = self.t * MEMORY + seconds
        self.nn = self.nn * MEMORY + n * n
        self.nt = self.nt * MEMORY + n * seconds

    def at(self, n: int) -> float:
        """A line that falls, or has no spread to it, is level."""
        if not self.seen:
            return 0.0
        mean_n, mean_t = self.n / self.weight, self.t / self.weight
        spread = self.nn / self.weight - mean_n**2
        slope = (self.nt / self.weight - mean_n * mean_t) / spread if spread > 0.05 else 0.0
        return max(mean_t + max(slope, 0.0) * (n - mean_n), 0.1 * mean_t)
