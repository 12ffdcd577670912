// SPDX-License-Identifier: Apache-2.0
// The formats that read_log knows, and what their readers share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/linkfit/logs/read_log.h"

namespace moesim {

/// Each reads a file of its format and leaves `file` and `hash` to its caller.
Log parse_nccl_tests_text(const std::string& text, const std::string& file,
                          const LogChoice& choice);
Log parse_nccl_tests_json(const std::string& text, const std::string& file,
                          const LogChoice& choice);
/// Whether the first line names columns: between separators, or those of a known table.
bool is_table(const std::string& text);
Log parse_table(const std::string& text, const std::string& file, const LogChoice& choice);

/// Lines without their ends: a newline, after any carriage returns, or carriage returns without
/// one.
std::vector<std::string> lines_of(const std::string& text);

/// The number that the whole word is; throws Error naming what it should be.
double number_in(const std::string& file, int line, std::string_view what, const std::string& word);

/// "alltoall of 8 ranks on 2 hosts".
std::string label(const Setting& setting);

/// Throws Error for more hosts than ranks.
void check_hosts(int ranks, int hosts, const std::string& file, int line);

/// The share of a test's bytes that a link carries.
struct LinkShare {
  std::string file;
  double bytes_per_byte;  // of nccl-tests' "size"
  /// Throws Error for sizes that no link carries.
  Bytes bytes(double size) const;
  /// Adds the time of an exchange of that size if something crosses the link.
  void add(double size, Seconds time, Log& log) const {
    if (bytes(size) > Bytes(0)) log.samples.push_back({bytes(size), time});
  }
};
/// The share for the reach that is chosen, or that follows from the hosts and the NVLink domain.
/// Notes in the log what was measured. Throws Error when nothing crosses such links.
LinkShare link_share(const std::string& file, const Setting& setting, const LogChoice& choice,
                     Log& log);

inline constexpr const char* cpu_times =
    "its times are what the CPU took to launch (-C 1), not those of the exchanges";
inline constexpr const char* cpu_times_hint = "run the test without -C";

inline constexpr const char* wrong_results_hint =
    "the hardware or the library is broken: times of wrong results mean nothing";

}  // namespace moesim
