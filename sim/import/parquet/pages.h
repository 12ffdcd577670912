// SPDX-License-Identifier: Apache-2.0
// What is in a page of a Parquet column: compressed bytes, runs of small numbers, plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace moesim {

/// CompressionCodec of Parquet's metadata.
enum class ParquetCodec { none = 0, snappy = 1, gzip = 2, zstd = 6 };

/// Unpacks to exactly `size` bytes. Throws Error naming `where` for what does not.
void unpack_page(ParquetCodec codec, std::span<const std::byte> packed, std::size_t size,
                 std::vector<std::byte>& out, const std::string& where);

/// Reads `count` numbers of `width` bits (at most 24) in Parquet's hybrid of runs and packed groups
/// of eight. Throws Error for bytes that end before.
void read_runs(std::span<const std::byte> bytes, int width, std::int64_t count,
               std::vector<std::uint32_t>& out, const std::string& where);

}  // namespace moesim
