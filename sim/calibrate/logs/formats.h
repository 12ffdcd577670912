// SPDX-License-Identifier: Apache-2.0
// The formats that read_log knows, and what their readers share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/logs/read_log.h"

namespace moesim {

/// Each reads a file of its format and leaves `file` and `hash` to its caller.
Log parse_nccl_tests_text(const std::string& text, const std::string& file,
                          const LogChoice& choice);
Log parse_nccl_tests_json(const std::string& text, const std::string& file,
                          const LogChoice& choice);
Log parse_table(const std::string& text, const std::string& file, const LogChoice& choice);

/// Lines without their ends (CRLF too).
std::vector<std::string> lines_of(const std::string& text);

/// The number that the whole word is; throws Error naming what it should be.
double number_in(const std::string& file, int line, std::string_view what, const std::string& word);

/// Throws Error unless the choice allows what the file holds.
void check_choice(const std::string& file, const Setting& setting, const LogChoice& choice);

/// The collective of a test by its name; throws Error for those whose bytes per link are not known.
Collective tested(const std::string& file, int line, const std::string& name);

/// The share of a test's bytes that a link carries.
struct LinkShare {
  std::string file;
  double bytes_per_byte;  // of nccl-tests' "size"
  /// Throws Error for sizes that no link carries.
  Bytes bytes(double size) const;
  /// Adds the time of an exchange of that size where something crosses the link.
  void add(double size, Seconds time, Log& log) const {
    if (bytes(size) > Bytes(0)) log.samples.push_back({bytes(size), time});
  }
};
/// The share for the reach that is chosen, or that follows from the hosts. Notes in the log what
/// was measured. Throws Error when the factor is not known.
LinkShare link_share(const std::string& file, const Setting& setting, const LogChoice& choice,
                     Log& log);

/// One result of nccl-tests as printed.
struct NcclRow {
  double size, microseconds, algbw, busbw;  // bytes, us, GB/s
};
inline constexpr const char* wrong_results_hint =
    "the hardware or the library is broken: times of wrong results mean nothing";

/// Throws Error unless bandwidths and time agree within rounding: with columns mixed up, or another
/// number of ranks, they do not.
void check_row(const std::string& file, int line, const Setting& setting, const NcclRow& row);

}  // namespace moesim
