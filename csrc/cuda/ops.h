// SPDX-License-Identifier: Apache-2.0
// The ops on an NVIDIA GPU. Each is a chain of launches on one stream: nothing is read back,
// nothing waits, so that a call can be captured in a graph. Pointers of the params are device
// memory.
//
// A call is made in two steps: how many bytes of workspace it needs, which depends on shapes and on
// what the host knows of the parameters, and the launches, which use that many bytes at `workspace`
// (aligned to 256) and leave nothing there for the next call. An error is that of the launch that
// failed.
#pragma once

#include <cuda_runtime_api.h>

#include "common/params.h"

namespace spec_decode_ops {
namespace cuda {

// Two ways to the same tokens: sorting the row, or selecting from it without a sort.
enum class Algorithm : int32_t { kAuto, kSort, kSelect };

size_t sample_workspace(const SampleParams& params, int64_t rows, Algorithm algorithm);
cudaError_t sample(const SampleParams& params, int64_t rows, Algorithm algorithm, void* workspace,
                   cudaStream_t stream);

size_t filter_workspace(const FilterParams& params, int64_t rows, Algorithm algorithm);
cudaError_t filter_logits(const FilterParams& params, int64_t rows, Algorithm algorithm,
                          void* workspace, cudaStream_t stream);

size_t verify_workspace(const VerifyParams& params, int64_t rows, Algorithm algorithm);
cudaError_t verify(const VerifyParams& params, int64_t rows, Algorithm algorithm, void* workspace,
                   cudaStream_t stream);

size_t logprobs_workspace(const LogprobParams& params, int64_t rows, Algorithm algorithm);
cudaError_t logprobs(const LogprobParams& params, int64_t rows, Algorithm algorithm,
                     void* workspace, cudaStream_t stream);

size_t accept_workspace(const AcceptParams& params, int64_t rows);
cudaError_t accept(const AcceptParams& params, int64_t rows, void* workspace, cudaStream_t stream);

}  // namespace cuda
}  // namespace spec_decode_ops
