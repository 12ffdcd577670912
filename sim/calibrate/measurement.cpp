// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/measurement.h"

#include <fmt/format.h>
#include <zlib.h>

#include <charconv>
#include <cmath>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/calibrate/log_formats.h"

namespace moesim {
namespace {

constexpr const char* collective_names[] = {"alltoall", "all_gather", "reduce_scatter",
                                            "all_reduce", "sendrecv"};

/// Letters alone, in lower case, without "perf" and with one spelling of all-to-all.
std::string bare(const std::string& name) {
  std::string word;
  for (const char c : name) {
    if (c >= 'a' && c <= 'z') word += c;
    if (c >= 'A' && c <= 'Z') word += static_cast<char>(c - 'A' + 'a');
  }
  if (word.ends_with("perf")) word.resize(word.size() - 4);
  return word;
}

std::string unpacked(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw error_in(path, "cannot be read");
  std::string text;
  char block[1 << 15];
  int count = 0;
  while ((count = gzread(file, block, sizeof block)) > 0) {
    text.append(block, static_cast<std::size_t>(count));
  }
  const bool whole = gzclose(file) == Z_OK && count == 0;
  if (!whole) throw error_in(path, "is a damaged or incomplete gzip file", "copy it again");
  return text;
}

Log parse(const std::string& text, const std::string& file, const LogChoice& choice) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    throw error_in(file, "is empty", "give the whole output of a test");
  }
  if (text[first] == '{') return parse_nccl_tests_json(text, file, choice);
  const std::string line = text.substr(first, text.find('\n', first) - first);
  const bool table = line.find(',') != std::string::npos && line.find('#') == std::string::npos;
  return table ? parse_table(text, file, choice) : parse_nccl_tests_text(text, file, choice);
}

}  // namespace

const char* name_of(Collective collective) {
  return collective_names[static_cast<int>(collective)];
}

const char* name_of(Reach reach) { return reach == Reach::host ? "host" : "fabric"; }

std::optional<Collective> collective_of(const std::string& name) {
  for (int i = 0; i < collective_count; ++i) {
    if (bare(name) == bare(collective_names[i])) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

double link_bytes_per_byte(const Setting& setting, Reach reach) {
  const double n = setting.ranks;
  const double per_host = n / setting.hosts;
  const bool between = reach == Reach::fabric;
  if (between && setting.hosts == 1) return 0;
  switch (setting.collective) {
    case Collective::alltoall:
      return between ? (n - per_host) / n : (n - 1) / n;
    case Collective::sendrecv:
      return 1;
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_reduce:
      if (between && per_host > 1) return 0;
      return (n - 1) / n * (setting.collective == Collective::all_reduce ? 2 : 1);
  }
  return 0;
}

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

LinkShare link_share(const std::string& file, const Setting& setting, const LogChoice& choice) {
  const Reach reach = choice.reach.value_or(setting.hosts > 1 ? Reach::fabric : Reach::host);
  if (reach == Reach::host && setting.hosts > 1) {
    throw error_in(
        file,
        fmt::format("ran on {} hosts: the time is that of the links between them", setting.hosts),
        "take a run on one host for the links inside it");
  }
  const double factor = link_bytes_per_byte(setting, reach);
  if (factor > 0) return {reach, factor};
  if (setting.hosts == 1) {
    throw error_in(file, "ran on one host: nothing crossed a link between hosts",
                   "take a run on several hosts, or --reach host");
  }
  throw error_in(file,
                 fmt::format("how many bytes of an {} a link between hosts carries is not "
                             "known with {} ranks on {} hosts",
                             name_of(setting.collective), setting.ranks, setting.hosts),
                 "take alltoall or sendrecv, or one rank per host");
}

std::string description_of(const Setting& setting, Reach reach) {
  return fmt::format(
      "{}, {} ranks, {}", name_of(setting.collective), setting.ranks,
      reach == Reach::host ? "inside a host" : fmt::format("between {} hosts", setting.hosts));
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
      algbw * link_bytes_per_byte({setting.collective, setting.ranks, 1}, Reach::host);
  if (!agree(row.busbw, busbw)) {
    throw error_in(
        file,
        fmt::format("algbw {} of {} with {} ranks is a busbw of {:.2f}, not {}", row.algbw,
                    name_of(setting.collective), setting.ranks, busbw, row.busbw),
        hint, line);
  }
}

Log parse_log(const std::string& text, const std::string& file, const LogChoice& choice) {
  Log log = parse(text, file, choice);
  log.file = file;
  log.hash = hash_of(text);
  if (log.samples.empty()) {
    throw error_in(file, "holds no times of exchanges that move bytes",
                   "run sizes above 0, such as -b 1K -e 1G -f 2");
  }
  return log;
}

Log read_log(const std::string& path, const LogChoice& choice) {
  const std::string raw = read_file(path);
  const bool packed = raw.starts_with("\x1f\x8b");
  Log log = parse_log(packed ? unpacked(path) : raw, path, choice);
  log.hash = hash_of(raw);
  return log;
}

}  // namespace moesim
