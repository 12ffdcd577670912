// SPDX-License-Identifier: Apache-2.0
// Names of ops: every type has one, and is found by it.
#include "sim/model/op_kind.h"

#include <gtest/gtest.h>

#include <set>

namespace moesim {
namespace {

TEST(OpKind, EveryTypeIsFoundByItsName) {
  std::set<std::string> names;
  for (int kind = 0; kind < op_kind_count; ++kind) {
    for (int role = 0; role < role_count; ++role) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        const OpType type{static_cast<OpKind>(kind), static_cast<Role>(role), pass};
        if (type.role != Role::plain && pass == Pass::forward) continue;  // only backward has roles
        EXPECT_TRUE(names.insert(name_of(type)).second) << name_of(type);
        ASSERT_EQ(find_op_type(name_of(type)), type) << name_of(type);
      }
    }
  }
}

TEST(OpKind, NamesSayWhichGradient) {
  EXPECT_EQ(name_of(OpType{OpKind::fc1}), "fc1");
  EXPECT_EQ(name_of(OpType{OpKind::fc1, Role::wgrad, Pass::backward}), "fc1-wgrad");
  EXPECT_EQ(name_of(OpType{OpKind::sort, Role::plain, Pass::backward}), "sort-grad");
  EXPECT_EQ(find_op_type("fc3"), std::nullopt);
  EXPECT_EQ(find_op_type("fc1-grad-wgrad"), std::nullopt);
  EXPECT_EQ(find_op_type(""), std::nullopt);
}

}  // namespace
}  // namespace moesim
