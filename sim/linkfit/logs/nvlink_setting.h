// SPDX-License-Identifier: Apache-2.0
// What NCCL_MNNVL_ENABLE is, which says whether NCCL uses NVLink between hosts: 0 never, 1 always
// (it fails where it cannot), 2 where it can. Only assignments count, not what is written of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moesim {

inline constexpr std::string_view nvlink_variable = "NCCL_MNNVL_ENABLE";

struct NvlinkSetting {
  enum class Scope { command, job, all };
  std::optional<int> value;  // nothing: it is unset
  Scope scope = Scope::all;
};

/// What a line of a shell, a launcher or a manifest sets; nothing for all other lines.
std::optional<NvlinkSetting> nvlink_setting_in(const std::string& line);

}  // namespace moesim
