// SPDX-License-Identifier: Apache-2.0
// Text that would end a reader with a crash or fill the memory is refused with its place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/json_events.h"
#include "sim/base/text.h"
#include "sim/base/yaml.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string yaml(const std::string& text) {
  return error_of([&] { YamlDocument::from_text(text, "a.yaml"); });
}
std::string json(const std::string& text, int first_line = 1) {
  return error_of([&] { parse_json(text, {"a.json", first_line}); });
}
std::string checked(const std::string& text) {
  return error_of([&] { check_text(text, "a.txt"); });
}

std::string repeated(const std::string& part, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part;
  return text;
}

TEST(HostileYaml, ACommaIsNoEndlessRowOfDocuments) {
  EXPECT_EQ(yaml(","),
            "a.yaml:1:1: error: not YAML: a comma outside of [...] and {...}\n  ,\n  ^\n");
  EXPECT_THAT(yaml("- a\n,"), StartsWith("a.yaml:2:1: error: not YAML: a comma outside"));
}

TEST(HostileYaml, TextAfterTheDocument) {
  EXPECT_EQ(yaml("[1, 2] x\n"),
            "a.yaml:1:8: error: not YAML: text after the end of the document\n  [1, 2] x\n"
            "         ^\n");
  EXPECT_THAT(yaml("{a: 1}\nb: 2\n"), StartsWith("a.yaml:2:1: error: not YAML: text after"));
  EXPECT_THAT(yaml("a: 1\n...\nmore\n"), StartsWith("a.yaml:3:1: error: not YAML: text after"));
  EXPECT_EQ(yaml("a: 1\n--- b\n"),
            "a.yaml:2:1: error: a second YAML document begins here, only one is read\n  --- b\n"
            "  ^\nhint: take the line '---' away\n");
  EXPECT_EQ(yaml("%YAML 1.2\n---\na: 1\n...\n"), "");
}

TEST(HostileYaml, AliasesOfThemselves) {
  for (const std::string text : {"a: &x [*x]\n", "a: &x {b: *x}\n", "&x [[1, {k: [*x]}]]\n"}) {
    EXPECT_THAT(yaml(text), HasSubstr("an alias of the value that it is inside of")) << text;
  }
  EXPECT_EQ(yaml("a: &x [1, 2]\nb: *x\nc: {d: *x}\n"), "");
}

/// Nine copies of nine copies of ...
std::string bomb(int levels) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i <= levels; ++i) {
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 9; ++k) text += (k > 0 ? ", *a" : "*a") + std::to_string(i - 1);
    text += "]\n";
  }
  return text;
}

TEST(HostileYaml, AliasesOfAliases) {
  EXPECT_EQ(yaml(bomb(3)), "");  // some 9,000 values
  EXPECT_THAT(yaml(bomb(20)), StartsWith("a.yaml:6:10: error: the aliases up to here stand for "
                                         "more than 100000 values\n"));
}

TEST(HostileYaml, Nesting) {
  EXPECT_EQ(yaml(repeated("[", 100) + repeated("]", 100)), "");
  EXPECT_THAT(
      yaml(repeated("[", 101) + repeated("]", 101)),
      StartsWith("a.yaml:1:101: error: more than 100 lists and mappings inside each other"));
  for (const std::string part : {"[", "{a: ", "- ", "? ", "[{a: ["}) {
    EXPECT_THAT(yaml(repeated(part, 100'000)), HasSubstr("more than 100 lists and mappings"));
  }
  std::string chain = "- &a0 [x]\n";  // each level is one deeper only by the alias
  for (int i = 1; i < 200; ++i) {
    chain += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  EXPECT_THAT(yaml(chain), StartsWith("a.yaml:100:"));
}

TEST(HostileYaml, MoreValuesThanMemoryHolds) {
  EXPECT_THAT(yaml("[" + repeated("1,", 4'000'000) + "]"),
              StartsWith("a.yaml:1:8000000: error: more than 4000000 values\n"));
}

TEST(HostileYaml, ALineOfManyMistakesIsNotRepeatedForEach) {
  std::string text = "{a0: 1";
  for (int i = 1; i < 20'000; ++i) text += ", a" + std::to_string(i) + ": 1";
  std::size_t mistakes = 0, repeated_bytes = 0;
  try {
    const auto document = YamlDocument::from_text(text + "}", "a.yaml");
    document->root().map().find("known");
    document->finish();
  } catch (const Error& error) {
    mistakes = error.diagnostics().size();
    for (const Diagnostic& d : error.diagnostics()) repeated_bytes += d.source_line.size();
  }
  EXPECT_EQ(mistakes, 20'000u);
  EXPECT_LT(repeated_bytes, 20'000'000u);  // of a line of 200 kB
  EXPECT_GT(repeated_bytes, 0u);
}

/// Would take minutes if each key were looked for among all others.
TEST(HostileYaml, AMappingOfManyKeysAsJson) {
  std::string text = "k0: 0\n";
  for (int i = 1; i < 100'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const auto document = YamlDocument::from_text(text, "a.yaml");
  const std::string as_json = document->root().json();
  EXPECT_THAT(as_json, StartsWith("{\"k0\":0,\"k1\":1,"));
  EXPECT_TRUE(as_json.ends_with(",\"k99999\":1}"));
}

TEST(HostileText, NotUtf8) {
  EXPECT_EQ(checked("caf\xe9\n"),
            "a.txt:1:4: error: byte 0xe9 is not UTF-8 text\n"
            "hint: save it as UTF-8, for example with iconv -f latin1 -t utf-8\n");
  EXPECT_EQ(checked(std::string("a\nb\0c", 5)),
            "a.txt:2:2: error: a byte is 0, so this is not text\n"
            "hint: is this another kind of file?\n");
  EXPECT_EQ(checked("\xef\xbb\xbf caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\n"), "");
  for (const std::string text :
       {"\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xe2\x82", "\x80", "a\xff\xfe"}) {
    EXPECT_THAT(checked(text), HasSubstr("is not UTF-8 text"));
  }
  for (const char* mark : {"\xff\xfe", "\xfe\xff"}) {
    EXPECT_EQ(checked(mark),
              "a.txt:1:1: error: this is UTF-16 text\n"
              "hint: save it as UTF-8, for example with iconv -f utf-16 -t utf-8\n");
  }
  for (const char* packed : {"BZh91AY&SY\xff", "\x28\xb5\x2f\xfd",
                             "\xfd"
                             "7zXZ"}) {
    EXPECT_THAT(checked(packed), HasSubstr("hint: unpack it first\n"));
  }
  EXPECT_THAT(yaml("a: 1\nname: caf\xe9\n"), StartsWith("a.yaml:2:10: error: byte 0xe9"));
  EXPECT_THAT(json("{\"a\": \"caf\xe9\"}", 7), StartsWith("a.json:7:11: error: byte 0xe9"));
}

/// A code point in as few bytes as hold it, also one that no text may have.
std::string utf8(int code) {
  const auto last = [](int bits) { return static_cast<char>(0x80 | (bits & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), last(code)};
  if (code < 0x10000) {
    return {static_cast<char>(0xe0 | code >> 12), last(code >> 6), last(code)};
  }
  return {static_cast<char>(0xf0 | code >> 18), last(code >> 12), last(code >> 6), last(code)};
}

TEST(HostileText, CodePointsReachFromOneToTheLastWithoutSurrogates) {
  for (const int code : {1, 0x7f, 0x80, 0x7ff, 0x800, 0xfff, 0x1000, 0xd7ff, 0xe000, 0xffff,
                         0x10000, 0x3ffff, 0x40000, 0x10ffff}) {
    EXPECT_TRUE(is_text(utf8(code))) << code;
    EXPECT_FALSE(is_text(utf8(code).substr(1)) && code >= 0x80) << code;
  }
  for (const int code : {0, 0xd800, 0xdfff, 0x110000, 0x140000}) {
    EXPECT_FALSE(is_text(utf8(code))) << code;
  }
}

TEST(HostileText, ATerminalActsOnControlAndDirectionAlone) {
  const auto within = [](int code, int least, int most) { return least <= code && code <= most; };
  for (int code = 0x80; code < 0x3000; ++code) {
    const bool acts = code < 0xa0 || code == 0x61c || within(code, 0x200e, 0x200f) ||
                      within(code, 0x202a, 0x202e) || within(code, 0x2066, 0x2069);
    EXPECT_EQ(printable("a" + utf8(code) + "b") != "a" + utf8(code) + "b", acts) << code;
  }
}

TEST(HostileText, OfALongLineThePlaceIsShown) {
  const std::string shown = yaml("['" + std::string(5'000, 'x') + "']]" + std::string(5'000, ' '));
  EXPECT_THAT(shown, StartsWith("a.yaml:1:5005: error: not YAML: illegal flow end\n  ...xxx"));
  EXPECT_LT(shown.size(), 400u);
  const std::size_t line = shown.find("\n  ...") + 1, caret = shown.find("\n", line) + 1;
  EXPECT_EQ(shown[line + shown.find('^', caret) - caret], ']');
}

TEST(HostileText, TellsATerminalNothing) {
  EXPECT_EQ(printable("a\x1b[31mb\r\n\tc\x7f"), "a\\x1b[31mb\\x0d\n\tc\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J \xc2\xa0\xc3\x9b"),
            "\\xc2\\x9b2J \xc2\xa0\xc3\x9b");
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b \xe2\x81\xa6 \xd8\x9c"),
            "a\\xe2\\x80\\xaeb \\xe2\\x81\\xa6 \\xd8\\x9c");
  for (const char* harmless :
       {"\xe2\x80\xa6", "\xe2\x82\xac", "\xd8\x9b", "\xe2\x81\xaa", "\xd7\x90"}) {
    EXPECT_EQ(printable(harmless), harmless);
  }
  for (int c = 0; c < 256; ++c) {  // each byte by itself, the tab and the end of a line as they are
    const std::string text(1, static_cast<char>(c));
    const bool acts = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    EXPECT_EQ(printable("ab" + text).size(), acts ? 6u : 3u) << c;
  }
  EXPECT_STREQ(Error("no GPU '\x1b]0;x\a'").what(), "error: no GPU '\\x1b]0;x\\x07'\n");
}

TEST(HostileJson, MistakesHaveTheirPlace) {
  EXPECT_EQ(json(","),
            "a.json:1:1: error: not JSON: unexpected ','; expected '[', '{', or a literal\n  ,\n"
            "  ^\n");
  EXPECT_THAT(json("{\"a\": ,\r\n}"), HasSubstr("\n  {\"a\": ,\n        ^\n"));
  EXPECT_THAT(json(""), StartsWith("a.json:1:1: error: not JSON: unexpected end of input"));
  EXPECT_THAT(json("{\"a\": 1,\n \"b\": [1, 2\n"), StartsWith("a.json:3:1: error: not JSON: "));
  EXPECT_THAT(json("{}\n{}"), StartsWith("a.json:2:1: error: not JSON: "));
  EXPECT_THAT(json("[1e999]"), StartsWith("a.json:1:6: error: not JSON: number overflow"));
  EXPECT_LT(json("\"" + std::string(10'000, 'x')).size(), 400u);
}

TEST(HostileJson, Nesting) {
  EXPECT_EQ(json(repeated("[", 100) + repeated("]", 100)), "");
  EXPECT_EQ(json("[\"" + repeated("[{\\\"", 1'000) + "\", \"\\\\\", [1]]"), "");
  EXPECT_EQ(json(repeated("[[]],", 100).insert(0, "[") + "1]"), "");
  for (const std::string part : {"[", "{\"a\": ", "[{\"a\": "}) {
    EXPECT_THAT(json(repeated(part, 100'000)),
                HasSubstr("more than 100 lists and objects inside each other"));
  }
}

/// Would take minutes if each key were looked for among all others.
TEST(HostileJson, AnObjectOfManyKeys) {
  std::string text = "{\"k0\": 0";
  for (int i = 1; i < 300'000; ++i) text += ", \"k" + std::to_string(i) + "\": 1";
  const auto object = parse_json(text + ", \"k0\": 2, \"k299999\": [3]}", {"a.json"});
  ASSERT_EQ(object.size(), 300'000u);
  EXPECT_EQ(object.front(), 2) << "of equal keys the last value counts, in the place of the first";
  EXPECT_EQ(object.back().dump(), "[3]");
}

TEST(HostileJson, TreesAreWhatWasWritten) {
  const std::string text =
      R"({"a":[1,-2,2.5,true,false,null,"x",{},[]],"b":{"c":{"d":[[1],{"e":2}]}},"a2":""})";
  EXPECT_EQ(parse_json(text, {"a.json"}).dump(), text);
  EXPECT_EQ(parse_json(R"({"a": 1, "b": {"x": 1}, "a": 3, "b": {"y": 2}})", {"a.json"}).dump(),
            R"({"a":3,"b":{"y":2}})");
  EXPECT_EQ(parse_json("7", {"a.json"}).dump(), "7");
}

TEST(HostileJson, EventsAreCheckedAlike) {
  const auto events = [](const std::string& text) {
    JsonEvents ignored;
    return error_of([&] { parse_json(text, {"a.json", 1, "look"}, ignored); });
  };
  EXPECT_EQ(events("{\"a\": [1, 2.5, \"b\", null, true]}"), "");
  EXPECT_EQ(events("[1,\n2"),
            "a.json:2:2: error: not JSON: unexpected end of input; expected ']'\n  2\n   ^\n"
            "hint: look\n");
  EXPECT_THAT(events(repeated("[", 100'000)), HasSubstr("more than 100 lists"));
  EXPECT_THAT(events("[\"\xe9\"]"), StartsWith("a.json:1:3: error: byte 0xe9"));
}

}  // namespace
}  // namespace moesim
