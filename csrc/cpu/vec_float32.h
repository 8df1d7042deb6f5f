// SPDX-License-Identifier: Apache-2.0
// The float32 functions that the vector vocabulary overloads, where its overloads are declared:
// from further out they would be hidden by them.
#pragma once

#include "common/divide.h"

namespace spec_decode_ops {
namespace {

using spec_decode_ops::add;
using spec_decode_ops::bits_above;
using spec_decode_ops::div;
using spec_decode_ops::fill;
using spec_decode_ops::fma;
using spec_decode_ops::larger;
using spec_decode_ops::mul;
using spec_decode_ops::shift_to_exponent;
using spec_decode_ops::sub;

}  // namespace
}  // namespace spec_decode_ops
