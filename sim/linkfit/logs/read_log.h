// SPDX-License-Identifier: Apache-2.0
// Files of measured exchange times: logs of nccl-tests and published tables.
#pragma once

#include <optional>
#include <string>

#include "sim/linkfit/measurement.h"

namespace moesim {

/// What to take from a file that holds more, and what the file does not say itself.
struct LogChoice {
  std::optional<Collective> collective;
  std::optional<int> ranks;
  std::optional<int> hosts;        // names of machines
  std::optional<int> slots;        // ranks that these hosts took
  std::string only_host;           // the name, if --hosts is one
  std::optional<int> domain;       // GPUs of the run that share NVLink; else those of a host
  std::optional<LinkReach> reach;  // without it fabric when there are several domains
  std::optional<int> test;         // counted from 1, of a log with several
  bool in_place = false;           // the second columns of nccl-tests
};

/// Reads a log of nccl-tests (text or JSON) or a table (see docs/calibration.md), also compressed
/// by gzip. Tests of one setting in a file are runs of it. Throws Error with file, line and hint
/// when it is not such a file, has wrong results, fewer than two sizes of a test that ended early,
/// several settings in a table, or nothing of what is chosen.
Log read_log(const std::string& path, const LogChoice& choice);

/// The same from text; `file` stands for it in messages.
Log parse_log(const std::string& text, const std::string& file, const LogChoice& choice);

}  // namespace moesim
