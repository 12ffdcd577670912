// SPDX-License-Identifier: Apache-2.0
// What a file is said to hold, and counts of experts in texts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sim/import/count_text.h"
#include "sim/import/file_content.h"
#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

std::string content_of_text(const std::string& bytes) {
  const ScratchFolder scratch;
  write_bytes(scratch / "a", bytes);
  return content_of(scratch / "a");
}

TEST(ContentsOfFiles, AreNamed) {
  for (const auto& [bytes, content] : std::vector<std::pair<std::string, std::string>>{
           {"", "is empty"},
           {" \t\r\n", "is empty"},
           {"\xef\xbb\xbf", "is empty"},
           {R"({"a": 1, "b": 2})", "is JSON with the keys a, b"},
           {"\n {}", "is JSON, an object without keys"},
           {"[1]", "is JSON without keys"},
           {"[ -1]", "is JSON without keys"},
           {"[]", "is JSON without a value"},
           {R"([{"a": 1}])", "is JSON with the keys a"},
           {R"(data: {"a": 1})", "is JSON with the keys a"},
           {"id: 1\ndata: {\"a\": 1}", "is JSON with the keys a"},
           {"HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\r\n\r\n{\"a\": 1}",
            "is JSON with the keys a"},
           {"data: x,y", "is text with the columns data: x, y"},
           {"[info] a,b", "is text with the columns [info] a, b"},
           {"words\n", "is text"},
           {"# a,b\nwords\nc\td\ne,f\n", "is text with the columns c, d"},
           {"a\x08", "is binary, of no form that is known"},
           {std::string("\xff\xfe"
                        "1\0,\0",
                        6),
            "is UTF-16 text (save it as UTF-8)"},
           {"PAR1", "is a Parquet file"},
           {"\x80\x02", "is a bare pickle, or of a torch.save before its zip form"},
           {"\x80\x05", "is a bare pickle, or of a torch.save before its zip form"},
           {"\x80\x01", "is binary, of no form that is known"},
           {"\x80\x06", "is binary, of no form that is known"},
           {"\x80", "is text"},
           {npy_header({'u', 1}, std::vector<std::int64_t>{1, 2}) + "ab",
            "is an array uint8 (1, 2)"}}) {
    EXPECT_EQ(content_of_text(bytes), content) << bytes;
  }
  EXPECT_EQ(content_of(std::string(MOESIM_ROOT) + "/tests/fixtures/npz/tlk.npz"),
            "is a zip archive with ids.npy, seq_len.npy, gate_w1e4.npy");
}

TEST(NamesInMessages, AreTwelveOfFortyCharacters) {
  std::vector<std::string> names(12, "a");
  const std::string twelve = "a, a, a, a, a, a, a, a, a, a, a, a";
  EXPECT_EQ(some_of(names), twelve);
  names.insert(names.end(), {"b", "c"});
  EXPECT_EQ(some_of(names), twelve + " and 2 more");
  const std::string forty = "b" + std::string(39, 'x');
  EXPECT_EQ(some_of({forty, forty + "y"}), forty + ", " + forty + "...");
}

TEST(NamesInMessages, AreOfFilesAndFolders) {
  const ScratchFolder scratch;
  EXPECT_EQ(files_text({scratch.path()}), "it holds no files");
  write_bytes(scratch / "c", "x");
  write_bytes(scratch / "b/d", "x");
  write_bytes(scratch / "a", "x");
  EXPECT_EQ(files_text({scratch.path()}), "it holds a, b/, c");
}

/// "SHAPE VALUES" of the counts in a text, or what is wrong.
std::string counts_in(const std::string& text) {
  const ScratchFolder scratch;
  write_bytes(scratch / "a", text);
  std::string told;
  const std::string error = error_of([&] {
    const NpyArray counts = count_array_in(scratch / "a");
    told = shape_text(counts.shape());
    for (std::int64_t i = 0; i < counts.count(); ++i) told += fmt::format(" {}", counts.integer(i));
  });
  if (error.empty()) return told;
  return replace_all(error.substr(0, error.find('\n')), scratch / "a", "");
}

TEST(CountsInJson, AreListsOrObjectsOfLayers) {
  EXPECT_EQ(counts_in("[[3, 1], [0, 2]]"), "(2, 2) 3 1 0 2");
  EXPECT_EQ(counts_in(R"({"logical_count": [[3, 1]]})"), "(1, 2) 3 1");
  EXPECT_EQ(counts_in(R"({"layer_9": [3, 1]})"), "(1, 2) 3 1");
  EXPECT_EQ(counts_in(R"({"b10": [1, 2], "b9": [3]})"), "(2, 2) 3 0 1 2");
  EXPECT_EQ(counts_in(R"({"b1": {"e0": 4, "e3": 1}, "b2": {"e1": 5}})"), "(2, 4) 4 0 0 1 0 5 0 0");
  EXPECT_EQ(counts_in(R"({"7.b3": [1], "b2": [2]})"), "(2, 1) 2 1") << "the last number";
  EXPECT_EQ(counts_in(R"({"b123456789": [1]})"), "(1, 1) 1");
  EXPECT_EQ(counts_in(R"({"b1": [0, 1073741824]})"), "(1, 2) 0 1073741824");
  EXPECT_EQ(counts_in(R"({"b1": {"e0": 1073741824}})"), "(1, 1) 1073741824");
  EXPECT_THAT(counts_in(R"({"b1": {"e65534": 1}})"), testing::StartsWith("(1, 65535) 0 0 "));
  for (const char* const wrong :
       {R"({"w": [1]})", R"({"w1234567890": [1]})", R"({"w1": [1.5]})", R"({"w1": [-1]})",
        R"({"w1": {"e65535": 1}})", R"({"w1": {"e": 1}})", R"({"w1": {"e0": -1}})", R"({"w1": []})",
        R"({"w1": {}})", R"({"w1": 5})", R"({"b1": [1], "w1": [1]})",
        R"({"w1": [[1, 2]], "b1": [1]})"}) {
    EXPECT_THAT(counts_in(wrong), testing::EndsWith("does not hold the counts of a layer"))
        << wrong;
  }
  for (const char* const large : {R"({"w1": [1073741825]})", R"({"w1": {"e0": 1073741825}})"}) {
    EXPECT_THAT(counts_in(large),
                testing::EndsWith("holds a count of 1073741825; at most 1073741824 can be"));
  }
  EXPECT_EQ(counts_in("[[3, 3000000000]]"),
            ": error: holds 3000000000 among its counts; at most 2147483647 can be");
}

TEST(CountsInJson, OfSeveralStepsAreLists) {
  EXPECT_EQ(counts_in("[[[3, 1]], [[0, 2]]]"), "(2, 1, 2) 3 1 0 2");
  EXPECT_EQ(counts_in("[[3, 1]]\n[[0, 2]]\n"), "(2, 2) 3 1 0 2") << "layers";
  EXPECT_EQ(counts_in("{\"b1\": [3]}\n{\"b1\": [4]}\n"),
            ":2: error: holds more than one object of counts");
  EXPECT_EQ(counts_in("{\"b1\": [3]}\n[[4]]\n"), ":2: error: holds more than one object of counts");
}

TEST(CountsInRows, AreOfLayersOrOfExperts) {
  EXPECT_EQ(counts_in("# c\n3,1\n0,2\n# d\n4,5\n"), "(3, 2) 3 1 0 2 4 5");
  EXPECT_EQ(counts_in("3\n"), "(1, 1) 3");
  EXPECT_EQ(counts_in("3 1\n0 1073741824\n"), "(2, 2) 3 1 0 1073741824");
  EXPECT_EQ(counts_in("a,b\n3,1\n"), "(1, 2) 3 1");
  EXPECT_EQ(counts_in("layer,e0,e1\n9,3,1\n"), "(1, 2) 3 1");
  EXPECT_EQ(counts_in("expert layer_0 layer_1\n0 3 5\n1 1 7\n2 4 9\n"), "(2, 3) 3 1 4 5 7 9");
}

TEST(CountsInRows, ThatAreNoneAreRefusedInTheirLine) {
  EXPECT_EQ(counts_in("1,2\n3,x\n"), ":2: error: 'x' is not a count");
  EXPECT_EQ(counts_in("a,b\nc,d\n"), ":2: error: 'c' is not a count");
  EXPECT_EQ(counts_in("3,-1\n"), ":1: error: '-1' is not a count");
  EXPECT_EQ(counts_in("3,0.5\n"), ":1: error: '0.5' is not a count");
  EXPECT_EQ(counts_in("3,1073741825\n"),
            ":1: error: holds a count of 1073741825; at most 1073741824 can be");
  EXPECT_EQ(counts_in("3;[1]\n"), ":1: error: '[1]' is not a count");
  EXPECT_EQ(counts_in("3,1\n1\n"), ":2: error: has rows of different lengths");
  EXPECT_EQ(counts_in("layer,e0\n9\n"), ":2: error: has rows of different lengths");
  EXPECT_EQ(counts_in("layer,count\n1,2\n"), ":1: error: has a row per expert, not per layer");
  EXPECT_EQ(counts_in("# a\n"), ": error: holds no counts");
  EXPECT_EQ(counts_in("a,b\n"), ": error: holds no counts");
}

}  // namespace
}  // namespace moesim
