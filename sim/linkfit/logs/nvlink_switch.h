// SPDX-License-Identifier: Apache-2.0
// How long what a log sets of NCCL_MNNVL_ENABLE holds: for one command, a job or all tests.
#pragma once

#include <optional>
#include <string>

#include "sim/linkfit/logs/nvlink_setting.h"

namespace moesim {

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
  std::optional<NvlinkSetting> in_manifest(const std::string& line);

  std::string begun_;       // a command that goes on in the next line
  std::string before_;      // the last line, if a manifest may go on behind it
  std::optional<int> all_;  // for all tests
  std::optional<NvlinkSetting> job_, command_;
  bool job_ran_ = false;  // a test ran since the job was set
};

}  // namespace moesim
