# SPDX-License-Identifier: Apache-2.0
"""KeyboardInterrupt may come at any line of the loop: caches stay right, and the text goes on from
what was handed over as if nothing had been."""

import signal
import sys
import threading
from pathlib import Path

import pytest
from test_decoder_loop import cached_pair, plain_greedy, right, with_hooks
from toy_models import PROMPT

NEW = 14

pytestmark = pytest.mark.usefixtures("one_thread")


class Interrupt:
    """Raises KeyboardInterrupt at the package's line number `at` after it was set, as Ctrl-C would;
    while a round is undone nothing is raised, and every line counts."""

    def __init__(self, sdo, at):
        self.folder, self.at, self.lines = str(Path(sdo.__file__).parent), at, 0

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def _trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(self.folder):
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._trace


def interrupted(sdo, at, **options):
    """The text handed over before line `at` of the loop, with the decoder and its caches."""
    draft, target = cached_pair(lambda text: right(text) if len(text) % 3 else 0)
    decoder = with_hooks(sdo, draft, target, k=3, **options)
    text, stream = list(PROMPT), decoder.stream(PROMPT, NEW)
    with Interrupt(sdo, at) as interrupt:
        try:
            for tokens, _ in stream:
                text += tokens
        except KeyboardInterrupt:
            return text, decoder, draft, target
    return interrupt.lines


def lines_of(sdo, **options):
    return interrupted(sdo, None, **options)


@pytest.mark.skipif(threading.active_count() > 64, reason="another tracer may be at work")
def test_an_interrupt_at_any_line_leaves_caches_that_can_go_on(sdo):
    count = lines_of(sdo)
    assert count > 300
    for at in range(1, count + 1, 3):
        text, decoder, draft, target = interrupted(sdo, at)
        assert text == plain_greedy(NEW)[: len(text)]
        assert target.held in (text[:-1], []), at
        assert draft.held == text[: len(draft.held)], at
        assert decoder.generate(text, NEW + len(PROMPT) - len(text)) == plain_greedy(NEW), at


@pytest.mark.parametrize("name", ["draft_step", "target_step", "on_round", "target_rollback"])
def test_ctrl_c_in_a_callback_comes_out_of_the_loop(sdo, name):
    draft, target = cached_pair(right)
    decoder = with_hooks(sdo, draft, target, k=3, on_round=lambda *_: None)
    calls = []

    def interrupts(whole):
        def callback(*arguments):
            result = whole(*arguments)
            calls.append(1)
            if len(calls) == 2:
                signal.raise_signal(signal.SIGINT)
            return result

        return callback

    if name in decoder.rollbacks:
        decoder.rollbacks[name] = interrupts(decoder.rollbacks[name])
    else:
        setattr(decoder, name, interrupts(getattr(decoder, name)))
    text = list(PROMPT)
    with pytest.raises(KeyboardInterrupt) as error:
        for tokens, _ in decoder.stream(PROMPT, NEW):
            text += tokens
    assert f"raised by the callback {name}" in error.value.__notes__
    assert target.held == text[:-1] and draft.held == text[: len(draft.held)]
    assert decoder.generate(text, NEW + len(PROMPT) - len(text)) == plain_greedy(NEW)
