// SPDX-License-Identifier: Apache-2.0
// An instance and what a run keeps of it.
#pragma once

#include <cstdint>
#include <memory>
#include <set>

#include "sim/serving/engine/instance.h"

namespace moesim {

struct ServingPlace {
  std::unique_ptr<ServingInstance> instance;
  std::int64_t recovering = 0;  // losses that it has not recovered from
  std::int64_t serial = 0, kv_most = 0;
  std::int64_t coming = 0;         // requests whose keys and values move to it
  std::set<std::int64_t> unshown;  // requests that came with keys and values and did not run yet
  bool busy() const { return recovering > 0 || instance->in_pass(); }
};

}  // namespace moesim
