// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_keys.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Some keys and what was noted of them.
struct ReadKeys {
  explicit ReadKeys(const char* json) : root(nlohmann::ordered_json::parse(json)) {}
  std::string mistakes() const {
    return error_of([&] { keys.finish(); });
  }

  nlohmann::ordered_json root;
  HfKeys keys{root, "config.json"};
};

TEST(HfKeys, NumbersOfLayersAreTakenAsTheLargest) {
  ReadKeys of(R"({"width": [3, 9, 5], "none": [], "one": [4, 0]})");
  EXPECT_EQ(of.keys.number({"width"}), 9);
  EXPECT_EQ(of.mistakes(), "");
  EXPECT_EQ(of.keys.number({"none"}), std::nullopt);
  EXPECT_THAT(of.mistakes(), HasSubstr("'none' is [], no whole number from 0"));
  EXPECT_EQ(of.keys.number({"one"}, 1), std::nullopt);
  EXPECT_THAT(of.mistakes(), HasSubstr("'one' is [4,0], no whole number from 1"));
}

TEST(HfKeys, TheFirstNameThatIsThereCounts) {
  ReadKeys of(R"({"a": null, "b": {"c": 7}, "d": 8})");
  EXPECT_EQ(of.keys.number({"a", "b.c", "d"}), 7);
  EXPECT_EQ(of.keys.number({"b.x", "a"}), std::nullopt);
  EXPECT_EQ(of.mistakes(), "");
}

TEST(HfKeys, WhatIsNeededAndMissingIsOneThatIsNoted) {
  ReadKeys of(R"({"wrong": "3"})");
  EXPECT_EQ(of.keys.need({"layers"}), 1);
  EXPECT_EQ(of.keys.need({"wrong"}, 0), 1);
  EXPECT_EQ(of.keys.need({"wrong"}, 2), 2);
  EXPECT_THAT(of.mistakes(), HasSubstr("the file lacks the key 'layers'"));
  EXPECT_THAT(of.mistakes(), testing::Not(HasSubstr("lacks the key 'wrong'")));
}

/// As a config has NaN.
TEST(HfKeys, WhatIsNeededAndNullIsNotMissing) {
  ReadKeys of(R"({"layers": null, "b": {"n": null}})");
  EXPECT_EQ(of.keys.need({"layers"}), 1);
  EXPECT_EQ(of.keys.need({"a", "b.n"}, 4), 4);
  EXPECT_THAT(of.mistakes(),
              HasSubstr("'layers' is null or no number, where a whole number from 1 should be"));
  EXPECT_THAT(of.mistakes(),
              HasSubstr("'b.n' is null or no number, where a whole number from 4 should be"));
}

TEST(HfKeys, FlagsOfLayersAreNumbers) {
  ReadKeys of(R"({"flags": [true, false, 2], "text": ["x"], "negative": [-1], "no_list": 3})");
  EXPECT_THAT(of.keys.numbers({"flags"}), ElementsAre(1, 0, 2));
  EXPECT_THAT(of.keys.numbers({"no_list"}), ElementsAre());
  EXPECT_EQ(of.mistakes(), "");
  EXPECT_THAT(of.keys.numbers({"text"}), ElementsAre());
  EXPECT_THAT(of.mistakes(), HasSubstr("'text' holds something that is not a number of a layer"));
  EXPECT_THAT(of.keys.numbers({"negative"}), ElementsAre());
  EXPECT_THAT(of.mistakes(), HasSubstr("'negative' holds something"));
}

}  // namespace
}  // namespace moesim
