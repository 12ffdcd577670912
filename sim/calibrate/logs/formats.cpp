// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/logs/formats.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "sim/base/error.h"

namespace moesim {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    if (end == std::string::npos) end = text.size();
    lines.push_back(text.substr(at, end - at));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

double number_in(const std::string& file, int line, std::string_view what,
                 const std::string& word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, problem] = std::from_chars(word.data(), end, value);
  if (problem != std::errc() || stop != end || !std::isfinite(value)) {
    throw error_in(file, fmt::format("'{}' is no number, where {} should be", word, what),
                   "give the output as the test printed it", line);
  }
  return value;
}

void check_choice(const std::string& file, const Setting& setting, const LogChoice& choice) {
  if (choice.collective && *choice.collective != setting.collective) {
    throw error_in(file, fmt::format("holds {}, not {}", name_of(setting.collective),
                                     name_of(*choice.collective)));
  }
  if (choice.ranks && *choice.ranks != setting.ranks) {
    throw error_in(file, fmt::format("is of {} ranks, not of {}", setting.ranks, *choice.ranks));
  }
}

Collective tested(const std::string& file, int line, const std::string& name) {
  if (const auto collective = collective_of(name)) return *collective;
  throw error_in(file,
                 fmt::format("'{}' is none of the tests whose bytes per link are known", name),
                 "alltoall, sendrecv, all_gather, reduce_scatter or all_reduce", line);
}

Bytes LinkShare::bytes(double size) const {
  constexpr double most = 9007199254740992.;  // 2^53: exact
  const double bytes = size * bytes_per_byte;
  if (bytes >= 0 && bytes <= most) return Bytes(static_cast<std::int64_t>(bytes));
  throw error_in(file, fmt::format("has an exchange of {:.3g} bytes", size));
}

LinkShare link_share(const std::string& file, const Setting& setting, const LogChoice& choice,
                     Log& log) {
  const LinkReach reach =
      choice.reach.value_or(setting.hosts > 1 ? LinkReach::fabric : LinkReach::host);
  const bool inside = reach == LinkReach::host;
  if (inside && setting.hosts > 1) {
    throw error_in(
        file,
        fmt::format("ran on {} hosts: the time is that of the links between them", setting.hosts),
        "take a run on one host for the links inside it");
  }
  const double factor = link_bytes_per_byte(setting, reach);
  if (!(factor > 0) && setting.hosts == 1) {
    throw error_in(file, "ran on one host: nothing crossed a link between hosts",
                   "take a run on several hosts, or --reach host");
  }
  if (!(factor > 0)) {
    throw error_in(file,
                   fmt::format("how many bytes of an {} a link between hosts carries is not "
                               "known with {} ranks on {} hosts",
                               name_of(setting.collective), setting.ranks, setting.hosts),
                   "take alltoall or sendrecv, or one rank per host");
  }
  log.what = fmt::format("{}, {} ranks, {}", name_of(setting.collective), setting.ranks,
                         inside ? "inside a host" : fmt::format("between {} hosts", setting.hosts));
  log.parts = factor * setting.ranks;
  return {file, factor};
}

void check_row(const std::string& file, int line, const Setting& setting, const NcclRow& row) {
  if (!(row.microseconds > 0)) {
    throw error_in(file, "a time is not above 0", "run more iterations (-n)", line);
  }
  // Times are printed with 3 to 7 digits, bandwidths with 2 decimals.
  const double algbw = row.size / row.microseconds / 1e3;
  const auto agree = [](double printed, double computed) {
    return std::abs(printed - computed) <= 0.02 * computed + 0.011;
  };
  const char* hint =
      "columns are size (B), time (us), algbw and busbw (GB/s) as nccl-tests has them";
  if (!agree(row.algbw, algbw)) {
    throw error_in(file,
                   fmt::format("{} bytes in {} us are {:.2f} GB/s, but algbw is {}", row.size,
                               row.microseconds, algbw, row.algbw),
                   hint, line);
  }
  const double busbw =
      algbw * link_bytes_per_byte({setting.collective, setting.ranks, 1}, LinkReach::host);
  if (!agree(row.busbw, busbw)) {
    throw error_in(
        file,
        fmt::format("algbw {} of {} with {} ranks is a busbw of {:.2f}, not {}", row.algbw,
                    name_of(setting.collective), setting.ranks, busbw, row.busbw),
        hint, line);
  }
}

}  // namespace moesim
