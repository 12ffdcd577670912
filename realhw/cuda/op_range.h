// SPDX-License-Identifier: Apache-2.0
// What the host puts on streams, named for profilers.
#pragma once

#include <string>

namespace moesim {

/// While it lives, profilers show the thread's launches under the name: an NVTX range. Nothing if
/// the build had no NVTX; next to nothing if no profiler is attached.
class OpRange {
 public:
  explicit OpRange(const std::string& name);
  ~OpRange();
  OpRange(const OpRange&) = delete;
};

}  // namespace moesim
