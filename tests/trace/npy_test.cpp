// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/npy.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::HasSubstr;

/// A .npy file of the given version with a header as numpy writes it, or as it should not be.
std::string npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string text = "\x93NUMPY";
  text += {static_cast<char>(version), '\0'};
  std::string padded = dict;
  const std::size_t start = version == 1 ? 10 : 12;
  padded.append((64 - (start + dict.size() + 1) % 64) % 64, ' ');
  padded += '\n';
  for (std::size_t i = 0; i < start - 8; ++i) {
    text += static_cast<char>(padded.size() >> (8 * i) & 0xff);
  }
  return text + padded + data;
}

NpyArray parse(const std::string& content) {
  const auto* data = reinterpret_cast<const std::byte*>(content.data());
  return NpyArray::parse({data, data + content.size()}, "a.npy");
}

std::string refusal(const std::string& content) {
  return error_of([&] { parse(content); });
}

TEST(Npy, ReadsEveryVersion) {
  for (const int version : {1, 2, 3}) {
    const auto array = parse(npy("{'descr': '<u2', 'fortran_order': False, 'shape': (2, 1), }",
                                 {"\x01\x02\x03\0", 4}, version));
    EXPECT_EQ(array.describe(), "uint16 (2, 1)");
    EXPECT_EQ(array.integer(0), 0x0201);
    EXPECT_EQ(array.integer(1), 3);
  }
}

TEST(Npy, ReadsEveryType) {
  const auto one = [](const std::string& descr, const std::string& data) {
    return parse(npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': (1,), }", data));
  };
  EXPECT_EQ(one("|u1", "\xff").integer(0), 255);
  EXPECT_EQ(one("|i1", "\xff").integer(0), -1);
  EXPECT_EQ(one("<i2", "\xfe\xff").integer(0), -2);
  EXPECT_EQ(one("<i4", "\xfd\xff\xff\xff").integer(0), -3);
  EXPECT_EQ(one("<i8", std::string("\x04\0\0\0\0\0\0\0", 8)).integer(0), 4);
  EXPECT_EQ(one("<u4", "\xff\xff\xff\xff").integer(0), 4294967295);
  EXPECT_EQ(one("<f2", std::string("\0\x3c", 2)).real(0), 1.0);
  EXPECT_EQ(one("<f4", std::string("\0\0\0\x40", 4)).real(0), 2.0);
  EXPECT_EQ(one("<f8", std::string("\0\0\0\0\0\0\xe0\x3f", 8)).real(0), 0.5);
}

TEST(Npy, ValuesInMemoryHaveTheirType) {
  const auto reals = NpyArray::of(std::vector{0.5F, 2.0F}, {2, 1}, "m");
  EXPECT_EQ(reals.describe(), "float32 (2, 1)");
  EXPECT_EQ(reals.real(1), 2);
  const auto numbers = NpyArray::of(std::vector<std::int32_t>{-7}, {1}, "m");
  EXPECT_EQ(numbers.describe(), "int32 (1,)");
  EXPECT_EQ(numbers.integer(0), -7);
}

TEST(Npy, HalvesAreExact) {
  EXPECT_EQ(half_to_float(0x0000), 0.0F);
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(half_to_float(0x0400), 0x1p-14F);
  EXPECT_EQ(half_to_float(0x3555), 0.333251953125F);
  EXPECT_EQ(half_to_float(0xfbff), -65504.0F);
  EXPECT_TRUE(std::isinf(half_to_float(0x7c00)));
  EXPECT_TRUE(std::isnan(half_to_float(0x7e00)));
}

TEST(Npy, WritesWhatItReads) {
  const std::vector<std::int64_t> shape = {3, 2};
  const auto array = parse(npy_header({'u', 1}, shape) + "abcdef");
  EXPECT_EQ(array.shape(), shape);
  EXPECT_EQ(array.integer(5), 'f');
  EXPECT_EQ(npy_header({'u', 1}, shape).size() % 64, 0u);
  EXPECT_EQ(npy_header({'i', 4}, std::vector<std::int64_t>{9}).substr(10, 58),
            "{'descr': '<i4', 'fortran_order': False, 'shape': (9,), } ");
}

TEST(Npy, RefusesWhatItCannotRead) {
  const std::string tail = ", 'fortran_order': False, 'shape': (1,), }";
  EXPECT_EQ(refusal(npy("{'descr': '|O'" + tail, "x")),
            "a.npy: error: holds Python objects ('|O')\n"
            "hint: save an array of numbers, not of lists\n");
  EXPECT_EQ(refusal(npy("{'descr': [('a', '<i4')]" + tail, "x")),
            "a.npy: error: holds records\nhint: save one plain array per field\n");
  EXPECT_EQ(refusal(npy("{'descr': '>i4'" + tail, "x")),
            "a.npy: error: holds big-endian numbers ('>i4')\nhint: save it with .astype('<i4')\n");
  EXPECT_EQ(refusal(npy("{'descr': '<c8'" + tail, "x")),
            "a.npy: error: holds elements of an unsupported type ('<c8')\n"
            "hint: integers and floats of 1 to 8 bytes are read\n");
  EXPECT_EQ(refusal(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }", "abcd")),
            "a.npy: error: is in Fortran order\nhint: save np.ascontiguousarray(array)\n");
  EXPECT_EQ(refusal(npy("{'descr': '<i4'" + tail, "abc")),
            "a.npy: error: int32 (1,) needs 4 bytes of data but has 3\n"
            "hint: the file is cut short\n");
  EXPECT_EQ(refusal(npy("{'descr': '|u1'" + tail, "ab")),
            "a.npy: error: uint8 (1,) needs 1 bytes of data but has 2\n");
  EXPECT_EQ(refusal("PK\x03\x04"),
            "a.npy: error: is not a .npy array\nhint: write it with np.save\n");
  EXPECT_EQ(refusal(npy("{'descr': '|u1'" + tail, "a", 4)),
            "a.npy: error: is .npy version 4; versions 1 to 3 are read\n");
  EXPECT_EQ(refusal(npy("{'descr': '|u1', 'fortran_order': False}", "a")),
            "a.npy: error: has a damaged .npy header\n");
  const std::string damaged = "a.npy: error: has a damaged .npy header\n";
  for (const char* const dict :
       {"{'descr'", "{'descr': ", "{'descr': '|u1", "{", "", "{'descr': 1}"}) {
    EXPECT_EQ(refusal(npy(dict, "a")), damaged) << dict;
  }
  EXPECT_EQ(refusal(npy("{'descr': '|u1'" + tail, "a").substr(0, 40)),
            "a.npy: error: ends inside its header\n");
  EXPECT_EQ(
      refusal(
          npy("{'descr': '<u8', 'fortran_order': False, 'shape': (4000000000, 4000000000), }", "")),
      "a.npy: error: has an impossible shape (4000000000, 4000000000)\n");
}

/// The array, or what is wrong, of a header of version 1 that ends where its text does.
std::string read_header(const std::string& dict, const std::string& data = "") {
  std::string text = std::string("\x93NUMPY\x01\0", 8);
  text += {static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  text += dict + data;
  std::string found;
  const std::string error = error_of([&] {
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    found = NpyArray::parse({bytes, bytes + text.size()}, "a").describe();
  });
  return error.empty() ? found : error.substr(10, error.find('\n') - 10);
}

/// A header of one byte per element that begins at a multiple of 64.
std::string dict_of(const std::string& shape, const std::string& type = "'|u1'") {
  std::string dict = "{'descr': " + type + ", 'fortran_order': False, 'shape': " + shape + "}";
  dict.append((64 - (10 + dict.size()) % 64) % 64, ' ');
  return dict;
}

TEST(NpyHeaders, HaveManyForms) {
  EXPECT_EQ(read_header(dict_of("()"), "x"), "uint8 ()");
  EXPECT_EQ(read_header(dict_of("(2L, 1L)"), "xy"), "uint8 (2, 1)");
  EXPECT_EQ(read_header(dict_of("(0,)")), "uint8 (0,)");
  EXPECT_EQ(read_header(dict_of("(2,)", "\"|u1\""), "xy"), "uint8 (2,)");
  EXPECT_EQ(read_header("{'shape':(1,),'descr':'|i1',\n 'fortran_order':False,}", "x"),
            "int8 (1,)");
  std::string axes = "(";
  for (int i = 0; i < 64; ++i) axes += "1,";
  EXPECT_THAT(read_header(dict_of(axes + ")"), "x"), HasSubstr("uint8 (1, 1"));
  EXPECT_EQ(read_header(dict_of(axes + "1)"), "x"), "has a damaged .npy header");
}

TEST(NpyHeaders, ThatAreNoneAreRefused) {
  const std::string damaged = "has a damaged .npy header";
  for (const std::string& dict :
       {dict_of("(1,)", "''"), dict_of("(1,)", "'u'"), dict_of("(x,)"), dict_of("(1 2)"),
        dict_of("(1"), dict_of("(1234567890123456789,)"), std::string(), std::string("{"),
        std::string("{'descr': '|u1', 'fortran_order': False}"),
        std::string("{'descr': '|u1', 'shape': (1,)}"),
        std::string("{'fortran_order': False, 'shape': (1,)}"),
        std::string("{'descr': '|u1', 'fortran_order': Maybe, 'shape': (1,)}"),
        std::string("{'descr': '|u1', 'fortran_order': False, 'shape': (1,), 'x': 1}"),
        std::string("{'descr' '|u1', 'fortran_order': False, 'shape': (1,)}"),
        std::string("{'descr': '|u1' 'fortran_order': False, 'shape': (1,)}")}) {
    EXPECT_EQ(read_header(dict, "x"), damaged) << dict;
  }
  EXPECT_EQ(read_header(dict_of("(999999999999999999,)")),
            "uint8 (999999999999999999,) needs 999999999999999999 bytes of data but has 0");
  EXPECT_EQ(read_header(dict_of("(1,)", "'<u2'") + " ", "xy"), "has unaligned data");
  EXPECT_EQ(read_header(dict_of("(1152921504606846975,)")), "has a damaged .npy header")
      << "more than 18 digits";
  EXPECT_THAT(read_header(dict_of("(1, 999999999999999999, 2)")),
              HasSubstr("has an impossible shape"));
  const std::vector<std::byte> magic = {std::byte{0x93}, std::byte{'N'}, std::byte{'U'},
                                        std::byte{'M'},  std::byte{'P'}, std::byte{'Y'},
                                        std::byte{1},    std::byte{0},   std::byte{0}};
  EXPECT_THAT(error_of([&] { NpyArray::parse(magic, "a"); }), HasSubstr("ends inside its header"));
  std::vector<std::byte> second = magic;
  second[6] = std::byte{2};
  second.resize(11);
  EXPECT_THAT(error_of([&] { NpyArray::parse(second, "a"); }), HasSubstr("ends inside its header"));
  second.resize(12);
  EXPECT_THAT(error_of([&] { NpyArray::parse(second, "a"); }), HasSubstr("damaged"));
}

TEST(NpyViews, AreOfTheirBytes) {
  const auto kept = std::make_shared<std::vector<std::uint16_t>>(2, std::uint16_t{0x3fc0});
  const auto bytes = std::as_bytes(std::span(*kept));
  const NpyArray brain = NpyArray::view({'b', 2}, {2}, bytes, kept, "v");
  EXPECT_EQ(brain.describe(), "bfloat16 (2,)");
  EXPECT_EQ(brain.real(1), 1.5);
  EXPECT_EQ(brain.reshaped({2, 1}).describe(), "bfloat16 (2, 1)");
  EXPECT_THAT(error_of([&] { brain.reshaped({3}); }),
              HasSubstr("v: error: bfloat16 (3,) needs 6 bytes of data but has 4"));
  EXPECT_THAT(error_of([&] { brain.reshaped(std::vector<std::int64_t>(65, 1)); }),
              HasSubstr("has too many axes"));
  EXPECT_THAT(error_of([&] { brain.reshaped({-1, -2}); }), HasSubstr("has an impossible shape"));
  const NpyArray bits = NpyArray::view({'u', 2}, {2}, bytes, kept, "v");
  EXPECT_EQ(bits.integer(0), 0x3fc0);
  EXPECT_EQ(bits.real(0), 0x3fc0);
}

}  // namespace
}  // namespace moesim
