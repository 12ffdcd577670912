// SPDX-License-Identifier: Apache-2.0
#include "sim/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/error_of.h"

namespace moesim {
namespace {

/// The whole text of the error that reading `text` gives, or "" when there is none.
std::string errors(const std::string& text, const std::function<void(const YamlMap&)>& read,
                   const std::vector<Override>& overrides = {}) {
  return error_of([&] {
    const auto doc = YamlDocument::from_text(text, "a.yaml", overrides);
    read(doc->root().map());
    doc->finish();
  });
}

void read_link(const YamlMap& map) {
  map.integer("count", {1, 64});
  map.bandwidth("bandwidth");
  map.seconds("latency", Seconds(0));
}

TEST(Yaml, ReadsTypedValues) {
  const auto doc = YamlDocument::from_text(
      "{count: 010, bandwidth: 400 Gbit/s, latency: 2 us, memory: 64 KiB, on: true}", "a.yaml");
  const YamlMap map = doc->root().map();
  EXPECT_EQ(map.integer("count", {}), 10);  // never octal
  EXPECT_EQ(map.bandwidth("bandwidth").value, 50e9);
  EXPECT_DOUBLE_EQ(map.seconds("latency").value, 2e-6);
  EXPECT_EQ(map.bytes("memory"), Bytes(65536));
  EXPECT_TRUE(map.boolean("on", false));
  doc->finish();
}

TEST(Yaml, ReportsAllMistakesOfAFileInOrder) {
  EXPECT_EQ(errors("count: 65\nbandwidth: 50\nlatancy: 2 us\n", read_link),
            "a.yaml:1:8: error: 'count' is 65, must be between 1 and 64\n"
            "  count: 65\n"
            "         ^\n"
            "a.yaml:2:12: error: 'bandwidth' needs a unit\n"
            "  bandwidth: 50\n"
            "             ^\n"
            "hint: a bandwidth such as 50 GB/s or 400 Gbit/s\n"
            "a.yaml:3:1: error: unknown key 'latancy'\n"
            "  latancy: 2 us\n"
            "  ^\n"
            "hint: did you mean 'latency'?\n");
}

TEST(Yaml, NumbersKeepToBothEndsOfTheirRange) {
  const auto share = [](const char* text) {
    return errors(std::string("share: ") + text + "\n", [](const YamlMap& map) {
      map.number("share", {0.25, 1});
    });
  };
  EXPECT_EQ(share("0.25"), "");
  EXPECT_EQ(share("1"), "");
  EXPECT_THAT(share("0.2"), testing::HasSubstr("'share' is 0.2, must be between 0.25 and 1"));
  EXPECT_THAT(share("1.01"), testing::HasSubstr("'share' is 1.01, must be between 0.25 and 1"));
}

TEST(Yaml, QuantitiesKeepToBothEndsOfTheirRange) {
  const auto time = [](const char* text) {
    return errors(std::string("time: ") + text + "\n", [](const YamlMap& map) {
      map.get("time")->seconds({0.25, 2});
    });
  };
  EXPECT_EQ(time("250 ms"), "");
  EXPECT_EQ(time("2 s"), "");
  EXPECT_THAT(time("249 ms"), testing::HasSubstr("'time' is 249 ms, must be between 0.25 and 2 s"));
  EXPECT_THAT(time("2.1 s"), testing::HasSubstr("'time' is 2.1 s, must be between 0.25 and 2 s"));
}

TEST(Yaml, UnitsThatPeopleWriteAreGuessed) {
  const auto rate = [](const char* text) {
    return errors(std::string("rate: ") + text + "\n",
                  [](const YamlMap& map) { map.bandwidth("rate"); });
  };
  EXPECT_THAT(rate("5 GBps"), testing::HasSubstr("'GB/s'"));
  EXPECT_THAT(rate("5 Bps"), testing::HasSubstr("'B/s'"));
  EXPECT_THAT(rate("400 Gb/s"), testing::HasSubstr("'Gbit/s'"));
  EXPECT_THAT(rate("5 XBps"), testing::HasSubstr("hint: a bandwidth such as 50 GB/s"));
}

/// Equal texts share what was read of them, but for what is changed in one of them.
TEST(Yaml, EqualTextsReadAlikeWhateverWasReadBefore) {
  const std::string text = "{count: 7, more: {bandwidth: 1 GB/s}}";
  const auto read = [&](const std::vector<Override>& overrides) {
    return YamlDocument::from_text(text, "a.yaml", overrides)->root().json();
  };
  const std::string plain = read({});
  EXPECT_EQ(read({{"count", "9", ""}}), R"({"count":9,"more":{"bandwidth":"1 GB/s"}})");
  EXPECT_EQ(read({{"more.latency", "2 us", ""}}),
            R"({"count":7,"more":{"bandwidth":"1 GB/s","latency":"2 us"}})");
  EXPECT_EQ(read({}), plain);
  EXPECT_EQ(plain, R"({"count":7,"more":{"bandwidth":"1 GB/s"}})");
  const auto other = YamlDocument::from_text(text, "b.yaml");
  EXPECT_EQ(other->file(), "b.yaml");
  EXPECT_EQ(errors("count: 65\n", read_link), errors("count: 65\n", read_link));
}

TEST(Yaml, DuplicateKeysAreErrors) {
  EXPECT_EQ(errors("count: 1\nbandwidth: 1 GB/s\ncount: 2\n", read_link),
            "a.yaml:3:1: error: key 'count' is there twice\n"
            "  count: 2\n"
            "  ^\n");
}

TEST(Yaml, MissingKeysAreErrorsAtTheirMap) {
  EXPECT_EQ(errors("count: 1\n", read_link), "a.yaml: error: the file lacks the key 'bandwidth'\n");
  EXPECT_EQ(errors("count: 1\nbandwith: 1 GB/s\n", read_link),
            "a.yaml:2:1: error: unknown key 'bandwith'\n"
            "  bandwith: 1 GB/s\n"
            "  ^\n"
            "hint: did you mean 'bandwidth'?\n");
}

TEST(Yaml, AKeyThatAnInnerMappingLacksIsMissedAtItsLine) {
  EXPECT_EQ(errors("a: 1\nwire: {}\n",
                   [](const YamlMap& map) {
                     map.integer("a", {});
                     map.get("wire")->map().integer("count", {});
                   }),
            "a.yaml:2:7: error: 'wire' lacks the key 'count'\n"
            "  wire: {}\n"
            "        ^\n");
}

/// Its other keys depend on the kind.
void read_fabric(const YamlMap& map) {
  const int kind = map.choice("kind", {"none", "leaf-spine"}, 0);
  if (kind == 0) return;
  map.integer("spines", {1, 8});
  map.integer("leaves", {1, 8});
}

TEST(Yaml, AMisspeltKindIsOneMistake) {
  EXPECT_EQ(errors("knd: leaf-spine\nspines: 2\nleaves: 2\n", read_fabric),
            "a.yaml:1:1: error: unknown key 'knd'\n"
            "  knd: leaf-spine\n"
            "  ^\n"
            "hint: did you mean 'kind'?\n");
  EXPECT_THAT(errors("kind: none\nkin: 1\nspines: 2\n", read_fabric),
              testing::HasSubstr("unknown key 'spines'"));
}

TEST(Yaml, OnlyAWrongKindExcusesUnknownKeys) {
  const auto with_choice_of = [](const char* key) {
    return errors(std::string(key) + ": ral\nspines: 2\n", [key](const YamlMap& map) {
      map.choice(key, {"rail", "torus"});
    });
  };
  EXPECT_THAT(with_choice_of("kind"), testing::Not(testing::HasSubstr("unknown key 'spines'")));
  EXPECT_THAT(with_choice_of("mode"), testing::HasSubstr("unknown key 'spines'"));
}

TEST(Yaml, TellsWhichKeysWereGood) {
  const auto doc = YamlDocument::from_text("{a: 1, b: x, c: {d: y}}", "a.yaml");
  const YamlMap map = doc->root().map();
  map.integer("a", {});
  map.integer("b", {});
  map.get("c")->map().integer("d", {});
  map.integer("e", {});
  EXPECT_TRUE(map.good({"a"}));
  EXPECT_FALSE(map.good({"a", "b"}));
  EXPECT_FALSE(map.good({"c"}));  // wrong inside
  EXPECT_FALSE(map.good({"e"}));  // missing
}

TEST(Yaml, OneDocumentAFile) {
  EXPECT_THAT(errors("count: 1\n---\ncount: 2\n", read_link),
              testing::StartsWith("a.yaml:2:1: error: a second YAML document begins here"));
}

TEST(Yaml, SyntaxErrorsShowTheLine) {
  EXPECT_THAT(errors("count: [1\nb: 2\n", read_link), testing::StartsWith("a.yaml:2:"));
  EXPECT_EQ(errors("count: 1\n\tbandwidth: 1 GB/s\n", read_link),
            "a.yaml:2:1: error: not YAML: illegal tab when looking for indentation\n"
            "  \tbandwidth: 1 GB/s\n"
            "  ^\n"
            "hint: indent with spaces, never with tabs\n");
  EXPECT_EQ(errors("", read_link), "a.yaml: error: the file is empty\n");
}

TEST(Yaml, EscapesStandForCharacters) {
  const auto json = [](const std::string& text) {
    return YamlDocument::from_text(text, "a.yaml")->root().json();
  };
  EXPECT_EQ(json("a: \"\\x41\\u00e9\""), "{\"a\":\"A\u00e9\"}");
  for (const char* bad : {"a: \"\\N\"", "a: \"x\\_\"", "a: \"\\0\"", "{\"\\N\": 1}"}) {
    EXPECT_THROW(json(bad), Error) << bad;  // bytes that no JSON may have
  }
}

TEST(Yaml, WrongKindsOfValues) {
  EXPECT_THAT(errors("count: 1.5\nbandwidth: {a: 1}\n", read_link),
              testing::AllOf(testing::HasSubstr("'count' must be a whole number"),
                             testing::HasSubstr("'bandwidth' must be a bandwidth")));
  EXPECT_THAT(errors("count: 1\nbandwidth: -5 GB/s\n", read_link),
              testing::HasSubstr("'bandwidth' is -5 GB/s, must be above 0"));
  EXPECT_THAT(errors("- 1\n", read_link), testing::HasSubstr("the file must be a mapping"));
  EXPECT_THAT(errors("count:\nbandwidth: 1 GB/s\n", read_link),
              testing::HasSubstr("'count' must be a whole number, not empty"));
}

TEST(Yaml, OverridesWinAndAreNamedInErrors) {
  const std::string text = "count: 1\nbandwidth: 1 GB/s\n";
  EXPECT_EQ(errors(text, read_link, {parse_override("count=4")}), "");
  EXPECT_EQ(errors(text, read_link, {parse_override("count=99")}),
            "a.yaml: --set count=99: error: 'count' is 99, must be between 1 and 64\n");
  EXPECT_EQ(errors(text, read_link, {parse_override("cuont=9")}),
            "a.yaml: --set cuont=9: error: unknown key 'cuont'\n"
            "hint: did you mean 'count'?\n");
  for (const char* bad : {"count", "=1", ".count=1", "count.=1", "a..b=1"}) {
    EXPECT_THROW(parse_override(bad), Error) << bad;
  }
}

TEST(Yaml, OverridesAreOneChangeEach) {
  try {
    parse_override("topology.nodes=4,model.experts=8");
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "error: --set topology.nodes=4,model.experts=8: takes one change\n"
                 "hint: --set topology.nodes=4 --set model.experts=8\n");
  }
  for (const char* value : {"1,2", "a,b=2", "[1,c.d=2]", "{x: 1,c.d=2}", "'1,c.d=2'", "a, c.d=2",
                            "a,b c.d=2", "1,.d=2"}) {
    EXPECT_EQ(parse_override(std::string("a.b=") + value).value, value);
  }
}

TEST(Yaml, OverridesLeaveOtherMistakesAtTheirLines) {
  const std::string text =
      "gone: 1\n"
      "wires: [{count: 1, kind: x}, {count: 2, size: 3}]\n"
      "none:\n"
      "count: 99\n"
      "cuont: 4\n"
      "bandwidth:\n"
      "latency: 1 us\n";
  const auto read = [](const YamlMap& map) {
    read_link(map);
    map.find("none")->map().find("x");
    for (const YamlValue& wire : map.find("wires")->list()) wire.map().integer("count", {1, 1});
    EXPECT_EQ(map.find("latency")->line(), 7);
  };
  EXPECT_EQ(errors(text, read,
                   {parse_override("gone=null"), parse_override("none.x=7"),
                    parse_override("wires.0.kind=null")}),
            "a.yaml:2:38: error: 'wires.1.count' is 2, must be between 1 and 1\n"
            "  wires: [{count: 1, kind: x}, {count: 2, size: 3}]\n"
            "                                       ^\n"
            "a.yaml:2:41: error: unknown key 'size' in 'wires.1'\n"
            "  wires: [{count: 1, kind: x}, {count: 2, size: 3}]\n"
            "                                          ^\n"
            "hint: known: count\n"
            "a.yaml:4:8: error: 'count' is 99, must be between 1 and 64\n"
            "  count: 99\n"
            "         ^\n"
            "a.yaml:5:1: error: unknown key 'cuont'\n"
            "  cuont: 4\n"
            "  ^\n"
            "hint: did you mean 'count'?\n"
            "a.yaml:6:1: error: 'bandwidth' must be a bandwidth, not empty\n"
            "  bandwidth:\n"
            "  ^\n"
            "hint: such as 50 GB/s or 400 Gbit/s\n");
}

TEST(Yaml, OverridesStayInTheirDocument) {
  const std::string text = "count: 1\nwires: &a {size: 1}\nothers: *a\n";
  const auto sizes = [&](const std::vector<Override>& overrides) {
    const auto doc = YamlDocument::from_text(text, "a.yaml", overrides);
    const YamlMap map = doc->root().map();
    return std::vector{map.integer("count", {}), map.get("wires")->map().integer("size", {}),
                       map.get("others")->map().integer("size", {})};
  };
  EXPECT_EQ(sizes({parse_override("count=4")}), (std::vector<std::int64_t>{4, 1, 1}));
  EXPECT_EQ(sizes({parse_override("wires.size=5")}), (std::vector<std::int64_t>{1, 5, 5}));
  EXPECT_EQ(sizes({}), (std::vector<std::int64_t>{1, 1, 1}));
}

TEST(Yaml, MappingsThatAnOverrideMadeAreNamedWithIt) {
  EXPECT_EQ(errors("count: 1\nbandwidth: 1 GB/s\n", read_link, {parse_override("wire.x=1")}),
            "a.yaml: --set wire.x=1: error: unknown key 'wire'\n"
            "hint: known: bandwidth, count, latency\n");
}

TEST(Yaml, KeysThatReadLikePathsAreNoOtherValue) {
  const auto doc = YamlDocument::from_text(
      "a: {b: {c: 1}}\na.b: {c: 2}\n\"\": {c: 3}\n\"'a.b'\": {c: 4}\nc: 5\n", "a.yaml");
  const YamlMap map = doc->root().map();
  EXPECT_EQ(map.find("a")->map().find("b")->map().integer("c", {}), 1);
  EXPECT_EQ(map.find("a.b")->map().integer("c", {}), 2);
  EXPECT_EQ(map.find("")->map().integer("c", {}), 3);  // the whole file has no other path
  EXPECT_EQ(map.find("'a.b'")->map().integer("c", {}), 4);
  EXPECT_EQ(map.integer("c", {}), 5);
}

TEST(Yaml, SizesFitSixtyFourBits) {
  EXPECT_THAT(errors("m: 1e12 TB", [](const YamlMap& m) { m.bytes("m"); }),
              testing::HasSubstr("'m' is 1e12 TB, must be between 0 and 9e+18"));
}

TEST(Yaml, NullRemovesAKey) {
  const auto doc =
      YamlDocument::from_text("levels: [{count: 2, kind: x}, {count: 4}]\nname: a\n", "a.yaml",
                              {parse_override("levels.0.kind=null"), parse_override("name=null")});
  EXPECT_EQ(doc->root().map().keys(), std::vector<std::string>{"levels"});
  const auto levels = doc->root().map().find("levels")->list();
  EXPECT_EQ(levels[0].map().keys(), std::vector<std::string>{"count"});
  EXPECT_EQ(levels[1].map().keys(), std::vector<std::string>{"count"});
}

TEST(Yaml, OnlyAKeyThatIsThereCanBeRemoved) {
  const auto removing = [](const std::string& path) {
    return errors("wire: {count: 1, kind: x}\nlist: [1]\n", read_link,
                  {parse_override(path + "=null")});
  };
  EXPECT_THAT(removing("wire.cuont"),
              testing::AllOf(
                  testing::HasSubstr(
                      "a.yaml: --set wire.cuont=null: error: there is no 'wire.cuont' to remove"),
                  testing::HasSubstr("did you mean 'count'?")));
  EXPECT_THAT(removing("absent.count"), testing::HasSubstr("there is no 'absent' to remove"));
  EXPECT_THAT(removing("list.0"),
              testing::HasSubstr("'list.0' is not a key: null removes keys of mappings"));
  EXPECT_THAT(removing("wire.count.x"),
              testing::HasSubstr("'wire.count.x' is not a key: null removes keys of mappings"));
}

TEST(Yaml, OverridesReachIntoListsAndMaps) {
  const auto doc = YamlDocument::from_text("levels: [{count: 1}, {count: 2}]", "a.yaml",
                                           {parse_override("levels.1.count=7")});
  const auto levels = doc->root().map().get("levels")->list();
  EXPECT_EQ(levels[1].map().integer("count", {}), 7);
  EXPECT_THROW(YamlDocument::from_text("levels: [1]", "a.yaml", {parse_override("levels.3=7")}),
               Error);
  EXPECT_THROW(YamlDocument::from_text("count: 1", "a.yaml", {parse_override("count.x=7")}), Error);
}

TEST(Yaml, ChoicesSuggest) {
  EXPECT_EQ(errors("kind: ral\n",
                   [](const YamlMap& m) {
                     m.choice("kind", {"rail", "torus"});
                   }),
            "a.yaml:1:7: error: 'kind' cannot be 'ral'\n"
            "  kind: ral\n"
            "        ^\n"
            "hint: did you mean 'rail'?\n");
}

TEST(Yaml, LongTextsAreQuotedByTheirBeginning) {
  const std::string eighty(80, 'x'), accents = std::string(79, 'x') + "\xc3\xa9";
  const auto message = [](const std::string& text) {
    return errors("count: " + text + "\n", [](const YamlMap& m) { m.integer("count", {}); });
  };
  EXPECT_THAT(message(eighty), testing::HasSubstr("not '" + eighty + "'\n"));
  EXPECT_THAT(message(eighty + "y"), testing::HasSubstr("not '" + eighty + "...'\n"));
  EXPECT_THAT(message(accents), testing::HasSubstr("not '" + std::string(79, 'x') + "...'\n"));
}

TEST(Yaml, JsonKeepsTypes) {
  const auto doc = YamlDocument::from_text(R"({"a": [1, "2", 2.5, true, null, {"b": "x"}]})", "t");
  EXPECT_EQ(doc->root().json(), R"({"a":[1,"2",2.5,true,null,{"b":"x"}]})");
}

TEST(Yaml, ErrorsHideWarnings) {
  EXPECT_EQ(errors("count: x\n",
                   [](const YamlMap& m) {
                     m.value().warning("a warning");
                     m.integer("count", {});
                   }),
            "a.yaml:1:8: error: 'count' must be a whole number, not 'x'\n"
            "  count: x\n"
            "         ^\n");
}

TEST(Yaml, WarningsDoNotThrow) {
  const auto doc = YamlDocument::from_text("spines: 2\n", "a.yaml");
  doc->root().map().get("spines")->warning("'spines' has no effect");
  doc->finish();
  ASSERT_EQ(doc->warnings().size(), 1u);
  EXPECT_EQ(doc->warnings()[0].str(),
            "a.yaml:1:9: warning: 'spines' has no effect\n  spines: 2\n          ^\n");
}

}  // namespace
}  // namespace moesim
