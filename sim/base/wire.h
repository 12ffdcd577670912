// SPDX-License-Identifier: Apache-2.0
// Values as bytes for another process of the same program: numbers as they are in memory, what
// varies in length after its length, structs field by field.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "sim/base/fields.h"
#include "sim/base/types.h"

namespace moesim {

template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class Tag>
inline constexpr bool is_number<Id<Tag>> = true;
template <class Tag, class Rep>
inline constexpr bool is_number<Quantity<Tag, Rep>> = true;

/// How values of one type are written and read. A type that is neither one of those below nor a
/// struct of them (a pointer, a class with private fields) does not compile.
template <class T>
struct Wire;

template <class T>
void put(std::string& bytes, const T& value) {
  Wire<T>::put(bytes, value);
}

/// Reads a value and removes its bytes from the front. Throws std::runtime_error if they are too
/// few.
template <class T>
void take(std::string_view& bytes, T& value) {
  Wire<T>::take(bytes, value);
}

inline std::string_view take_front(std::string_view& bytes, std::size_t size) {
  if (bytes.size() < size) throw std::runtime_error("a value from another process is cut short");
  const std::string_view front = bytes.substr(0, size);
  bytes.remove_prefix(size);
  return front;
}

template <class T>
requires is_number<T>
struct Wire<T> {
  static void put(std::string& bytes, const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void take(std::string_view& bytes, T& value) {
    std::memcpy(static_cast<void*>(&value), take_front(bytes, sizeof value).data(), sizeof value);
  }
};

template <class T>
requires(std::is_aggregate_v<T> && !std::is_array_v<T>) struct Wire<T> {
  static void put(std::string& bytes, const T& value) {
    with_fields(value, [&](const auto&... fields) { (moesim::put(bytes, fields), ...); });
  }
  static void take(std::string_view& bytes, T& value) {
    with_fields(value, [&](auto&... fields) { (moesim::take(bytes, fields), ...); });
  }
};

/// Containers that grow by insert(): their length, then their elements.
template <class T>
struct WireList {
  static void put(std::string& bytes, const T& list) {
    moesim::put(bytes, list.size());
    for (const auto& element : list) moesim::put(bytes, element);
  }
  static void take(std::string_view& bytes, T& list) {
    std::size_t size = 0;
    moesim::take(bytes, size);
    list.clear();
    for (std::size_t i = 0; i < size; ++i) {
      typename T::value_type element{};
      moesim::take(bytes, element);
      list.insert(list.end(), std::move(element));
    }
  }
};
template <class T>
struct Wire<std::vector<T>> : WireList<std::vector<T>> {};
template <class T>
struct Wire<std::set<T>> : WireList<std::set<T>> {};
template <>
struct Wire<std::string> {
  static void put(std::string& bytes, const std::string& text) {
    moesim::put(bytes, text.size());
    bytes += text;
  }
  static void take(std::string_view& bytes, std::string& text) {
    std::size_t size = 0;
    moesim::take(bytes, size);
    text = take_front(bytes, size);
  }
};

/// Rows of different lengths, such as Ragged has.
template <class T>
requires requires(T rows, const std::vector<typename T::Element>& row) { rows.add_row(row); }
struct Wire<T> {
  static void put(std::string& bytes, const T& rows) {
    moesim::put(bytes, rows.size());
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const auto& elements = rows[row];
      moesim::put(bytes, std::vector<typename T::Element>(elements.begin(), elements.end()));
    }
  }
  static void take(std::string_view& bytes, T& rows) {
    std::size_t size = 0;
    moesim::take(bytes, size);
    rows = {};
    std::vector<typename T::Element> row;
    for (std::size_t i = 0; i < size; ++i) {
      moesim::take(bytes, row);
      rows.add_row(row);
    }
  }
};

template <class First, class Second>
struct Wire<std::pair<First, Second>> {
  using Pair = std::pair<First, Second>;
  static void put(std::string& bytes, const Pair& pair) {
    moesim::put(bytes, pair.first);
    moesim::put(bytes, pair.second);
  }
  static void take(std::string_view& bytes, Pair& pair) {
    moesim::take(bytes, pair.first);
    moesim::take(bytes, pair.second);
  }
};

template <class Key, class Value>
struct Wire<std::map<Key, Value>> {
  using Map = std::map<Key, Value>;
  static void put(std::string& bytes, const Map& map) {
    moesim::put(bytes, map.size());
    for (const auto& [key, value] : map) {
      moesim::put(bytes, key);
      moesim::put(bytes, value);
    }
  }
  static void take(std::string_view& bytes, Map& map) {
    std::vector<std::pair<Key, Value>> entries;
    moesim::take(bytes, entries);
    map.clear();
    for (auto& entry : entries) map.insert(map.end(), std::move(entry));
  }
};

template <class T, std::size_t Size>
struct Wire<std::array<T, Size>> {
  static void put(std::string& bytes, const std::array<T, Size>& array) {
    for (const T& element : array) moesim::put(bytes, element);
  }
  static void take(std::string_view& bytes, std::array<T, Size>& array) {
    for (T& element : array) moesim::take(bytes, element);
  }
};

template <class T>
struct Wire<std::optional<T>> {
  static void put(std::string& bytes, const std::optional<T>& value) {
    moesim::put(bytes, value.has_value());
    if (value) moesim::put(bytes, *value);
  }
  static void take(std::string_view& bytes, std::optional<T>& value) {
    bool there = false;
    moesim::take(bytes, there);
    value.reset();
    if (there) moesim::take(bytes, value.emplace());
  }
};

template <class T>
std::string to_bytes(const T& value) {
  std::string bytes;
  put(bytes, value);
  return bytes;
}

/// The value that to_bytes<T> wrote. Throws std::runtime_error if bytes are missing or left over;
/// bytes of another type with as many go unnoticed.
template <class T>
T from_bytes(std::string_view bytes) {
  T value{};
  take(bytes, value);
  if (!bytes.empty()) throw std::runtime_error("a value from another process is too long");
  return value;
}

}  // namespace moesim
