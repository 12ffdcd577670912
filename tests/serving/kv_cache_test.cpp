// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/kv_cache.h"

#include <gmock/gmock.h>

namespace moesim {
namespace {

using Hashes = std::vector<std::uint64_t>;

/// 10 blocks of 16 tokens; a hash covers two of them.
KvCache ten_blocks() {
  KvOptions options;
  options.capacity = 160;
  return {options, 32};
}

TEST(KvCaches, SequencesTakeWholeBlocksAndGiveThemBack) {
  KvCache cache = ten_blocks();
  HeldKv held;
  EXPECT_TRUE(cache.grow(held, 17));
  EXPECT_EQ(cache.in_use(), 2);
  EXPECT_TRUE(cache.grow(held, 32));
  EXPECT_EQ(cache.in_use(), 2);
  EXPECT_FALSE(cache.grow(held, 161));
  EXPECT_EQ(cache.in_use(), 2) << "nothing changes if there is no room";
  cache.release(held);
  EXPECT_EQ(cache.in_use(), 0);
  EXPECT_EQ(cache.free(), 10);
}

TEST(KvCaches, StatesAndWindowsTakeBlocksOfTheirBytes) {
  KvOptions options;
  options.capacity = 160;
  // A state as large as 20 tokens, and a window of 32 tokens of half the size.
  options.sequence = {Bytes(100), Bytes(2000), {{32, Bytes(50)}}};
  KvCache cache(options, 0);
  HeldKv a, b;
  EXPECT_TRUE(cache.grow(a, 8));  // 8 + 20 + 4
  EXPECT_EQ(cache.in_use(), 2);
  EXPECT_TRUE(cache.grow(a, 64));  // 64 + 20 + 16
  EXPECT_EQ(cache.in_use(), 7);
  EXPECT_FALSE(cache.grow(b, 32));  // 32 + 20 + 16: 5 blocks, not the 2 of its tokens
  EXPECT_TRUE(cache.grow(b, 16));
  EXPECT_EQ(cache.available(), 0);
}

TEST(KvCaches, EqualPrefixesAreHeldOnce) {
  KvCache cache = ten_blocks();
  const Hashes first = {1, 2}, second = {1, 3};
  HeldKv a, b;
  ASSERT_TRUE(cache.grow(a, 64));
  cache.publish(a, first, 63);
  EXPECT_EQ(cache.cached(first), 32) << "the second chunk is not whole yet";
  cache.publish(a, first, 64);
  EXPECT_EQ(cache.cached(first), 64);
  EXPECT_EQ(cache.cached(second), 32);
  EXPECT_EQ(cache.missing(second, 64), 2);
  EXPECT_EQ(cache.attach(b, second), 32);
  ASSERT_TRUE(cache.grow(b, 64));
  EXPECT_EQ(cache.in_use(), 6);
  cache.release(a);
  EXPECT_EQ(cache.in_use(), 4) << "what only the cache keeps is available";
  EXPECT_EQ(cache.cached(first), 64);
  cache.release(b);
  EXPECT_EQ(cache.in_use(), 0);
}

TEST(KvCaches, WhatTwoComputedMeanwhileIsHeldOnce) {
  KvCache cache = ten_blocks();
  const Hashes same = {1};
  HeldKv a, b;
  ASSERT_TRUE(cache.grow(a, 40));
  ASSERT_TRUE(cache.grow(b, 40));
  EXPECT_EQ(cache.in_use(), 6);
  cache.publish(a, same, 40);
  cache.publish(b, same, 40);
  EXPECT_EQ(cache.in_use(), 4);
}

TEST(KvCaches, WhatWasLetGoFirstLeavesFirstAndTheEndOfAPromptBeforeItsBeginning) {
  KvCache cache = ten_blocks();
  const Hashes old = {1, 2}, young = {3, 4};
  for (const Hashes& hashes : {old, young}) {
    HeldKv held;
    ASSERT_TRUE(cache.grow(held, 64));
    cache.publish(held, hashes, 64);
    cache.release(held);
  }
  HeldKv held;
  ASSERT_TRUE(cache.grow(held, 48));  // two blocks are free, one more is needed
  EXPECT_EQ(cache.cached(old), 32);
  EXPECT_EQ(cache.cached(young), 64);
  ASSERT_TRUE(cache.grow(held, 96));
  EXPECT_EQ(cache.cached(old), 0);
  EXPECT_EQ(cache.cached(young), 64);
  HeldKv again;
  EXPECT_EQ(cache.attach(again, young), 64);
  EXPECT_FALSE(cache.grow(held, 160)) << "what is held stays";
  cache.clear();
  EXPECT_EQ(cache.available(), 10);
}

TEST(KvCaches, WhatWasForgottenIsNotEvicted) {
  KvCache cache = ten_blocks();
  const Hashes old = {1}, young = {3};
  const auto leave = [&](const Hashes& hashes) {
    HeldKv held;
    ASSERT_TRUE(cache.grow(held, 32));
    cache.publish(held, hashes, 32);
    cache.release(held);
  };
  leave(old);
  cache.clear();
  EXPECT_EQ(cache.cached(old), 0);
  leave(young);
  HeldKv all;
  ASSERT_TRUE(cache.grow(all, 160));
  EXPECT_EQ(cache.cached(young), 0);
  EXPECT_EQ(cache.available(), 0);
}

TEST(KvCaches, WithoutPrefixesNothingIsKept) {
  KvOptions options;
  options.capacity = 160;
  options.prefix_cache = false;
  KvCache cache(options, 32);
  HeldKv held;
  const Hashes hashes = {1};
  ASSERT_TRUE(cache.grow(held, 32));
  cache.publish(held, hashes, 32);
  cache.release(held);
  EXPECT_EQ(cache.cached(hashes), 0);
  EXPECT_EQ(cache.free(), 10);
}

}  // namespace
}  // namespace moesim
