// SPDX-License-Identifier: Apache-2.0
// Objects two levels deep, however a file holds them; what is broken is an error with its line.
#include "sim/profile/flat_json.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

/// "a" of every object, after a semicolon each.
std::string all_of(const std::string& path, const std::string& list) {
  FlatJson json(path, list);
  FlatObject object;
  std::string all;
  while (json.next(object))
    all += std::string(object("a")) + "|" + std::string(object.in("b", "a")) + ";";
  return all;
}

std::string read_text(const std::string& text, const std::string& list = "events") {
  const ProfileFiles files;
  try {
    return all_of(files.write("f.json", text), list);
  } catch (const Error& e) {
    return e.diagnostics()[0].message + " in line " + std::to_string(e.diagnostics()[0].line);
  }
}

TEST(FlatJson, ReadsListsAndObjects) {
  EXPECT_EQ(read_text(R"([{"a": 1, "b": {"a": "x"}}, {"a": "y"}])"), "1|x;y|;");
  EXPECT_EQ(read_text(R"({"k": [1, {"a": 5}], "events": [{"a": 1}, {}], "z": {"a": 2}})"), "1|;|;");
  EXPECT_EQ(read_text("{\"a\": 1}\r\n{\"a\": 2}\r\n", ""), "1|;2|;");
  EXPECT_EQ(read_text("\xef\xbb\xbf[{\"a\": 7}]"), "7|;");
  EXPECT_EQ(read_text(R"({"events": []})"), "");
  EXPECT_EQ(read_text(R"({"other": 3})"), "");
  EXPECT_EQ(read_text(""), "");
}

TEST(FlatJson, RefusesWhatFollowsTheDocument) {
  const std::string more = "not JSON: it continues after its end in line 2";
  for (const std::string end : {"{\"events\": []}", "[]", "garbage {{{", "]", "}"}) {
    EXPECT_EQ(read_text("{\"events\": [{\"a\": 1}]}\n" + end), more) << end;
    EXPECT_EQ(read_text("{\"events\": [], \"z\": 1}\n" + end), more) << end;
    EXPECT_EQ(read_text("[{\"a\": 1}]\n" + end), more) << end;
    EXPECT_EQ(read_text("[{\"a\": 1}]\n" + end, ""), more) << end;
  }
  EXPECT_EQ(read_text("{\"events\": [{\"a\": 1}]} \r\n\n"), "1|;");
  const ProfileFiles files;
  std::string path;
  for (int copy = 0; copy < 2; ++copy) path = files.append_packed("f.gz", "[{\"a\": 1}]\n");
  EXPECT_THAT(error_of([&] { all_of(path, "events"); }),
              testing::HasSubstr("hint: give each document a file of its own"));
}

TEST(FlatJson, KeepsBracketsAndQuotesOfStrings) {
  EXPECT_EQ(read_text(R"([{"a": "}\"]\\", "c": [{"a": "{"}, []]}, {"a": 2}])"), R"(}\"]\\|;2|;)");
}

TEST(FlatJson, TakesBareNamesAsNcclWritesThem) {
  EXPECT_EQ(read_text(R"([{"a": 0x4142e90, "b": {"a": ncclFloat32}}])"), "0x4142e90|ncclFloat32;");
}

TEST(FlatJson, AListWithoutItsEndIsWhole) {
  const ProfileFiles files;
  FlatJson json(files.write("f.json", "{\"events\": [{\"a\": 1},\n"), "events");
  FlatObject object;
  EXPECT_TRUE(json.next(object));
  EXPECT_FALSE(json.next(object));
  EXPECT_TRUE(json.ended_early());
}

TEST(FlatJson, RefusesWhatIsBroken) {
  EXPECT_EQ(read_text("[{\"a\": 1},\n{\"a\""), "not JSON: unexpected end of input in line 2");
  EXPECT_EQ(read_text("[\n\n{\"a\" 1}]"), "not JSON: expected ':' after a key in line 3");
  EXPECT_EQ(read_text("[{\"a\": 1 \"b\": 2}]"),
            "not JSON: expected ',' or '}' after a member in line 1");
  EXPECT_EQ(read_text("7"), "not JSON: expected an object or a list in line 1");
  EXPECT_EQ(read_text("[{\"a\": " + std::string(101, '[') + std::string(101, ']') + "}]"),
            "not JSON: is nested too deeply in line 1");
  EXPECT_EQ(read_text("[{\"a\": \"" + std::string((16 << 20) + 2000000, 'x') + "\"}]"),
            "not JSON: a value of over 16 MiB in line 1");
}

TEST(FlatJson, ReadsPackedFilesAndRefusesCutOnes) {
  const ProfileFiles files;
  std::string text = "{\"events\": [";
  for (int i = 0; i < 40000; ++i)
    text += fmt::format("{}{{\"a\": {}}}", i == 0 ? "" : ",", i * 7919 % 65521);
  const std::string path = files.write_packed("f.json.gz", text + "]}");
  EXPECT_EQ(std::ranges::count(all_of(path, "events"), ';'), 40000);
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const std::string cut = files.write("cut.json.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(all_of(cut, "events"), Error);
}

TEST(FlatValues, AreRead) {
  EXPECT_EQ(flat_string(R"(a\"b\\c\u00e9\n)"), "a\"b\\c\xc3\xa9 ");
  EXPECT_EQ(flat_string(R"(\u20ac\u0041\u12)"),
            "\xe2\x82\xac"
            "Au12");
  EXPECT_EQ(flat_string(R"(\r\n\t\b\f\/\")"), "     /\"");
  EXPECT_EQ(flat_items("[1, [2, 3], \"x\"]"), (std::vector<std::string_view>{"1", "[2, 3]", "x"}));
  EXPECT_TRUE(flat_items("[1, ").size() <= 1);
  EXPECT_EQ(flat_whole("12"), 12);
  EXPECT_EQ(flat_whole("-1"), -1);
  EXPECT_EQ(flat_whole("x"), -1);
  EXPECT_EQ(flat_object(R"({"rank": 3})")("rank"), "3");
}

}  // namespace
}  // namespace moesim
