// SPDX-License-Identifier: Apache-2.0
// Tutel's collectives: published message sizes, equal results, and which of them is chosen.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "sim/mechanism/mechanisms.h"
#include "sim/plan/exchange_time.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {

DispatchMaker read_tutel(const YamlMap& params);

namespace {

constexpr std::int64_t mebibyte = 1048576;

/// 32 GPUs in nodes of 8 with an expert each: every rank has one token for every expert.
struct Balanced {
  Balanced() : tokens(32, 32, 1, 32, all_experts(), 32) {
    model.hidden = static_cast<int>(mebibyte / 2);  // a row of 1 MiB: S = 33,554,432 bytes
    model.experts = 32;
    model.top_k = 1;
    model.expert_ffn = 1;
  }
  static std::vector<int> all_experts() {
    std::vector<int> ids;
    for (int i = 0; i < 32 * 32; ++i) ids.push_back(i % 32);
    return ids;
  }
  std::unique_ptr<Dispatch> dispatch(const std::string& text) const {
    const SystemSpec system = parse_system(
        "{name: t, source: test, routing: identity, placement: contiguous, schedule: sequential, "
        "dispatch: " +
            text + "}",
        "test");
    return system.dispatch.make({topology, model, 32});
  }
  Topology topology = bare_nodes(4, 8);
  Tokens tokens;
  MoeModel model;
};

/// Sizes of the messages that leave rank 0, and their sum.
std::pair<std::set<std::int64_t>, std::int64_t> messages(const Plan& plan,
                                                         const std::string& name) {
  std::set<std::int64_t> sizes;
  std::int64_t sum = 0;
  for (const Op* op : exchanges(plan, name)) {
    op->traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
      if (from != GpuId(0) || to == from) return;
      sizes.insert(bytes.value);
      sum += bytes.value;
    });
  }
  return {sizes, sum};
}

// Reference oracle 4.6: n = 32, m = 8, S = 33,554,432 bytes.
TEST(Tutel, MessagesOf2dhHaveTheReferencesSizes) {
  const Balanced b;
  for (const char* text : {"{kind: two-hop, padding: max}", "two-hop"}) {
    const Plan plan = exchanges_of(*b.dispatch(text), b.tokens, b.model, Stage::dispatch);
    const auto inside = messages(plan, "dispatch-intra");
    EXPECT_EQ(inside.first, std::set<std::int64_t>{4194304});
    EXPECT_EQ(inside.second, 29360128);
    const auto across = messages(plan, "dispatch-inter");
    EXPECT_EQ(across.first, std::set<std::int64_t>{8388608});
    EXPECT_EQ(across.second, 25165824);
  }
  const Plan flat = exchanges_of(*b.dispatch("padded"), b.tokens, b.model, Stage::dispatch);
  EXPECT_EQ(messages(flat, "dispatch-alltoall").first, std::set<std::int64_t>{1048576});
  EXPECT_EQ(messages(flat, "dispatch-alltoall").second, 31 * mebibyte);
}

// The Python path has the messages of the native one with the hops exchanged: S m / n across first.
TEST(Tutel, TheInterFirstOrderCrossesFirst) {
  const Balanced b;
  const auto dispatch = b.dispatch("{kind: two-hop, order: inter-first}");
  EXPECT_EQ(dispatch->shape().phase(0).name, "inter");
  EXPECT_EQ(dispatch->shape().phase(1).name, "intra");
  const Plan plan = exchanges_of(*dispatch, b.tokens, b.model, Stage::dispatch);
  EXPECT_EQ(messages(plan, "dispatch-inter").second, 25165824);
  EXPECT_EQ(messages(plan, "dispatch-intra").second, 29360128);
  EXPECT_LT(exchanges(plan, "dispatch-inter")[0], exchanges(plan, "dispatch-intra")[0]);
}

// "The result buffer, ordered by source rank, is identical to that of linear": the same tokens and
// choices reach the same GPUs.
TEST(Tutel, AllAlgorithmsDeliverTheSame) {
  std::mt19937 random(31);
  int compared = 0;
  while (compared < 60) {
    const RandomLayer layer(random);
    if (layer.shape.gpus == 1 || layer.shape.ep <= layer.shape.gpus) continue;
    const auto delivered = [&](const std::string& text) {
      std::multiset<std::tuple<std::int64_t, std::int64_t, Choices>> result;
      const auto rows = layer.dispatch(text)->rows(layer.tokens.view());
      for (const RowMove& row : rows.back()) {
        result.insert({row.token.value, row.to.value, row.choices});
      }
      return result;
    };
    const auto flat = delivered("padded");
    EXPECT_EQ(delivered("two-hop"), flat);
    EXPECT_EQ(delivered("{kind: two-hop, order: inter-first, padding: max}"), flat);
    EXPECT_EQ(delivered("tutel"), delivered("{kind: two-hop, padding: max}"));
    ++compared;
  }
}

/// How many kernels of a name a plan has on GPU 0, and what they read.
std::pair<int, std::int64_t> kernels(const Plan& plan, const std::string& name) {
  int count = 0;
  std::int64_t read = 0;
  for (const Op& op : plan.ops) {
    if (op.label != name || op.kernels() == nullptr || op.group.front() != GpuId(0)) continue;
    ++count;
    read += std::get<MemoryBound>(op.kernels()->of(0)).read.value;
  }
  return {count, read};
}

// Steps A and C of 2DH copy the S bytes of a rank, on the way out and back; exact rows need no A.
TEST(Tutel, TwoTransposesCopyTheWholeBuffer) {
  const Balanced b;
  for (const char* order : {"intra-first", "inter-first"}) {
    const Plan plan =
        plan_of(*b.dispatch(fmt::format("{{kind: two-hop, padding: max, order: {}}}", order)),
                b.tokens, b.model);
    EXPECT_EQ(kernels(plan, "transpose"), std::pair(2, 64 * mebibyte)) << order;
    EXPECT_EQ(kernels(plan, "relay"), std::pair(2, 64 * mebibyte)) << order;
    EXPECT_EQ(kernels(plan, "transpose-grad"), std::pair(2, 64 * mebibyte)) << order;
  }
  EXPECT_EQ(kernels(plan_of(*b.dispatch("two-hop"), b.tokens, b.model), "transpose").first, 0);
  EXPECT_EQ(kernels(plan_of(*b.dispatch("padded"), b.tokens, b.model), "transpose").first, 0);
}

/// A cluster of 4 x 8 GPUs with a leaf per rail, where rows of 8 kB or of 2 bytes are sent.
int chosen_phases(const std::string& cross_rail, int hidden) {
  const TopologyFile file = read_topology(
      MOESIM_ROOT "/topologies/h100-rail.yaml",
      {parse_override("fabric.cross_rail=" + cross_rail), parse_override("fabric.spines=1"),
       parse_override("fabric.oversubscription=8"), parse_override("fabric.latency=1 us")});
  std::mt19937 random(32);
  const Tokens tokens(32, 64, 4, 64, random_ids(random, 32 * 64, 64, 4), 32);
  MoeModel model;
  model.hidden = hidden;
  const auto doc = YamlDocument::from_text("{}", "test");
  const auto tutel = read_tutel(doc->root().map())({file.topology, model, 32});
  return tutel->choose(tokens.view()).shape().size();
}

// Where rails meet in one thin spine, the flat exchange crosses it with 7 of 8 rows and two hops
// keep to their rails: worth a second exchange for big rows.
TEST(Tutel, TwoHopsAreChosenForBigRowsWhereTheFlatOneCrossesRails) {
  EXPECT_EQ(chosen_phases("spine", 4096), 2);
  EXPECT_EQ(chosen_phases("spine", 1), 1);
}

TEST(Tutel, OneNodeHasOneAlgorithm) {
  const Topology topology = bare_nodes(1, 4);
  const Tokens tokens(4, 4, 1, 1, {0, 1, 2, 3}, 4);
  EXPECT_EQ(make_dispatch("tutel", topology, 4)->choose(tokens.view()).shape().size(), 1);
}

// The choice is that of the closed form on the exchanges of the plans themselves.
TEST(Tutel, TheChoiceIsThatOfTheClosedForm) {
  std::mt19937 random(33);
  int by_count[2] = {0, 0};
  for (int trial = 0; trial < 80; ++trial) {
    const RandomLayer layer(random);
    if (layer.shape.gpus == 1 || layer.shape.ep <= layer.shape.gpus || layer.per_rank == 0)
      continue;
    const auto time = [&](const std::string& text) {
      const auto dispatch = layer.dispatch(text);
      const Plan plan = exchanges_of(*dispatch, layer.tokens, layer.model, Stage::dispatch);
      double sum = 0;
      for (int phase = 0; phase < dispatch->shape().size(); ++phase) {
        std::vector<ExchangePrice> together;
        for (const Op* op : exchanges(plan, "dispatch-" + dispatch->shape().phase(phase).name)) {
          together.push_back(price(layer.topology(), op->traffic()));
        }
        sum += std::ranges::max(shared_times(together)).value;
      }
      return sum;
    };
    const bool two = time("{kind: two-hop, padding: max}") < time("padded");
    EXPECT_EQ(layer.dispatch("tutel")->choose(layer.tokens.view()).shape().size(), two ? 2 : 1);
    ++by_count[two ? 1 : 0];
  }
  EXPECT_GT(by_count[0], 0);
}

}  // namespace
}  // namespace moesim
