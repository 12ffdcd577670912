// SPDX-License-Identifier: Apache-2.0
// Saved steps. An input is the file's text without its last line; hashes are made to fit, so that
// what is behind them is read.
#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/saved/saved_steps.h"
#include "tests/fuzz/scratch_file.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

constexpr std::string_view hash_mark = "@";

/// The first line stands with "@" for each hash of a later line, in their order.
std::string with_hashes(std::string_view text) {
  std::string first(text.substr(0, text.find('\n') + 1)), rest(text.substr(first.size()));
  std::size_t at = 0;
  for (std::string_view lines = rest; !lines.empty();) {
    const std::string_view line = lines.substr(0, lines.find('\n') + 1);
    if (line.empty() || (at = first.find(hash_mark, at)) == std::string::npos) break;
    first.replace(at, hash_mark.size(), hash_of(line));
    lines.remove_prefix(line.size());
  }
  first += rest;
  return first + nlohmann::ordered_json{{"xxh3", hash_of(first)}}.dump() + "\n";
}

void read_hashed(std::string_view bytes) {
  read_steps(scratch_file("a.steps", gzipped(with_hashes(bytes))));
}

}  // namespace

const Target saved_target{"saved", read_hashed};

}  // namespace moesim::fuzz
