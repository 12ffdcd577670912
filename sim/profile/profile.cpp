// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/profile.h"

#include <algorithm>

namespace moesim {

const std::vector<std::string>& kernel_kind_names() {
  static const std::vector<std::string> names = {
      "unknown",    "gemm",          "grouped-gemm", "attention",  "attention-backward",
      "conv",       "norm",          "elementwise",  "activation", "cast",
      "permute",    "router",        "rope",         "embedding",  "loss",
      "optimizer",  "reduction",     "scan",         "sort",       "cache",
      "copy",       "host",          "all-to-all",   "all-gather", "reduce-scatter",
      "all-reduce", "broadcast",     "send-recv",    "dispatch",   "combine",
      "notify",     "other-exchange"};
  return names;
}

const std::string& name_of(KernelKind kind) {
  return kernel_kind_names()[static_cast<std::size_t>(kind)];
}

bool is_exchange(KernelKind kind) { return kind >= KernelKind::all_to_all; }

bool is_log(const Profile& profile) {
  return !profile.ranks.empty() && !profile.ranks.front().steps.empty() &&
         std::ranges::all_of(profile.ranks, [](const auto& rank) { return rank.kernels.empty(); });
}

}  // namespace moesim
