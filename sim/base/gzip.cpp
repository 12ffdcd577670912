// SPDX-License-Identifier: Apache-2.0
#include "sim/base/gzip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"

namespace moesim {
namespace {

constexpr int gzip_window = MAX_WBITS + 16;  // with gzip's header, which holds no time or name
constexpr int usual_memory = 8;
constexpr std::string_view magic = "\x1f\x8b";

/// A file that is much smaller than its text was made to fill the memory: text of ours packs 20
/// times at most. Small texts may be as they like.
constexpr std::int64_t most_unpacked_ratio = 200, always_unpacked = 32 << 20;

}  // namespace

std::string gzipped(std::string_view text) {
  z_stream stream{};
  if (::deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_window, usual_memory,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("no memory to compress");
  }
  std::string result;
  std::array<char, 1 << 16> block;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    const std::string_view part = text.substr(0, 1U << 30);  // zlib counts in 32 bits
    text.remove_prefix(part.size());
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = static_cast<uInt>(part.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(block.data());
      stream.avail_out = block.size();
      status = ::deflate(&stream, text.empty() ? Z_FINISH : Z_NO_FLUSH);
      result.append(block.data(), block.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  }
  ::deflateEnd(&stream);
  return result;
}

std::string read_gzip(const std::string& path, const std::string& hint) {
  if (!read_bytes(path).starts_with(magic)) throw error_in(path, "is not in gzip's form", hint);
  return read_text_or_gzip(path);
}

std::string read_text_or_gzip(const std::string& path) {
  const gzFile file = ::gzdopen(open_input(path), "rb");
  if (file == nullptr) throw std::runtime_error("no memory to unpack " + path);
  std::string text;
  std::array<char, 1 << 16> block;
  int count = 0;
  while ((count = ::gzread(file, block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<std::size_t>(count));
    const auto size = static_cast<std::int64_t>(text.size());
    if (size > always_unpacked && size / most_unpacked_ratio > ::gzoffset(file)) {
      ::gzclose(file);
      throw error_in(path,
                     fmt::format("unpacks to more than {} times its size", most_unpacked_ratio),
                     "if that is meant, give it unpacked");
    }
  }
  const bool sound = ::gzclose(file) == Z_OK && count == 0;
  if (!sound) throw error_in(path, "is cut short or damaged", "copy it again");
  return text;
}

}  // namespace moesim
