# SPDX-License-Identifier: Apache-2.0
"""What a test needs, if this machine has the tools that make it."""

import os

import backends
import pytest


def made_or_skip(make, *arguments):
    """A machine without the tools skips, but not in CI."""
    try:
        return make(*arguments)
    except backends.Unavailable as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))
