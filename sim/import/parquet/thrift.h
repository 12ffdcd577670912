// SPDX-License-Identifier: Apache-2.0
// Thrift's compact protocol, in which Parquet keeps its metadata
// (github.com/apache/thrift, doc/specs/thrift-compact-protocol.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace moesim {

class ThriftReader {
 public:
  enum Type : std::uint8_t {
    stop,
    yes,
    no,
    i8,
    i16,
    i32,
    i64,
    real,
    binary,
    list,
    set,
    map,
    structure
  };

  /// `where`: the source of the bytes, as messages name it.
  ThriftReader(std::span<const std::byte> bytes, std::string where)
      : bytes_(bytes), where_(std::move(where)) {}

  /// Calls use(id, type) for every field of a struct. `use` reads the field and returns true, or
  /// reads nothing and returns false to skip it. Throws Error if the bytes are not a struct.
  void read_struct(const std::function<bool(int id, Type type)>& use);
  /// Calls use() for every item; `use` must read the item.
  void read_list(Type items, const std::function<void()>& use);
  std::int64_t integer();
  std::string_view text();
  /// Bytes read so far.
  std::size_t at() const { return at_; }
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::uint8_t byte();
  std::uint64_t varint();
  std::span<const std::byte> take(std::uint64_t count);
  void skip(Type type, int depth);

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
  std::string where_;
};

}  // namespace moesim
