// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy arrays: little-endian numbers in C order, mapped or held in memory.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace moesim {

class MappedFile;

/// Element type of an array, as in numpy's `descr` without the byte order: u1 u2 u4 u8 i1 i2 i4 i8
/// f2 f4 f8; b2 is bfloat16, which numpy lacks.
struct NpyType {
  char kind = 'u';  // u, i, f or b
  int size = 1;     // bytes
  bool operator==(const NpyType&) const = default;
  bool is_integer() const { return kind == 'u' || kind == 'i'; }
  /// numpy's name, such as "uint8".
  std::string name() const;
};

/// An array and the memory it lives in (copies share it).
class NpyArray {
 public:
  /// Maps a .npy file; checks header and size, reads no element. Throws Error naming the file.
  static NpyArray open(const std::string& path);
  /// The array in `content`, the bytes of a .npy file; `name` stands for the file in messages.
  static NpyArray parse(std::vector<std::byte> content, const std::string& name);
  /// An array of another container: `elements` live in `memory`. Throws Error if their number is
  /// not that of the shape.
  static NpyArray view(NpyType type, std::vector<std::int64_t> shape,
                       std::span<const std::byte> elements, std::shared_ptr<const void> memory,
                       const std::string& name);
  /// Numbers [shape] in C order.
  static NpyArray of(std::vector<std::int32_t> values, std::vector<std::int64_t> shape,
                     const std::string& name) {
    return of_values({'i', 4}, std::move(values), std::move(shape), name);
  }
  static NpyArray of(std::vector<float> values, std::vector<std::int64_t> shape,
                     const std::string& name) {
    return of_values({'f', 4}, std::move(values), std::move(shape), name);
  }
  /// The same elements by other axes. Throws Error if their number is another.
  NpyArray reshaped(std::vector<std::int64_t> shape) const;

  const std::string& file() const { return file_; }
  NpyType type() const { return type_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t count() const { return count_; }
  /// Row-major elements; aligned to their size.
  const void* data() const { return data_; }
  /// Lets mapped elements leave memory until they are used again.
  void forget(std::int64_t first, std::int64_t count) const;
  /// Element i of an integer array; floats and u8 beyond 2^63 are not for this.
  std::int64_t integer(std::int64_t i) const;
  /// Element i of an array of any type.
  double real(std::int64_t i) const;
  /// "uint8 (3, 16, 4)", for messages.
  std::string describe() const;

 private:
  NpyArray() = default;
  template <class T>
  static NpyArray of_values(NpyType type, std::vector<T> values, std::vector<std::int64_t> shape,
                            const std::string& name) {
    const auto kept = std::make_shared<const std::vector<T>>(std::move(values));
    return view(type, std::move(shape), std::as_bytes(std::span(*kept)), kept, name);
  }
  void read_header(std::span<const std::byte> bytes);
  template <class T>
  T load(std::int64_t i) const {
    T value;
    std::memcpy(&value, static_cast<const char*>(data_) + i * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
  }

  std::string file_;
  NpyType type_;
  std::vector<std::int64_t> shape_;
  std::int64_t count_ = 0;
  const void* data_ = nullptr;
  std::shared_ptr<const void> memory_;
  const MappedFile* mapped_ = nullptr;  // memory_ of a mapped file; null when parsed
};

/// Header (version 1.0, padded to 64 bytes) of a C-ordered array, as np.save writes it.
std::string npy_header(NpyType type, std::span<const std::int64_t> shape);

/// IEEE half precision to single, exactly.
float half_to_float(std::uint16_t half);

/// "(3, 16, 4)", as Python writes a tuple.
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace moesim
