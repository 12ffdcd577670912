// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/npy.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "sim/base/error.h"
#include "sim/trace/mapped_file.h"

static_assert(std::endian::native == std::endian::little, "arrays are used as they are on disk");

namespace moesim {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::size_t most_axes = 64;  // of NumPy's arrays

/// Reads the Python dict literal of a header; every error names the file.
class HeaderText {
 public:
  HeaderText(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }
  void expect(char c) {
    if (!take(c)) throw bad();
  }
  std::string_view quoted() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) throw bad();
    const std::size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) throw bad();
    const auto word = text_.substr(at_ + 1, end - at_ - 1);
    return at_ = end + 1, word;
  }
  bool boolean() {
    skip_blanks();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) return at_ += word.size(), word == "True";
    }
    throw bad();
  }
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> numbers;
    expect('(');
    while (!take(')')) {
      numbers.push_back(number());
      if (numbers.size() > most_axes) throw bad();
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return numbers;
  }
  Error bad() const { return error_in(file_, "has a damaged .npy header"); }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  std::int64_t number() {
    skip_blanks();
    std::int64_t value = 0;
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && at_ - begin < 18) {
      value = value * 10 + (text_[at_++] - '0');
    }
    if (at_ == begin) throw bad();
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

NpyType parse_type(std::string_view descr, const std::string& file) {
  const auto refuse = [&](const std::string& why, const std::string& hint) {
    return error_in(file, fmt::format("holds {} ('{}')", why, descr), hint);
  };
  if (descr.size() < 2) throw error_in(file, "has a damaged .npy header");
  const char order = descr[0];
  const std::string_view code = descr.substr(1);
  if (code[0] == 'O') throw refuse("Python objects", "save an array of numbers, not of lists");
  if (order == '>') {
    throw refuse("big-endian numbers", fmt::format("save it with .astype('<{}')", code));
  }
  static constexpr std::string_view known[] = {"u1", "u2", "u4", "u8", "i1", "i2",
                                               "i4", "i8", "f2", "f4", "f8"};
  for (const auto name : known) {
    if (code == name) return {name[0], name[1] - '0'};
  }
  if (code == "b1") return {'u', 1};  // 0 or 1
  throw refuse("elements of an unsupported type", "integers and floats of 1 to 8 bytes are read");
}

std::int64_t product(const std::vector<std::int64_t>& shape, const std::string& file) {
  std::int64_t count = 1;
  for (const auto n : shape) {
    if (n < 0 || (n > 0 && count > std::numeric_limits<std::int64_t>::max() / 8 / n)) {
      throw error_in(file, fmt::format("has an impossible shape {}", shape_text(shape)));
    }
    count *= n;
  }
  return count;
}

}  // namespace

std::string NpyType::name() const {
  if (kind == 'b') return "bfloat16";
  return fmt::format("{}{}", kind == 'u' ? "uint" : kind == 'i' ? "int" : "float", size * 8);
}

NpyArray NpyArray::open(const std::string& path) {
  NpyArray array;
  array.file_ = path;
  const auto file = std::make_shared<const MappedFile>(path);
  array.memory_ = file;
  array.mapped_ = file.get();
  array.read_header(file->bytes());
  return array;
}

NpyArray NpyArray::parse(std::vector<std::byte> content, const std::string& name) {
  NpyArray array;
  array.file_ = name;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(content));
  array.memory_ = bytes;
  array.read_header(*bytes);
  return array;
}

NpyArray NpyArray::view(NpyType type, std::vector<std::int64_t> shape,
                        std::span<const std::byte> elements, std::shared_ptr<const void> memory,
                        const std::string& name) {
  NpyArray array;
  array.file_ = name;
  array.type_ = type;
  array.shape_ = std::move(shape);
  if (array.shape_.size() > most_axes) throw error_in(name, "has too many axes");
  array.count_ = product(array.shape_, name);
  if (elements.size() != static_cast<std::size_t>(array.count_ * type.size)) {
    throw error_in(name, fmt::format("{} needs {} bytes of data but has {}", array.describe(),
                                     array.count_ * type.size, elements.size()));
  }
  array.memory_ = std::move(memory);
  array.data_ = elements.data();
  return array;
}

NpyArray NpyArray::reshaped(std::vector<std::int64_t> shape) const {
  const auto* const bytes = static_cast<const std::byte*>(data_);
  return view(type_, std::move(shape), {bytes, static_cast<std::size_t>(count_ * type_.size)},
              memory_, file_);
}

void NpyArray::read_header(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(npy_magic)) {
    throw error_in(file_, "is not a .npy array", "write it with np.save");
  }
  if (text.size() < 10) throw error_in(file_, "ends inside its header");
  const int version = static_cast<unsigned char>(text[6]);
  if (version < 1 || version > 3) {
    throw error_in(file_, fmt::format("is .npy version {}; versions 1 to 3 are read", version));
  }
  const std::size_t start = version == 1 ? 10 : 12;
  if (text.size() < start) throw error_in(file_, "ends inside its header");
  std::size_t length = 0;
  for (std::size_t i = start; i-- > 8;) length = length << 8 | static_cast<unsigned char>(text[i]);
  if (text.size() - start < length) throw error_in(file_, "ends inside its header");

  HeaderText header(text.substr(start, length), file_);
  bool has_type = false, has_order = false, has_shape = false;
  header.expect('{');
  while (!header.take('}')) {
    const auto key = header.quoted();
    header.expect(':');
    if (key == "descr") {
      if (header.take('[')) {
        throw error_in(file_, "holds records", "save one plain array per field");
      }
      type_ = parse_type(header.quoted(), file_);
      has_type = true;
    } else if (key == "fortran_order") {
      if (header.boolean()) {
        throw error_in(file_, "is in Fortran order", "save np.ascontiguousarray(array)");
      }
      has_order = true;
    } else if (key == "shape") {
      shape_ = header.tuple();
      has_shape = true;
    } else {
      throw header.bad();
    }
    if (!header.take(',')) {
      header.expect('}');
      break;
    }
  }
  if (!has_type || !has_order || !has_shape) throw header.bad();

  count_ = product(shape_, file_);
  const std::size_t offset = start + length;
  const auto expected = static_cast<std::size_t>(count_) * static_cast<std::size_t>(type_.size);
  if (bytes.size() - offset != expected) {
    throw error_in(file_,
                   fmt::format("{} needs {} bytes of data but has {}", describe(), expected,
                               bytes.size() - offset),
                   bytes.size() - offset < expected ? "the file is cut short" : "");
  }
  if (offset % static_cast<std::size_t>(type_.size) != 0) {
    throw error_in(file_, "has unaligned data", "write it with np.save");
  }
  data_ = bytes.data() + offset;
}

void NpyArray::forget(std::int64_t first, std::int64_t count) const {
  if (mapped_ == nullptr) return;
  const auto* const from = static_cast<const std::byte*>(data_) + first * type_.size;
  mapped_->forget({from, static_cast<std::size_t>(count * type_.size)});
}

std::int64_t NpyArray::integer(std::int64_t i) const {
  const bool is_signed = type_.kind == 'i';
  switch (type_.size) {
    case 1:
      return is_signed ? load<std::int8_t>(i) : load<std::uint8_t>(i);
    case 2:
      return is_signed ? load<std::int16_t>(i) : load<std::uint16_t>(i);
    case 4:
      return is_signed ? std::int64_t{load<std::int32_t>(i)} : load<std::uint32_t>(i);
    default:
      return load<std::int64_t>(i);
  }
}

double NpyArray::real(std::int64_t i) const {
  if (type_.is_integer()) return static_cast<double>(integer(i));
  if (type_.kind == 'b') {
    return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(i)) << 16);
  }
  if (type_.size == 2) return half_to_float(load<std::uint16_t>(i));
  return type_.size == 4 ? load<float>(i) : load<double>(i);
}

std::string NpyArray::describe() const {
  return fmt::format("{} {}", type_.name(), shape_text(shape_));
}

std::string npy_header(NpyType type, std::span<const std::int64_t> shape) {
  std::string dict =
      fmt::format("{{'descr': '{}{}{}', 'fortran_order': False, 'shape': {}, }}",
                  type.size == 1 ? '|' : '<', type.kind, type.size, shape_text(shape));
  const std::size_t unpadded = npy_magic.size() + 4 + dict.size() + 1;
  dict.append((64 - unpadded % 64) % 64, ' ');
  dict += '\n';
  std::string header(npy_magic);
  header +=
      {'\x01', '\x00', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

float half_to_float(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1f;
  const int fraction = half & 0x3ff;
  float value;
  if (exponent == 0x1f) {
    value = fraction != 0 ? std::numeric_limits<float>::quiet_NaN()
                          : std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = static_cast<float>(fraction) * 0x1p-24F;
  } else {
    constexpr int more = 127 - 15;  // of the bias
    value =
        std::bit_cast<float>(static_cast<std::uint32_t>((exponent + more) << 23 | fraction << 13));
  }
  return half & 0x8000 ? -value : value;
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return shape.size() == 1 ? fmt::format("({},)", shape[0])
                           : fmt::format("({})", fmt::join(shape, ", "));
}

}  // namespace moesim
