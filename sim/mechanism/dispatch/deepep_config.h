// SPDX-License-Identifier: Apache-2.0
// How DeepEP's normal kernels cut tokens into chunks.
#pragma once

#include <cstdint>

namespace moesim {

/// Tokens in one RDMA put of the dispatch and of the combine. The published defaults for `ep` ranks
/// (deepseek-ai/DeepEP, deep_ep/buffers/legacy.py); unlisted sizes take those of the next smaller.
struct RdmaChunks {
  int dispatch = 6;
  int combine = 6;
};
RdmaChunks published_chunks(int ep);

/// Two streaming multiprocessors each: 12 of the default 24.
inline constexpr int published_channels = 12;

}  // namespace moesim
