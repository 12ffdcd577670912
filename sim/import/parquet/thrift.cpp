// SPDX-License-Identifier: Apache-2.0
#include "sim/import/parquet/thrift.h"

#include "sim/base/error.h"

namespace moesim {
namespace {

/// Parquet's own metadata is six deep.
constexpr int deepest_thrift = 16;

}  // namespace

void ThriftReader::refuse(const std::string& what) const { throw error_in(where_, what); }

std::uint8_t ThriftReader::byte() {
  if (at_ == bytes_.size()) refuse("its metadata is cut short");
  return static_cast<std::uint8_t>(bytes_[at_++]);
}

std::uint64_t ThriftReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const std::uint8_t part = byte();
    value |= std::uint64_t{part & 0x7fU} << shift;
    if ((part & 0x80U) == 0) return value;
  }
  refuse("its metadata has a number of more than 64 bits");
}

std::int64_t ThriftReader::integer() {
  const std::uint64_t zigzag = varint();
  return static_cast<std::int64_t>(zigzag >> 1) ^ -static_cast<std::int64_t>(zigzag & 1);
}

std::span<const std::byte> ThriftReader::take(std::uint64_t count) {
  if (count > bytes_.size() - at_) refuse("its metadata is cut short");
  const auto part = bytes_.subspan(at_, count);
  at_ += count;
  return part;
}

std::string_view ThriftReader::text() {
  const auto part = take(varint());
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

void ThriftReader::read_struct(const std::function<bool(int, Type)>& use) {
  std::int64_t id = 0;
  for (;;) {
    const std::uint8_t head = byte();
    const auto type = static_cast<Type>(head & 15U);
    if (type == stop) return;
    id = head >> 4 != 0 ? id + (head >> 4) : integer();
    if (id < 0 || id > 1 << 15 || type > structure) refuse("its metadata is damaged");
    if (!use(static_cast<int>(id), type)) skip(type, 0);
  }
}

void ThriftReader::read_list(Type items, const std::function<void()>& use) {
  const std::uint8_t head = byte();
  std::uint64_t count = head >> 4;
  if (count == 15) count = varint();
  if (count > bytes_.size() - at_) refuse("its metadata is cut short");  // an item takes a byte
  if (count > 0 && static_cast<Type>(head & 15U) != items) refuse("its metadata is damaged");
  for (std::uint64_t i = 0; i < count; ++i) use();
}

void ThriftReader::skip(Type type, int depth) {
  if (depth > deepest_thrift) refuse("its metadata is nested too deep");
  switch (type) {
    case yes:
    case no:
      return;  // in the type itself
    case i8:
      take(1);
      return;
    case i16:
    case i32:
    case i64:
      varint();
      return;
    case real:
      take(8);
      return;
    case binary:
      text();
      return;
    case list:
    case set: {
      const std::uint8_t head = byte();
      const auto items = static_cast<Type>(head & 15U);
      const std::uint64_t count = head >> 4 == 15 ? varint() : head >> 4;
      if (count > bytes_.size() - at_) refuse("its metadata is cut short");
      for (std::uint64_t i = 0; i < count; ++i) {
        if (items == yes || items == no) {
          take(1);
        } else {
          skip(items, depth + 1);
        }
      }
      return;
    }
    case structure:
      for (;;) {
        const std::uint8_t head = byte();
        if ((head & 15U) == stop) return;
        if (head >> 4 == 0) varint();
        skip(static_cast<Type>(head & 15U), depth + 1);
      }
    default:
      refuse("its metadata is damaged");
  }
}

}  // namespace moesim
