// SPDX-License-Identifier: Apache-2.0
// Large JSON is read block by block: what stands on the border of two is read as anywhere else.
#include <gmock/gmock.h>

#include "sim/base/gzip.h"
#include "sim/import/json_items.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

/// Bytes of a block of a small packed file.
constexpr std::size_t block_bytes = 4096;

/// The items of a packed file without their letters x; or what is wrong.
std::vector<std::string> packed_items(const std::string& text) {
  const ScratchFolder scratch;
  write_bytes(scratch / "a.gz", gzipped(text));
  std::vector<std::string> found;
  const std::string error = error_of([&] {
    JsonItems items(scratch / "a.gz");
    while (items.next()) found.push_back(replace_all(items.text(), "x", ""));
  });
  if (!error.empty()) found.push_back(error.substr(error.find("error: ")));
  return found;
}

TEST(BordersOfBlocks, MayBeAnywhereInAString) {
  const std::string start = R"({"a": ")", end = "\"}";
  for (const std::string text : {R"(\")", R"(\\)", R"(\\\")", R"(\"\")", "]}"}) {
    for (std::size_t before = 0; before <= text.size() + end.size(); ++before) {
      const std::string pad(block_bytes - start.size() - before, 'x');
      EXPECT_THAT(packed_items(start + pad + text + end + "\n7\n"),
                  ElementsAre(start + text + end, "7"))
          << before << " bytes of the end are in the first block";
    }
  }
}

TEST(BordersOfBlocks, MayBeAnywhereBetweenItems) {
  for (const std::string text :
       {"\ndata: [1, 2]\n", "\n[DONE]\n[1, 2]\n", "\nevent: a\n1\n2\n", "\n: ping\n1 2\n",
        "\nHTTP/1.1 200 OK\r\na: b\r\n\r\n1\n2\n", "\n* Connected\n1\n2", "\n>\r\n< b\n1 2",
        "\nid: 5\nretry: 1\n1 2", "\n\xef\xbb\xbf\x31 2"}) {
    for (std::size_t before = 0; before <= text.size(); ++before) {
      const std::string item = "\"" + std::string(block_bytes - 2 - before, 'x') + "\"";
      EXPECT_THAT(packed_items(item + text), ElementsAre("\"\"", "1", "2"))
          << text << before << " bytes of it are in the first block";
    }
  }
}

TEST(BordersOfBlocks, MayBeAnywhereInAnItem) {
  const std::string text = "\n{\"a\": [1, {\"b\": 2}]}\n-17.5\n[true, \"y\"]\n";
  for (std::size_t before = 0; before <= text.size(); ++before) {
    const std::string item = "\"" + std::string(block_bytes - 2 - before, 'x') + "\"";
    EXPECT_THAT(packed_items(item + text),
                ElementsAre("\"\"", "{\"a\": [1, {\"b\": 2}]}", "-17.5", "true", "\"y\""))
        << before << " bytes of it are in the first block";
  }
}

}  // namespace
}  // namespace moesim
