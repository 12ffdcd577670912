// SPDX-License-Identifier: Apache-2.0
// Files of measured exchange times: logs of nccl-tests and published tables.
#pragma once

#include <optional>
#include <string>

#include "sim/calibrate/measurement.h"

namespace moesim {

/// What to take from a file that holds more, and what the file does not say itself.
struct LogChoice {
  std::optional<Collective> collective;
  std::optional<int> ranks;
  std::optional<LinkReach> reach;  // without it fabric when there are several hosts
  bool in_place = false;           // the second columns of nccl-tests
};

/// Reads a log of nccl-tests (text or JSON) or a table (see docs/calibration.md), also compressed
/// by gzip. Throws Error with file, line and hint when it is no such file, is incomplete, has wrong
/// results, or does not hold what is chosen.
Log read_log(const std::string& path, const LogChoice& choice);

/// The same from text; `file` stands for it in messages.
Log parse_log(const std::string& text, const std::string& file, const LogChoice& choice);

}  // namespace moesim
