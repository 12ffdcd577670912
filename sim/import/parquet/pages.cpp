// SPDX-License-Identifier: Apache-2.0
#include "sim/import/parquet/pages.h"

#include <fmt/format.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

#include "sim/base/error.h"

namespace moesim {
namespace {

bool unpack_gzip(std::span<const std::byte> packed, std::vector<std::byte>& out) {
  z_stream stream{};
  if (::inflateInit2(&stream, MAX_WBITS + 32) != Z_OK) return false;  // gzip's header or zlib's
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = ::inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  ::inflateEnd(&stream);
  return whole;
}

bool unpack_snappy(std::span<const std::byte> packed, std::vector<std::byte>& out) {
  const auto* const from = reinterpret_cast<const char*>(packed.data());
  std::size_t size = out.size();  // that there is room for, then of what was packed
  const auto status =
      ::snappy_uncompress(from, packed.size(), reinterpret_cast<char*>(out.data()), &size);
  return status == SNAPPY_OK && size == out.size();
}

}  // namespace

void unpack_page(ParquetCodec codec, std::span<const std::byte> packed, std::size_t size,
                 std::vector<std::byte>& out, const std::string& where) {
  // A large page that claims to unpack to more than this was made to fill the memory.
  constexpr std::size_t likely_ratio = 200, always_unpacked = 32U << 20;
  if (size > always_unpacked && size / likely_ratio > packed.size()) {
    throw error_in(
        where, fmt::format("has a page that unpacks to more than {} times its size", likely_ratio));
  }
  out.resize(size);
  bool whole = false;
  if (codec == ParquetCodec::none) {
    whole = packed.size() == size;
    if (whole) std::ranges::copy(packed, out.begin());
  } else if (size == 0 && packed.empty()) {
    whole = true;
  } else if (codec == ParquetCodec::snappy) {
    whole = unpack_snappy(packed, out);
  } else if (codec == ParquetCodec::gzip) {
    whole = unpack_gzip(packed, out);
  } else {
    whole = ::ZSTD_decompress(out.data(), size, packed.data(), packed.size()) == size;
  }
  if (!whole) throw error_in(where, "has a damaged page");
}

void read_runs(std::span<const std::byte> bytes, int width, std::int64_t count,
               std::vector<std::uint32_t>& out, const std::string& where) {
  out.clear();
  if (width < 0 || width > 24) throw error_in(where, fmt::format("has numbers of {} bits", width));
  const auto total = static_cast<std::size_t>(count);
  const auto bits = static_cast<std::size_t>(width);
  std::size_t at = 0;
  const auto need = [&](std::size_t size) {
    if (size > bytes.size() - at) throw error_in(where, "has a damaged page");
  };
  while (out.size() < total) {
    std::uint64_t head = 0;
    for (unsigned shift = 0;; shift += 7) {
      need(1);
      const auto part = static_cast<std::uint8_t>(bytes[at++]);
      head |= std::uint64_t{part & 0x7fU} << shift;
      if ((part & 0x80U) == 0) break;
      if (shift >= 28) throw error_in(where, "has a damaged page");
    }
    if ((head & 1) == 0) {  // a run of one number
      const std::size_t size = (bits + 7) / 8;
      need(size);
      std::uint32_t value = 0;
      std::memcpy(&value, bytes.data() + at, size);
      at += size;
      out.resize(std::min(total, out.size() + (head >> 1)), value);
      if (head == 0) throw error_in(where, "has a damaged page");
      continue;
    }
    std::size_t values = (head >> 1) * 8;  // packed, the first in the lowest bits
    need((head >> 1) * bits);
    const std::byte* const from = bytes.data() + at;
    const std::size_t end = bytes.size() - at;
    at += (head >> 1) * bits;
    values = std::min(values, total - out.size());
    const std::uint32_t mask = (1U << bits) - 1;
    const std::size_t first = out.size();
    out.resize(first + values);
    for (std::size_t i = 0; i < values; ++i) {
      const std::size_t bit = i * bits;
      std::uint32_t word = 0;
      if (bit / 8 + 4 <= end) {
        std::memcpy(&word, from + bit / 8, 4);
      } else {
        std::memcpy(&word, from + bit / 8, end - bit / 8);
      }
      out[first + i] = word >> bit % 8 & mask;
    }
    if (head == 1) throw error_in(where, "has a damaged page");
  }
}

}  // namespace moesim
