// SPDX-License-Identifier: Apache-2.0
// What the fields of a log say, by their names and by those that the flags give.
#include <gmock/gmock.h>

#include "sim/import/file_content.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_rows.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

/// "ROLE: FIELDS" of the roles that have some, by the places of their fields.
std::string roles_of(const std::vector<std::string>& names,
                     const std::vector<std::string>& map = {}) {
  const auto places = TableFields(map).find(names, "a");
  std::string text;
  for (std::size_t r = 0; r < table_roles; ++r) {
    if (places[r].empty()) continue;
    text += (text.empty() ? "" : ", ") + table_role_names()[r] + ":";
    for (const std::size_t field : places[r]) text += " " + std::to_string(field);
  }
  return text;
}

TEST(FieldsOfLogs, AreFoundByUsualNames) {
  EXPECT_EQ(roles_of({"Layer ID", "Token-Idx", "topk_ids", "Gate.Weights"}),
            "token: 1, layer: 0, experts: 2, weights: 3");
  EXPECT_EQ(roles_of({"token", "position", "layer"}), "token: 1, layer: 2")
      << "the most telling name counts";
  EXPECT_EQ(roles_of({"expert_0", "layer", "expert_1", "w0", "w1"}),
            "layer: 1, experts: 0 2, weights: 3 4");
  EXPECT_EQ(roles_of({"e0", "expert", "e1"}), "experts: 1") << "a name before columns";
  EXPECT_EQ(roles_of({"7", "x7", "layer_0", ""}), "");
}

TEST(FieldsOfLogs, ThatAreMappedSayNothingElse) {
  EXPECT_EQ(roles_of({"count", "expert"}), "experts: 1, count: 0");
  EXPECT_EQ(roles_of({"count", "expert"}, {"layer=count"}), "layer: 0, experts: 1");
  EXPECT_EQ(roles_of({"request", "expert"}, {"layer=request"}), "layer: 0, experts: 1");
  EXPECT_EQ(roles_of({"expert", "x"}, {"experts=x"}), "experts: 1");
  EXPECT_EQ(roles_of({"phase", "x"}, {"experts=x"}), "experts: 1, phase: 0") << "the last role";
}

TEST(FieldsOfLogs, MayCallTheTokenAStep) {
  EXPECT_EQ(roles_of({"step", "expert"}), "token: 0, experts: 1");
  EXPECT_EQ(roles_of({"step", "token", "expert"}), "step: 0, token: 1, experts: 2");
  EXPECT_EQ(roles_of({"step", "expert", "count"}), "step: 0, experts: 1, count: 2");
  EXPECT_EQ(roles_of({"step", "expert"}, {"step=step"}), "step: 0, experts: 1");
  EXPECT_EQ(roles_of({"iteration", "expert"}), "step: 0, experts: 1");
}

TEST(FieldsOfLogs, MakeARowIfTheyChoose) {
  const TableFields usual({}), mapped({"experts=who"});
  for (const char* const name : {"expert", "e7", "count", "topk_ids"}) {
    EXPECT_TRUE(usual.makes_row(name)) << name;
  }
  for (const char* const name : {"layer", "w7", "who", ""}) {
    EXPECT_FALSE(usual.makes_row(name)) << name;
  }
  EXPECT_TRUE(mapped.makes_row("who"));
  EXPECT_TRUE(mapped.makes_row("count"));
  EXPECT_FALSE(mapped.makes_row("expert"));
  EXPECT_EQ(mapped.role_of("who"), TableRole::experts);
  EXPECT_EQ(mapped.role_of("expert"), std::nullopt);
  EXPECT_EQ(usual.role_of("request"), TableRole::request);
  EXPECT_EQ(usual.role_of("phase"), TableRole::phase);
  EXPECT_EQ(usual.role_of("other"), std::nullopt);
  EXPECT_EQ(usual.name_of(TableRole::experts), "experts");
  EXPECT_EQ(mapped.name_of(TableRole::experts), "who");
}

TEST(ListsOfJson, AreTold) {
  const ScratchFolder scratch;
  const auto content = [&](const std::string& text) {
    write_bytes(scratch / "a", text);
    return content_of(scratch / "a");
  };
  EXPECT_EQ(content("[1,2]"), "is JSON without keys");
  EXPECT_EQ(content("[ \"x\",2]"), "is JSON without keys");
  EXPECT_EQ(content("[x,2]"), "is text");
  EXPECT_EQ(content("\x7f"), "is text");
  EXPECT_EQ(content("a\tb"), "is text with the columns a, b");
}

}  // namespace
}  // namespace moesim
