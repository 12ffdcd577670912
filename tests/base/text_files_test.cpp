// SPDX-License-Identifier: Apache-2.0
// Text, plain and gzip: whole, block by block, line by line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/gzip.h"
#include "sim/base/line_file.h"
#include "sim/base/temporary_folder.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Numbers, more of them than a block holds.
std::string many_lines() {
  std::string text;
  for (std::int64_t i = 0; i < 400000; ++i) text += std::to_string(i * 7919 % 1000003) + '\n';
  return text;
}

class TextFiles : public testing::Test {
 protected:
  std::string file(const std::string& content) {
    const std::string path = folder_.path() + "/text" + std::to_string(files_++);
    write_file(path, content);
    return path;
  }
  static std::vector<std::string> lines_of(const std::string& path) {
    LineFile lines(path);
    std::vector<std::string> all;
    for (std::string line; lines.next(line);) {
      all.push_back(std::to_string(lines.line_number()) + ":" + line);
    }
    return all;
  }
  static std::string blocks_of(const std::string& path) {
    TextBlocks blocks(path);
    std::string all;
    for (std::string_view block; !(block = blocks.next()).empty();) all += block;
    EXPECT_DOUBLE_EQ(blocks.done(), 1);
    return all;
  }

 private:
  TemporaryFolder folder_;
  int files_ = 0;
};

/// Bytes stay as they are.
TEST_F(TextFiles, MayBeginWithAMark) {
  const std::string marked =
      "\xef\xbb\xbf"
      "a\nb\n";
  for (const std::string& content : {marked, gzipped(marked)}) {
    EXPECT_THAT(lines_of(file(content)), ElementsAre("1:a", "2:b"));
  }
  EXPECT_EQ(read_file(file(marked)), "a\nb\n");
  EXPECT_EQ(read_file_or_input(file(marked)), "a\nb\n");
  EXPECT_EQ(read_bytes(file(marked)), marked);
  const std::string wide(
      "\xff\xfe"
      "a\0",
      4);
  const auto refused = HasSubstr(
      "this is UTF-16 text\nhint: save it as UTF-8, for example with "
      "iconv -f utf-16 -t utf-8");
  EXPECT_THAT(error_of([&] { read_file(file(wide)); }), refused);
  EXPECT_THAT(error_of([&] { lines_of(file(wide)); }), refused);
  EXPECT_EQ(read_bytes(file(wide)), wide);
}

TEST_F(TextFiles, LinesThatAreNotBlankHaveTheirNumbers) {
  const std::string text = "a\n\n \t\r\nb c\n\nlast";
  for (const std::string& content : {text, gzipped(text)}) {
    EXPECT_THAT(lines_of(file(content)), ElementsAre("1:a", "4:b c", "6:last"));
  }
  EXPECT_THAT(lines_of(file("a\n")), ElementsAre("1:a"));
  EXPECT_THAT(lines_of(file("\n\n")), ElementsAre());
  EXPECT_THAT(lines_of(file("")), ElementsAre());
}

TEST_F(TextFiles, AreWholeHoweverLong) {
  const std::string text = many_lines(), packed = gzipped(text);
  EXPECT_LT(packed.size(), text.size());
  EXPECT_EQ(gzipped(text), packed);
  for (const std::string& content : {text, packed}) {
    const std::string path = file(content);
    EXPECT_EQ(read_text_or_gzip(path), text);
    EXPECT_EQ(blocks_of(path), text);
    EXPECT_EQ(lines_of(path).size(), 400000U);
  }
  EXPECT_EQ(read_gzip(file(packed)), text);
  EXPECT_EQ(read_gzip(file(gzipped(""))), "");
  EXPECT_EQ(blocks_of(file("")), "");
}

TEST_F(TextFiles, DamageIsTold) {
  const std::string packed = gzipped(many_lines());
  const std::string cut = file(packed.substr(0, packed.size() / 2)), plain = file("plain\n");
  EXPECT_THROW(read_gzip(cut), Error);
  EXPECT_THROW(blocks_of(cut), Error);
  try {
    read_gzip(plain, "pack it");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("is not in gzip's form\nhint: pack it"));
  }
}

TEST_F(TextFiles, WhatWouldFillTheMemoryIsRefused) {
  const std::string bomb = file(gzipped(std::string(64 << 20, 'a')));  // 65 kB
  EXPECT_THROW(read_gzip(bomb), Error);
  LineFile lines(bomb);
  std::string line;
  EXPECT_THROW(lines.next(line), Error);
  const std::string large = file(gzipped(std::string(20 << 20, 'a') + '\n'));
  EXPECT_EQ(lines_of(large).size(), 1U) << "packed as well, but not large";
}

}  // namespace
}  // namespace moesim
