// SPDX-License-Identifier: Apache-2.0
// All kernels. They are compiled once for each target, in the vector vocabulary and for the
// instruction set that its file chose before it included this one.
#pragma once

#include "cpu/accept-inl.h"
#include "cpu/filter-inl.h"
#include "cpu/logprobs-inl.h"
#include "cpu/sample-inl.h"
#include "cpu/verify-inl.h"
