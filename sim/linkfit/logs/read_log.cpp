// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/read_log.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/exported_log.h"
#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/base/text.h"
#include "sim/linkfit/logs/csv.h"
#include "sim/linkfit/logs/formats.h"

namespace moesim {
namespace {

/// Whether there is a table of nccl-tests, or something of what is printed around one.
bool is_nccl_text(const std::string& text) {
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  return (has("algbw") && has("busbw")) || has("Out of bounds values") ||
         has("ccl-tests version") || (has("nThread ") && has("nGpus "));
}

Error of_other_program(const std::string& file, const std::string& name) {
  return error_in(file, fmt::format("is the output of {}, not of nccl-tests", name),
                  "alltoall_perf of nccl-tests gives times to fit: docs/calibration.md");
}

/// Refuses what other programs print, by something that only they do.
void check_program(const std::string& text, const std::string& file) {
  static constexpr std::array<std::pair<const char*, const char*>, 12> programs = {{
      {"\"MsgSize\"", "perftest, which moves bytes between two NICs"},
      {"\"nvbandwidth\"", "nvbandwidth, which copies between two GPUs"},
      {"\"nccl-bw", "SuperBench, which keeps only some sizes"},
      {"\"rccl-bw", "SuperBench, which keeps only some sizes"},
      {"#bytes     #iterations", "perftest, which moves bytes between two NICs"},
      {"#bytes #iterations", "perftest, which moves bytes between two NICs"},
      {"# OSU ", "the OSU micro-benchmarks"},
      {"nvbandwidth Version", "nvbandwidth, which copies between two GPUs"},
      {"P2P (Peer-to-Peer) GPU", "p2pBandwidthLatencyTest, which copies between two GPUs"},
      {"[tuning]", "DeepEP's test, whose bytes per link depend on the routing"},
      {"Dispatch + combine bandwidth: ",
       "DeepEP's test, whose bytes per link depend on the routing"},
      {"Memory type: ", "ucc_perftest"},
  }};
  for (const auto& [mark, name] : programs) {
    if (text.find(mark) != std::string::npos) throw of_other_program(file, name);
  }
}

/// Whether mscclpp-test printed it, whose first times are those in place.
bool is_of_mscclpp(const std::string& text) {
  if (text.find(" kernel num:") != std::string::npos) return true;
  constexpr std::string_view first = "in-place", second = "out-of-place";
  for (std::size_t at = text.find(second); at != std::string::npos;
       at = text.find(second, at + 1)) {
    const std::size_t before = at == 0 ? at : text.find_last_not_of(' ', at - 1);
    const bool any = before != std::string::npos && before < at - 1;
    if (any && std::string_view(text).substr(0, before + 1).ends_with(first)) return true;
  }
  return false;
}

/// Whether an object of JSON begins there, not a line in braces.
bool is_object(const std::string& text, std::size_t first) {
  const std::size_t next = text.find_first_not_of(" \t\r\n", first + 1);
  return text[first] == '{' &&
         (next == std::string::npos || text[next] == '"' || text[next] == '}');
}

/// Whether results are there as -J or -Z of a test writes them.
bool holds_json(const std::string& text) {
  return text.find("\"alg_bw\"") != std::string::npos ||
         text.find("\"algBw\"") != std::string::npos;
}

/// Decides by the content, because files of all kinds have all kinds of names: JSON begins with a
/// brace, a table with a line of names between commas.
Log parse(const std::string& text, const std::string& file, const LogChoice& choice) {
  check_text(text, file);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) {
    throw error_in(file, "is empty", "give the whole output of a test");
  }
  const bool is_named = names_exchange_times(lines_of(text.substr(first)).front());
  // Within an exported log the keys of results would be in quotes of their own.
  if (!holds_json(text) && !is_named) {
    if (const auto lines = exported_lines(text, file)) return parse(*lines, file, choice);
  }
  if (is_of_mscclpp(text)) throw of_other_program(file, "mscclpp-test");
  if (is_object(text, first) && !holds_json(text)) check_program(text, file);
  const bool in_json = is_object(text, first) || (holds_json(text) && !is_nccl_text(text));
  if (in_json) return parse_nccl_tests_json(text, file, choice);
  if (is_named) return parse_table(text, file, choice);
  if (is_nccl_text(text)) return parse_nccl_tests_text(text, file, choice);
  check_program(text, file);
  return is_table(text.substr(first)) ? parse_table(text, file, choice)
                                      : parse_nccl_tests_text(text, file, choice);
}

}  // namespace

Log parse_log(const std::string& text, const std::string& file, const LogChoice& choice) {
  Log log = parse(std::string(without_mark(text, file)), file, choice);
  log.file = file;
  log.hash = hash_of(text);
  if (log.samples.empty()) {
    throw error_in(file, "holds no times of exchanges that move bytes",
                   "run sizes above 0, such as -b 1K -e 1G -f 2");
  }
  return log;
}

Log read_log(const std::string& path, const LogChoice& choice) {
  const std::string raw = read_bytes(path);
  const bool packed = raw.starts_with("\x1f\x8b");
  Log log = parse_log(packed ? read_text_or_gzip(path) : raw, path, choice);
  log.hash = hash_of(raw);  // of the file as it is there, packed or not
  return log;
}

}  // namespace moesim
