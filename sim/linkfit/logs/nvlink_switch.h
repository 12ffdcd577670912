// SPDX-License-Identifier: Apache-2.0
// How long what a log sets of NCCL_MNNVL_ENABLE holds: for one command, a job or all tests.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/linkfit/logs/nvlink_setting.h"

namespace moesim {

/// What NCCL says of it in a line of its own output.
std::optional<int> nvlink_said_by_nccl(std::string_view line);

/// What it is for the tests of a log, by the lines before them.
class NvlinkSwitch {
 public:
  /// Takes a line that is not NCCL's. What it sets, if it does.
  std::optional<NvlinkSetting> read(const std::string& line);
  void set_for_next_test(std::optional<int> value) { command_ = NvlinkSetting{value}; }
  /// Ends what holds for one command.
  std::optional<int> take_for_test();

 private:
  void note(const NvlinkSetting& setting);
  /// Ends what held for a script or job before that one.
  void begin_jobs(const std::string& line);
  std::optional<NvlinkSetting> in_manifest(const std::string& line);

  std::string begun_;       // a command that continues in the next line
  std::string before_;      // the last line, if a manifest may go on behind it
  std::optional<int> all_;  // for all tests
  std::optional<NvlinkSetting> job_, command_;
  std::string job_start_;  // the last command that started a job
  bool job_ran_ = false;   // a test ran since the job was set
  bool in_script_ = false;
};

}  // namespace moesim
