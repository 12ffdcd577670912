// SPDX-License-Identifier: Apache-2.0
#include "sim/base/enum_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moesim {
namespace {

enum class Fruit { apple, pear, plum };
const std::vector<std::string> fruits = {"apple", "pear", "plum"};

TEST(EnumSet, HoldsWhatWasAdded) {
  EnumSet<Fruit> set{Fruit::plum};
  EXPECT_FALSE(set.empty());
  EXPECT_TRUE(EnumSet<Fruit>().empty());
  set.add(Fruit::apple);
  EXPECT_TRUE(set.has(Fruit::apple));
  EXPECT_FALSE(set.has(Fruit::pear));
  EXPECT_EQ(set, (EnumSet<Fruit>{Fruit::apple, Fruit::plum}));
  EXPECT_TRUE(set.has_any({Fruit::pear, Fruit::plum}));
  EXPECT_FALSE(set.has_any({Fruit::pear}));
  EXPECT_FALSE(set.has_any({}));
  EXPECT_THAT(set.names(fruits), testing::ElementsAre("apple", "plum"));  // by number
}

}  // namespace
}  // namespace moesim
