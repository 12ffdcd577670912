// SPDX-License-Identifier: Apache-2.0
#include "realhw/cuda/op_range.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

namespace moesim {

OpRange::OpRange(const std::string& name) { nvtxRangePushA(name.c_str()); }
OpRange::~OpRange() { nvtxRangePop(); }

}  // namespace moesim

#else

namespace moesim {

OpRange::OpRange(const std::string&) {}
OpRange::~OpRange() = default;

}  // namespace moesim

#endif
