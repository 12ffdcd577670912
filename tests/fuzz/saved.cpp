// SPDX-License-Identifier: Apache-2.0
// Saved steps. An input is the file's text without its last line; hashes are made to fit, so that
// what is behind them is read.
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "sim/base/files.h"
#include "sim/saved/saved_steps.h"
#include "tests/fuzz/little_endian.h"
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

/// A gzip file that packs nothing (RFC 1951 and 1952): a compressor would take most of the time.
std::string as_gzip(std::string_view text) {
  constexpr std::size_t most_of_block = 65535;
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  const std::size_t size = text.size();
  do {
    const std::string_view block = text.substr(0, most_of_block);
    text.remove_prefix(block.size());
    add_number(out, 1, text.empty() ? 1 : 0);  // whether it is the last one
    add_number(out, 2, block.size());
    add_number(out, 2, ~block.size());
    out += block;
  } while (!text.empty());
  add_number(out, 4, sum);
  add_number(out, 4, size);
  return out;
}

void read_hashed(std::string_view bytes) {
  read_steps(scratch_file("a.steps", as_gzip(with_hashes(bytes))));
}

}  // namespace

const Target saved_target{"saved", read_hashed};

}  // namespace moesim::fuzz
