// SPDX-License-Identifier: Apache-2.0
#include "sim/base/id_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(Ids, CountFromZero) {
  std::vector<GpuId> seen;
  for (const GpuId gpu : ids<GpuId>(3)) seen.push_back(gpu);
  EXPECT_THAT(seen, ElementsAre(GpuId(0), GpuId(1), GpuId(2)));
  EXPECT_TRUE(ids<GpuId>(0).empty());
  EXPECT_TRUE(ids<GpuId>(-1).empty());
  EXPECT_EQ(ids<GpuId>(7).size(), 7u);
}

TEST(Ids, OfTheTablesThatTheyIndex) {
  const std::vector<std::string> names = {"a", "b"};
  std::string joined;
  for (const ExpertId e : ids_of<ExpertId>(names)) joined += names[e.index()];
  EXPECT_EQ(joined, "ab");
}

TEST(Ids, SuitAlgorithms) {
  const auto all = ids<SlotId>(5);
  const auto found = std::find_if(all.begin(), all.end(), [](SlotId s) { return s.value * 2 > 5; });
  EXPECT_EQ(*found, SlotId(3));
  EXPECT_EQ(std::vector<SlotId>(all.begin(), all.end()).size(), 5u);
  static_assert(std::forward_iterator<IdRange<GpuId>::Iterator>);
}

template <class Vector, class Index>
concept takes = requires(Vector& vector, Index index) {
  vector[index];
};

TEST(IdVector, IsIndexedByItsIdsAlone) {
  IdVector<GpuId, int> loads(3, 7);
  loads[GpuId(1)] = 9;
  EXPECT_THAT(loads, ElementsAre(7, 9, 7));
  EXPECT_EQ(std::as_const(loads)[GpuId(1)], 9);
  using Loads = IdVector<GpuId, int>;
  static_assert(takes<Loads, GpuId>);
  static_assert(!takes<Loads, ExpertId> && !takes<Loads, int>);
}

TEST(IdVector, GrowsByOneAndSaysWhere) {
  IdVector<SlotId, std::string> names;
  EXPECT_TRUE(names.empty());
  EXPECT_EQ(names.push_back("a"), SlotId(0));
  EXPECT_EQ(names.push_back("b"), SlotId(1));
  EXPECT_EQ(names.ids().size(), 2u);
  EXPECT_EQ(names, (IdVector<SlotId, std::string>{"a", "b"}));
  EXPECT_EQ(names.to_span().size(), 2u);
}

TEST(IdVector, HoldsFlags) {
  IdVector<ExpertId, bool> taken(4);
  taken[ExpertId(2)] = true;
  EXPECT_THAT(taken, ElementsAre(false, false, true, false));
}

}  // namespace
}  // namespace moesim
