// SPDX-License-Identifier: Apache-2.0
#include "sim/model/host_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/yaml.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

HostModel read_host(const std::string& text) {
  const auto document = YamlDocument::from_text(text, "host");
  const HostModel host = read_host_model(document->root());
  document->finish();
  return host;
}

std::string mistake_of_host(const std::string& text) {
  return error_of([&] { read_host(text); });
}

TEST(HostModel, TakesNoTimeUnlessItSaysSo) {
  EXPECT_FALSE(HostModel().takes_time());
  EXPECT_FALSE(read_host("{graphs: none}").takes_time());
  EXPECT_TRUE(read_host("{per_module: 1 us}").takes_time());
  HostModel host;
  for (Seconds* time :
       {&host.per_kernel, &host.per_module, &host.per_collective, &host.per_graph}) {
    *time = Seconds(1e-6);
    EXPECT_TRUE(host.takes_time());
    *time = Seconds(0);
  }
}

TEST(HostModel, ReadsItsKeys) {
  const HostModel host = read_host(
      "{per_kernel: 10 us, per_module: 40 us, graphs: [attn, moe_router], waits_for: "
      "[stage-transfer]}");
  EXPECT_DOUBLE_EQ(host.per_kernel.value, 10e-6);
  EXPECT_EQ(host.per_collective, host.per_kernel + host.per_module);
  EXPECT_EQ(host.per_graph, host.per_collective);
  EXPECT_EQ(host.graphs, (GraphModules{GraphModule::attn, GraphModule::moe_router}));
  EXPECT_THAT(host.waits_for, testing::ElementsAre(OpKind::stage_transfer));
  EXPECT_NEAR(host.time({.kernels = 3, .modules = 1, .collectives = 2}).value, 170e-6, 1e-12);
  EXPECT_EQ(host.text(),
            "10 us per kernel, 40 us more per module, 50 us per collective call; CUDA graphs of "
            "attn, moe_router, 50 us each");
}

TEST(HostModel, SaysWhatIsWrong) {
  EXPECT_THAT(mistake_of_host("{graphs: [atn]}"), testing::HasSubstr("attn"));
  EXPECT_THAT(mistake_of_host("{waits_for: [fc1-wgrad]}"),
              testing::HasSubstr("'fc1-wgrad' is not a kind of op"));
}

TEST(HostModel, TimesAreAssumedUntilTheyAreStated) {
  HostModel assumed = read_host("{per_kernel: 10 us, per_module: 20 us}");
  assumed.assumed = true;
  const auto read = [&](const std::string& text) {
    return read_host_model(YamlDocument::from_text(text, "host")->root(), assumed);
  };
  EXPECT_TRUE(read("{graphs: [attn]}").assumed);
  EXPECT_FALSE(read("{per_kernel: 10 us}").assumed);
  EXPECT_FALSE(read("{per_graph: 50 us}").assumed);
  EXPECT_FALSE(read("none").assumed);
  const HostModel slower = assumed.slower(2);
  EXPECT_FALSE(slower.assumed);
  EXPECT_DOUBLE_EQ(slower.per_kernel.value, 20e-6);
  EXPECT_DOUBLE_EQ(slower.per_module.value, 40e-6);
  EXPECT_DOUBLE_EQ(slower.per_collective.value, 60e-6);
  EXPECT_DOUBLE_EQ(slower.per_graph.value, 60e-6);
}

HostCalls calls_of(const std::string& type, const Kernel& kernel) {
  return host_calls(*find_op_type(type), &kernel);
}

TEST(HostCalls, CountProductsOfExpertsOneByOne) {
  const GroupedGemm sixteen{std::vector<std::int64_t>(16, 8), 64, 64, DataType::bf16};
  EXPECT_EQ(calls_of("fc1", sixteen), (HostCalls{.kernels = 16, .modules = 1}));
  EXPECT_EQ(calls_of("fc1-dgrad", sixteen), (HostCalls{.kernels = 16, .modules = 1}));
  EXPECT_EQ(calls_of("fc1-wgrad", sixteen), (HostCalls{.kernels = 16}));
  GroupedGemm cast = sixteen;
  cast.type = DataType::fp8;  // with a cast of each expert's rows, which both gradients share
  EXPECT_EQ(calls_of("fc2", cast).kernels, 32);
  EXPECT_EQ(calls_of("fc2-dgrad", cast).kernels, 32);
  EXPECT_EQ(calls_of("fc2-wgrad", cast).kernels, 16);
}

TEST(HostCalls, CountGroupedProductsOnce) {
  GroupedGemm sixteen{std::vector<std::int64_t>(16, 8), 64, 64, DataType::bf16};
  const auto calls = [&] {
    const Kernel kernel = sixteen;
    return host_calls(*find_op_type("fc1"), &kernel, true);
  };
  EXPECT_EQ(calls(), (HostCalls{.kernels = 1, .modules = 1}));
  sixteen.type = DataType::fp8;
  EXPECT_EQ(calls(), (HostCalls{.kernels = 2, .modules = 1}));
}

TEST(HostCalls, CountWhatRunsAgainAsTheForwardPass) {
  const FusedAttention scores{};
  EXPECT_EQ(calls_of("attention-scores-recompute", scores), calls_of("attention-scores", scores));
  EXPECT_EQ(calls_of("attention-scores-dgrad", scores).kernels, 3);
}

TEST(HostCalls, OfProductsAndOfWhatIsNextToThemDiffer) {
  const GroupedGemm product{{8}, 64, 64, DataType::bf16};
  const MemoryBound rows{Bytes(8), Bytes(8)};
  EXPECT_EQ(calls_of("attention-projections", product), (HostCalls{.kernels = 1, .modules = 1}));
  EXPECT_EQ(calls_of("attention-projections-dgrad", product),
            (HostCalls{.kernels = 1, .modules = 1}));
  EXPECT_EQ(calls_of("attention-projections", rows), (HostCalls{.kernels = 2}));
  EXPECT_EQ(calls_of("attention-projections-dgrad", rows), (HostCalls{.kernels = 3}));
  EXPECT_EQ(calls_of("mamba-scan", product), (HostCalls{.kernels = 1}));
  EXPECT_EQ(calls_of("mamba-scan", rows), (HostCalls{.kernels = 5, .modules = 1}));
  EXPECT_EQ(calls_of("mamba-scan-dgrad", rows).kernels, 22);
}

TEST(HostCalls, OfExchangesAreCollectivesAndHostWorkHasItsOwnTime) {
  EXPECT_EQ(host_calls({OpKind::token_exchange}, nullptr), (HostCalls{.collectives = 1}));
  EXPECT_EQ(calls_of("host-read", HostWork{5}), HostCalls());
}

TEST(GraphModules, CaptureTheirPartsOfALayer) {
  const auto in = [](GraphModules graphs, const std::string& type,
                     std::optional<BlockKind> block = std::nullopt) {
    return captured(graphs, *find_op_type(type), block);
  };
  using enum GraphModule;
  EXPECT_TRUE(in({attn}, "attention-scores-dgrad"));
  EXPECT_TRUE(in({attn}, "norm", BlockKind::attention));
  EXPECT_FALSE(in({attn}, "norm", BlockKind::moe));
  EXPECT_TRUE(in({moe_router}, "norm", BlockKind::moe));
  EXPECT_TRUE(in({moe_router}, "shared-fc2"));
  EXPECT_FALSE(in({moe_router}, "permute"));
  EXPECT_TRUE(in({moe_preprocess}, "permute"));
  EXPECT_FALSE(in({attn, moe_router, moe_preprocess}, "fc1"));
  EXPECT_FALSE(in({attn, moe_router, moe_preprocess}, "token-exchange"));
  EXPECT_TRUE(in({moe}, "token-exchange"));
  EXPECT_TRUE(in({moe}, "host-read"));
  EXPECT_FALSE(in({attn, moe_router, moe_preprocess}, "host-read"));
  EXPECT_TRUE(in({mlp}, "dense-fc1"));
  EXPECT_FALSE(in({attn, mlp, moe}, "optimizer"));
  EXPECT_TRUE(in({full_iteration}, "optimizer"));
  EXPECT_FALSE(in({}, "attention-scores"));
}

}  // namespace
}  // namespace moesim
