// SPDX-License-Identifier: Apache-2.0
// Runs of numbers, packed pages, fields of Thrift and texts of bytes, each made by hand.
#include "sim/import/parquet/thrift.h"

#include <gmock/gmock.h>

#include "sim/base/gzip.h"
#include "sim/import/base64.h"
#include "sim/import/parquet/parquet_file.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> as_span(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::uint32_t> runs(const std::string& bytes, int width, std::int64_t count) {
  std::vector<std::uint32_t> out = {9};
  read_runs(as_span(bytes), width, count, out, "w");
  return out;
}

TEST(Runs, AreOfOneNumberOrPacked) {
  EXPECT_THAT(runs("\x06\x05", 3, 3), ElementsAre(5, 5, 5));
  EXPECT_THAT(runs("\x06\x05", 3, 2), ElementsAre(5, 5));
  EXPECT_THAT(runs("\x04\x05\x02\x06", 3, 3), ElementsAre(5, 5, 6));
  EXPECT_THAT(runs("\x03\x88\xc6\xfa", 3, 8), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(runs("\x03\x88\xc6\xfa", 3, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(runs("\x04\x01\x01", 9, 2), ElementsAre(257, 257));
  EXPECT_THAT(runs("\x02\x01\x02\x03", 24, 1), ElementsAre(0x030201));
  EXPECT_THAT(runs("\x03" + std::string("\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17\20", 16), 16, 8),
              ElementsAre(0x0201, 0x0403, 0x0605, 0x0807, 0x0a09, 0x0c0b, 0x0e0d, 0x100f));
  EXPECT_THAT(runs("\x06", 0, 3), ElementsAre(0, 0, 0));
  EXPECT_THAT(runs("", 3, 0), ElementsAre());
  EXPECT_EQ(runs("\x90\x01\x05", 3, 72), std::vector<std::uint32_t>(72, 5));
  EXPECT_EQ(runs("\x05" + std::string("\x88\xc6\xfa\x88\xc6\xfa"), 3, 16)[12], 4U);
}

TEST(Runs, ThatAreCutOrOfNoUseAreDamaged) {
  const auto refused = [](const std::string& bytes, int width, std::int64_t count) {
    return error_of([&] { runs(bytes, width, count); });
  };
  for (const std::string& bytes :
       {std::string(), std::string("\x06"), std::string("\x06\x05"), std::string("\x03\x88\xc6"),
        std::string("\0\0", 2), std::string("\x01"), std::string("\x80\x80\x80\x80\x80\x01\x05"),
        std::string("\x80")}) {
    EXPECT_THAT(refused(bytes, 3, 4), HasSubstr("w: error: has a damaged page")) << bytes.size();
  }
  EXPECT_THAT(refused("\x06\x05", 25, 3), HasSubstr("has numbers of 25 bits"));
  EXPECT_THAT(refused("\x06\x05", -1, 3), HasSubstr("has numbers of -1 bits"));
}

std::string unpacked(ParquetCodec codec, const std::string& packed, std::size_t size) {
  std::vector<std::byte> out;
  const std::string error = error_of([&] { unpack_page(codec, as_span(packed), size, out, "w"); });
  if (!error.empty()) return error.substr(0, error.find('\n'));
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}

TEST(Pages, AreUnpackedToTheirSize) {
  const std::string damaged = "w: error: has a damaged page";
  const std::string snappy =
      "\x03\x08"
      "abc";
  const std::string zstd = std::string("\x28\xb5\x2f\xfd\x20\x03\x19\0\0", 9) + "abc";
  const std::vector<std::pair<ParquetCodec, std::string>> forms = {
      {ParquetCodec::none, "abc"},
      {ParquetCodec::snappy, snappy},
      {ParquetCodec::gzip, gzipped("abc")},
      {ParquetCodec::zstd, zstd}};
  for (const auto& [codec, packed] : forms) {
    EXPECT_EQ(unpacked(codec, packed, 3), "abc");
    EXPECT_EQ(unpacked(codec, packed, 2), damaged);
    EXPECT_EQ(unpacked(codec, packed, 4), damaged);
    EXPECT_EQ(unpacked(codec, "", 0), "");
    EXPECT_EQ(unpacked(codec, packed.substr(0, packed.size() - 1), 3), damaged);
    EXPECT_EQ(unpacked(codec, "x", 0), damaged);
  }
}

TEST(Pages, ThatClaimToUnpackToMuchMoreAreRefused) {
  constexpr std::size_t large = 32U << 20;
  const std::string many(large / 200, 'x'), few = many.substr(1);
  EXPECT_EQ(unpacked(ParquetCodec::snappy, few, large + 200),
            "w: error: has a page that unpacks to more than 200 times its size");
  EXPECT_EQ(unpacked(ParquetCodec::none, many + "x", large + 200), "w: error: has a damaged page");
  EXPECT_EQ(unpacked(ParquetCodec::none, "x", large), "w: error: has a damaged page");
}

/// The last number of a struct whose other fields are passed, and the bytes read.
std::pair<std::int64_t, std::size_t> last_of(const std::string& bytes) {
  ThriftReader in(as_span(bytes), "w");
  std::int64_t last = -1;
  in.read_struct([&](int id, ThriftReader::Type type) {
    if (id != 30) return false;
    EXPECT_EQ(type, ThriftReader::i32);
    last = in.integer();
    return true;
  });
  return {last, in.at()};
}

TEST(Thrift, FieldsThatNobodyReadsArePassed) {
  // An i32 of -4 with the id 30, in the long form: twice 30, then zigzag.
  const std::string wanted = std::string("\x05\x3c\x07\0", 4);
  EXPECT_EQ(last_of(wanted), std::pair(std::int64_t{-4}, std::size_t{4}));
  for (const std::string& other :
       {std::string("\x11"), std::string("\x12"), std::string("\x13\x7f"),
        std::string("\x14\x80\x01"), std::string("\x15\x01"), std::string("\x16\xff\x01"),
        "\x17" + std::string(8, '\1'),
        std::string("\x18\x03"
                    "abc"),
        std::string("\x19\x31\x01\x02\x01"), std::string("\x1a\x25\x80\x01\x02"),
        std::string("\x19\xf3\x10"
                    "0123456789abcdef"),
        std::string("\x1c\x15\x02\x05\x10\x02\x11\0", 8), std::string("\x19\x1c\x15\x02\0", 5)}) {
    const std::string bytes = other + wanted;
    EXPECT_EQ(last_of(bytes), std::pair(std::int64_t{-4}, bytes.size())) << int{other[0]};
  }
}

TEST(Thrift, DamagedMetadataIsRefused) {
  const auto refused = [](const std::string& bytes) { return error_of([&] { last_of(bytes); }); };
  const std::string cut = "w: error: its metadata is cut short\n";
  for (const std::string& bytes : {std::string(), std::string("\x11"), std::string("\x13"),
                                   std::string("\x15\x80"), std::string("\x17\1\1\1\1\1\1\1"),
                                   std::string("\x18\x03"
                                               "ab"),
                                   std::string("\x19\x41\x01\x01"), std::string("\x19")}) {
    EXPECT_EQ(refused(bytes), cut) << bytes.size();
  }
  const std::string damaged = "w: error: its metadata is damaged\n";
  EXPECT_EQ(refused("\x1d"), damaged) << "no such type";
  EXPECT_EQ(refused(std::string("\x1b\0\0", 3)), damaged) << "maps";
  EXPECT_EQ(refused(std::string("\x05\x01\x02\0", 4)), damaged) << "an id below 0";
  EXPECT_EQ(refused(std::string("\x05\x82\x80\x04\x02\0", 6)), damaged) << "an id above 32768";
  EXPECT_EQ(last_of(std::string("\x05\x80\x80\x04\x02\0", 6)).first, -1) << "an id of 32768";
  EXPECT_EQ(refused("\x15" + std::string(10, '\xff')),
            "w: error: its metadata has a number of more than 64 bits\n");
  EXPECT_EQ(last_of("\x15" + std::string(9, '\xff') + std::string("\x01\0", 2)).second, 12U);
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '\x1c') + std::string(depth + 1, '\0');
  };
  EXPECT_EQ(refused(nested(18)), "w: error: its metadata is nested too deep\n");
  EXPECT_EQ(last_of(nested(17)).first, -1);
}

TEST(Thrift, ListsAreOfTheirType) {
  const auto items = [](const std::string& bytes) {
    ThriftReader in(as_span(bytes), "w");
    std::vector<std::int64_t> list;
    in.read_list(ThriftReader::i32, [&] { list.push_back(in.integer()); });
    return list;
  };
  EXPECT_THAT(items("\x25\x02\x03"), ElementsAre(1, -2));
  EXPECT_THAT(items("\xf5\x02\x02\x03"), ElementsAre(1, -2));
  EXPECT_THAT(items(std::string("\0", 1)), ElementsAre());
  EXPECT_EQ(items("\xf5\x0f" + std::string(15, '\2')).size(), 15U);
  EXPECT_THAT(error_of([&] { items("\x26\x02\x03"); }), HasSubstr("its metadata is damaged"));
  EXPECT_THAT(error_of([&] { items("\x16\x02"); }), HasSubstr("its metadata is damaged"));
  EXPECT_THAT(error_of([&] { items("\x35\x02\x03"); }), HasSubstr("its metadata is cut short"));
}

TEST(TextsOfBytes, AreBase64OrBase85) {
  const auto text = [](const std::vector<std::byte>& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  for (const auto& [coded, plain] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"TWFu", "Man"},
                                                        {"TWE=", "Ma"},
                                                        {"TQ==", "M"},
                                                        {"TWFuTWE=", "ManMa"},
                                                        {"TWFu\nTW\r\nE= ", "ManMa"},
                                                        {"+/+/", "\xfb\xff\xbf"}}) {
    EXPECT_EQ(text(from_base64(coded, "w")), plain) << coded;
  }
  for (const char* const wrong : {"TWF", "TWFuT", "TW=u", "T===", "TW-u", "TWE*"}) {
    EXPECT_THAT(error_of([&] { from_base64(wrong, "w"); }), HasSubstr("w: error: holds")) << wrong;
  }
  for (const auto& [coded, plain] :
       std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                        {"|NsC0", "\xff\xff\xff\xff"},
                                                        {"00000", std::string(4, '\0')},
                                                        {"O<`^zO<@", "Man Ma"},
                                                        {"00", std::string(1, '\0')}}) {
    EXPECT_EQ(text(from_base85(coded, "w")), plain) << coded;
  }
  EXPECT_THAT(error_of([] { from_base85("00 00", "w"); }), HasSubstr("not base85"));
  EXPECT_THAT(error_of([] { from_base85("|NsC1", "w"); }), HasSubstr("not base85"));
}

}  // namespace
}  // namespace moesim
