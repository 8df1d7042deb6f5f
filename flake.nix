# SPDX-License-Identifier: Apache-2.0
{
  description = "spec-decode-ops: exact sampling and speculative verification kernels";

  inputs.kernel-builder.url = "github:huggingface/kernels";

  outputs =
    { self, kernel-builder }:
    kernel-builder.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };
}
