// SPDX-License-Identifier: Apache-2.0
// What moesim's own --timeline writes: a simulated step read as a profile.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/model/op_kind.h"
#include "sim/profile/flat_json.h"
#include "sim/profile/profile_builder.h"

namespace moesim {

/// The kind of the kernels that an op of a plan stands for. `stage` as in the timeline: "dispatch".
KernelKind kind_of_op(const OpType& op, std::string_view stage);

class MoesimTimeline {
 public:
  /// If the file's "otherData" says that moesim wrote it.
  static std::optional<MoesimTimeline> of(std::string_view other_data);

  void take(const FlatObject& event, KernelNames& names, const std::string& path);
  /// Throws Error if the file shows several cases, or no rank.
  void finish(const std::string& path, Profile& profile);

 private:
  void take_name(const FlatObject& event, const std::string& path);
  void take_slice(const FlatObject& event, KernelNames& names, const std::string& path);

  struct Process {
    int rank = -1;  // -1: the whole cluster
    RankBuilder builder{0};
    std::map<std::string, std::string, std::less<>> streams;  // by thread
  };
  std::map<std::int64_t, Process> processes_;
  std::vector<std::pair<ProfileTicks, ProfileTicks>> steps_;
  std::string case_;  // before the ranks' names
  UntimedKernels untimed_;
};

}  // namespace moesim
