// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/nvlink_switch.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/base/read_number.h"

namespace moesim {
namespace {

/// Whether a person typed the line behind a shell's prompt.
bool is_typed(std::string_view line) {
  const std::size_t prompt = line.find("$ ");
  if (prompt != std::string_view::npos && line.find(' ') == prompt + 1) return true;
  return line.find("]$ ") < line.size() || line.find("]# ") < line.size() ||
         line.find("~# ") < line.size();
}

bool starts_a_job(const std::string& line) {
  constexpr std::array<std::string_view, 4> signs = {"kubectl ", "helm ", "sbatch ", "qsub "};
  return std::ranges::any_of(
      signs, [&](std::string_view sign) { return line.find(sign) != std::string::npos; });
}

/// "value: "0"" of a manifest as an assignment; empty if it is none.
std::string value_in(const std::string& line) {
  const std::size_t at = line.find("value");
  if (at == std::string::npos) return "";
  const std::size_t colon = line.find(':', at);
  if (colon == std::string::npos) return "";
  const std::size_t digit = line.find_first_not_of(" \t\"'", colon + 1);
  if (digit == std::string::npos) return "";
  const std::size_t end = std::min(line.find_first_not_of("0123456789", digit), line.size());
  return end == digit ? "" : line.substr(digit, end - digit);
}

/// Whether the line is of a manifest and gives the name: "- name: NCCL_MNNVL_ENABLE".
bool is_named(const std::string& line) {
  const std::size_t at = line.find(nvlink_variable);
  const std::size_t key = line.find("name");
  return at != std::string::npos && key < at && line.find(':', key) < at && line.find('#') > at;
}

}  // namespace

std::optional<int> nvlink_said_by_nccl(std::string_view line) {
  constexpr std::string_view by = " set by ", to = " to ";
  const std::size_t at = line.find(nvlink_variable);
  if (at == std::string_view::npos || !line.substr(at + nvlink_variable.size()).starts_with(by))
    return {};
  const std::size_t value = line.find(to, at);
  if (value == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(value + to.size());
  return parse_integer<int>(std::string(rest.substr(0, rest.find_first_not_of("0123456789"))));
}

std::optional<NvlinkSetting> NvlinkSwitch::in_manifest(const std::string& line) {
  const std::string before = std::exchange(before_, line);
  std::string value;
  if (is_named(line)) {
    value = value_in(line);
    if (value.empty() && before.find("name") == std::string::npos) value = value_in(before);
  } else if (is_named(before) && value_in(before).empty()) {
    value = value_in(line);
  }
  if (value.empty()) return std::nullopt;
  before_.clear();
  return NvlinkSetting{value.find_first_not_of('0') == std::string::npos ? 0
                       : value == "1"                                    ? 1
                                                                         : 2,
                       NvlinkSetting::Scope::job};
}

std::optional<NvlinkSetting> NvlinkSwitch::read(const std::string& line) {
  if (line.ends_with("\\")) {
    begun_ += line.substr(0, line.size() - 1);
    return std::nullopt;
  }
  const std::string whole = std::exchange(begun_, "") + line;
  begin_jobs(whole);
  std::optional<NvlinkSetting> setting = in_manifest(whole);
  if (!setting) setting = nvlink_setting_in(whole);
  if (setting) note(*setting);
  return setting;
}

void NvlinkSwitch::begin_jobs(const std::string& line) {
  const bool typed = is_typed(line), script = line.starts_with("#!");
  if (typed) command_.reset();
  if (typed || script) in_script_ = script;
  bool other = script;
  if (starts_a_job(line)) other = std::exchange(job_start_, line) != line;
  if (job_ran_ && other) job_.reset();
}

void NvlinkSwitch::note(const NvlinkSetting& setting) {
  if (setting.scope == NvlinkSetting::Scope::command) {
    command_ = setting;
    return;
  }
  command_.reset();
  job_.reset();
  job_ran_ = false;
  if (in_script_ || setting.scope == NvlinkSetting::Scope::job) {
    job_ = setting;
  } else {
    all_ = setting.value;
  }
}

std::optional<int> NvlinkSwitch::take_for_test() {
  if (!begun_.empty()) read("");
  job_ran_ = true;
  const auto of_command = std::exchange(command_, std::nullopt);
  if (of_command) return of_command->value;
  return job_ ? job_->value : all_;
}

}  // namespace moesim
