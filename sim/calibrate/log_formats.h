// SPDX-License-Identifier: Apache-2.0
// The formats that read_log knows, and what their readers share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/measurement.h"

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

/// The reach that is chosen or follows from the hosts, and the factor for it; throws Error when
/// that is not known.
struct LinkShare {
  Reach reach;
  double bytes_per_byte;
};
LinkShare link_share(const std::string& file, const Setting& setting, const LogChoice& choice);

/// "alltoall, 8 ranks on 1 host, inside a host".
std::string description_of(const Setting& setting, Reach reach);

/// One result of nccl-tests as printed.
struct NcclRow {
  double size, microseconds, algbw, busbw;  // bytes, us, GB/s
};
/// Throws Error unless bandwidths and time agree within rounding, which wrong columns do not.
void check_row(const std::string& file, int line, const Setting& setting, const NcclRow& row);

}  // namespace moesim
