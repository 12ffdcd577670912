// SPDX-License-Identifier: Apache-2.0
// An iteration written by hand: the least and the most of each number, and a step's choices.
#include "sim/saved/held_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/plan/text.h"
#include "sim/saved/step_json.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim::test {
namespace {

using testing::HasSubstr;
using Json = nlohmann::ordered_json;

/// Two stages of two replicas each, an embedding and a layer on one, a layer and the head on the
/// other.
Json small() {
  return Json::parse(R"({
    "model": {"name": "small", "hidden": 8, "layers": 2, "moe_layers": [0, 1], "experts": 4,
              "top_k": 1, "expert_ffn": 1, "expert_matrices": 2, "shared_experts": 0,
              "shared_ffn": 0, "dense_ffn": 0, "vocabulary": 1, "heads": 4, "kv_heads": 2,
              "head_dim": 1, "qk_norm": true},
    "tp": 1, "microbatches": 1, "micro_batch": 2, "sequence": 3, "zero": 0,
    "gathers_parameters": false,
    "stages": [
      {"gpus": [0, 1], "chunks": [{"position": 0, "parts": [{"embedding": 0}, {"layer": 0}]}],
       "rings": [[[0, 1]]]},
      {"gpus": [2, 3], "chunks": [{"position": 1, "parts": [{"layer": 1}, {"head": 0}]}],
       "rings": [[[3, 2]]]}]})");
}

template <class Change>
std::string complaint(Change change) {
  Json json = small();
  change(json);
  return error_of([&] { read_held(json, 4); });
}

TEST(HeldJson, ReadsBackWhatItWrites) {
  EXPECT_EQ(held_json(read_held(small(), 4)), small());
  Json other = small();
  other["model"]["shared_experts"] = 2;
  other["model"]["shared_ffn"] = 6;
  other["model"]["dense_ffn"] = 12;
  other["model"]["expert_matrices"] = 3;
  other["model"]["qk_norm"] = false;
  other["zero"] = 1;
  other["gathers_parameters"] = true;
  EXPECT_EQ(held_json(read_held(other, 4)), other);
}

TEST(HeldJson, CountsWhatItHolds) {
  const HeldIteration held = read_held(small(), 4);
  EXPECT_EQ(held.positions(), 2);
  EXPECT_EQ(held.rows(), 6);
  EXPECT_EQ(held.own_rows(), 6);
  EXPECT_EQ(held.replicas(), 2);
  EXPECT_EQ(held.place(held.stages[1], GpuId(3)).replica, 1);
  EXPECT_EQ(held.place(held.stages[1], GpuId(3)).part, 0);
  EXPECT_EQ(held.model.weights, DataType::fp32);
  EXPECT_EQ(held.model.activations, DataType::fp32);
}

TEST(HeldJson, SizesHaveALeast) {
  for (const char* const key : {"hidden", "layers", "experts", "top_k", "expert_ffn", "vocabulary",
                                "heads", "kv_heads", "head_dim"}) {
    EXPECT_THAT(complaint([&](Json& j) { j["model"][key] = 0; }),
                HasSubstr(std::string("'") + key + "' of the iteration is 0"));
  }
  for (const char* const key : {"shared_experts", "shared_ffn", "dense_ffn"}) {
    EXPECT_THAT(complaint([&](Json& j) { j["model"][key] = -1; }), HasSubstr(key));
  }
  for (const char* const key : {"tp", "microbatches", "micro_batch", "sequence"}) {
    EXPECT_THAT(complaint([&](Json& j) { j[key] = 0; }), HasSubstr(key));
    EXPECT_EQ(complaint([&](Json& j) { j[key] = 1; }), "") << key;
  }
  EXPECT_THAT(complaint([](Json& j) { j["model"]["expert_matrices"] = 1; }),
              HasSubstr("'expert_matrices' of the iteration is 1"));
  EXPECT_THAT(complaint([](Json& j) { j["zero"] = -1; }), HasSubstr("'zero'"));
}

TEST(HeldJson, SizesHaveAMost) {
  for (const char* const key : {"hidden", "vocabulary", "expert_ffn", "dense_ffn"}) {
    EXPECT_EQ(complaint([&](Json& j) { j["model"][key] = 1 << 30; }), "") << key;
    EXPECT_THAT(complaint([&](Json& j) { j["model"][key] = (1 << 30) + 1; }), HasSubstr(key));
  }
}

TEST(HeldJson, PartsAreThoseOfTheModel) {
  const auto first = [](const char* part) {
    return complaint([&](Json& j) { j["stages"][0]["chunks"][0]["parts"][0] = Json::parse(part); });
  };
  EXPECT_EQ(first(R"({"embedding": 0})"), "");
  EXPECT_THAT(first(R"({"embedding": 1})"), HasSubstr("is not a part of the model"));
  EXPECT_THAT(first(R"({"layer": -1})"), HasSubstr("is not a part of the model"));
  EXPECT_THAT(first(R"({"layer": 2})"), HasSubstr("is not a part of the model"));
  EXPECT_THAT(first(R"({"tail": 0})"), HasSubstr("is not a part of the model"));
  EXPECT_THAT(first(R"({"layer": 1})"), HasSubstr("not on one stage"));  // there twice
  EXPECT_THAT(complaint([](Json& j) {
                j["model"]["moe_layers"] = {-1, 1};
              }),
              HasSubstr("MoE layer -1"));
  EXPECT_THAT(complaint([](Json& j) {
                j["model"]["moe_layers"] = {1, 1};
              }),
              HasSubstr("MoE layer 1"));
  EXPECT_THAT(complaint([](Json& j) {
                j["model"]["moe_layers"] = {0, 2};
              }),
              HasSubstr("MoE layer 2"));
  EXPECT_THAT(complaint([](Json& j) { j["model"]["layers"] = 3; }), HasSubstr("on one stage"));
}

TEST(HeldJson, StagesShareTheGpusAndThePositions) {
  const auto stage = [](const char* key, const char* value) {
    return complaint([&](Json& j) { j["stages"][1][key] = Json::parse(value); });
  };
  EXPECT_THAT(stage("gpus", "[-1, 3]"), HasSubstr("GPU -1 is not of the plan"));
  EXPECT_THAT(stage("gpus", "[3, 4]"), HasSubstr("GPU 4 is not of the plan"));
  EXPECT_THAT(stage("gpus", "[1, 2]"), HasSubstr("not on one stage"));
  EXPECT_THAT(stage("rings", "[]"), HasSubstr("lacks rings"));
  EXPECT_THAT(stage("rings", "[[[2]]]"), HasSubstr("does not pass every replica once"));
  EXPECT_THAT(stage("rings", "[[[2, 3], [3, 2]], [[2, 3]]]"), HasSubstr("lacks rings"));
  for (const int position : {-1, 0, 2}) {
    EXPECT_THAT(complaint([&](Json& j) { j["stages"][1]["chunks"][0]["position"] = position; }),
                HasSubstr("a position of the pipeline is not there once"));
  }
  EXPECT_THAT(complaint([](Json& j) { j["stages"] = Json::array(); }), HasSubstr("no stages"));
  EXPECT_THAT(complaint([](Json& j) {
                for (Json& of : j["stages"]) of["gpus"] = Json::array();
              }),
              HasSubstr("different numbers of GPUs"));
}

TEST(HeldJson, TensorGroupsDivideWhatTheyShare) {
  // Each stage one replica of two GPUs, with a ring for each of the two places.
  Json two = small();
  two["tp"] = 2;
  two["model"]["vocabulary"] = 2;
  two["stages"][0]["rings"] = {{{0}}, {{1}}};
  two["stages"][1]["rings"] = {{{2}}, {{3}}};
  const HeldIteration held = read_held(two, 4);
  EXPECT_EQ(held.replicas(), 1);
  EXPECT_EQ(held.own_rows(), 3);
  EXPECT_EQ(held.place(held.stages[1], GpuId(3)).part, 1);
  for (const char* const key : {"vocabulary", "dense_ffn"}) {
    Json odd = two;
    odd["model"][key] = 3;
    EXPECT_THAT(error_of([&] { read_held(odd, 4); }), HasSubstr("tp = 2 does not divide 3")) << key;
  }
  two["stages"][1]["rings"] = {{{3}}, {{2}}};
  EXPECT_THAT(error_of([&] { read_held(two, 4); }),
              HasSubstr("a ring does not pass every replica once"));
  EXPECT_THAT(complaint([](Json& j) {
                j["tp"] = j["model"]["vocabulary"] = j["model"]["heads"] = 3;
                j["model"]["kv_heads"] = 3;
              }),
              HasSubstr("tp = 3 does not divide 2"));  // GPUs of a stage
}

/// GPU 0 holds experts 0 and 1, GPU 1 holds 2; two tokens of GPU 0 and one of GPU 1, of two choices
/// each, of which one was dropped.
Json routed(const Op& op) {
  Plan plan;
  plan.gpus = 2;
  plan.add(op);
  Json json = {{"plan", to_text(plan)}};
  json["layers"] = {Json::parse(R"({"layer": 1, "top_k": 2, "experts": 3, "slots": [[0, 1], [2]],
      "tokens": [2, 1], "expert": [0, 1, 2, -1, 2, 0], "slot": [0, 1, 2, -1, 2, 0]})")};
  return json;
}

Op moving(int token, std::uint32_t choices) {
  Op op = named("x");
  op.key.kind = OpKind::token_exchange;
  op.key.stage = Stage::dispatch;
  op.key.layer = 1;
  op.stream = Stream::ep;
  op.group = Group::first(2);
  op.work = Exchange{matrix(2, 1, {{0, 1, 1}}), {{GpuId(0), GpuId(1), TokenId(token), choices}}};
  return op;
}

template <class Change>
std::string complaint_of(const Op& op, Change change) {
  Json json = routed(op);
  change(json["layers"][0]);
  return error_of([&] { read_plan(json, "p"); });
}

TEST(PlanJson, MovesTokensAndChoicesThatThereAre) {
  const auto as_is = [](Json&) {};
  EXPECT_EQ(complaint_of(moving(2, 3), as_is), "");
  EXPECT_THAT(complaint_of(moving(3, 1), as_is), HasSubstr("moves token 3"));
  EXPECT_THAT(complaint_of(moving(2, 4), as_is), HasSubstr("beyond top_k 2"));
}

TEST(PlanJson, ChoicesAreServedByASlotOfTheirExpert) {
  const auto with = [](std::size_t at, int expert, int slot) {
    return complaint_of(moving(0, 1), [&](Json& layer) {
      layer["expert"][at] = expert;
      layer["slot"][at] = slot;
    });
  };
  EXPECT_EQ(with(0, 2, 2), "");
  EXPECT_EQ(with(0, -1, -1), "");
  for (const auto& [expert, slot] : {std::pair(0, 1), {0, 3}, {0, -1}, {-1, 0}}) {
    EXPECT_THAT(with(0, expert, slot), HasSubstr("does not hold it")) << expert << " " << slot;
  }
  EXPECT_THAT(with(5, 0, 1), HasSubstr("choice 5 of expert 0"));  // behind a dropped one
}

TEST(PlanJson, EachMembersGemmHasAGroupPerSlot) {
  const auto computing = [](std::vector<std::vector<std::int64_t>> rows) {
    Op op = kernels("x", {0, 1});
    op.key.stage = Stage::experts;
    op.key.layer = 1;
    std::vector<Kernel> each;
    for (auto& of : rows) each.push_back(GroupedGemm{std::move(of), 1, 1, DataType::bf16});
    op.work = Kernels(std::move(each));
    return complaint_of(op, [](Json&) {});
  };
  EXPECT_EQ(computing({{2, 1}, {2}}), "");
  EXPECT_THAT(computing({{3}, {2}}), HasSubstr("has 1 groups for 2 slots"));
  EXPECT_THAT(computing({{2, 1}, {2, 0}}), HasSubstr("has 2 groups for 1 slots"));
}

TEST(PlanJson, LayersAreWhole) {
  const auto with = [](const char* key, const char* value) {
    return complaint_of(moving(0, 1), [&](Json& layer) { layer[key] = Json::parse(value); });
  };
  EXPECT_EQ(complaint_of(moving(0, 1),
                         [](Json& layer) {
                           layer["top_k"] = 1;
                           layer["expert"] = layer["slot"] = {0, 1, 2};
                         }),
            "");
  EXPECT_THAT(with("top_k", "0"), HasSubstr("top_k is 0"));
  EXPECT_THAT(with("top_k", "1"), HasSubstr("3 tokens of 1 choices have 6 experts"));
  EXPECT_THAT(with("tokens", "[2, 5]"), HasSubstr("GPU 1 has 5 tokens"));
  EXPECT_THAT(with("tokens", "[2, 0, 1]"), HasSubstr("tokens come from GPU 2"));
  EXPECT_THAT(with("layer", "2"), HasSubstr("has no routing"));
  EXPECT_THAT(with("slots", "[[0, 1, 2]]"), HasSubstr("placed on 1 GPUs, the plan has 2"));
}

}  // namespace
}  // namespace moesim::test
