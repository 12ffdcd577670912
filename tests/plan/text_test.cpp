// SPDX-License-Identifier: Apache-2.0
// The text form: a golden plan, and random plans there and back.
#include "sim/plan/text.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "sim/base/id_vector.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

/// Two GPUs: permute, dispatch with rows, one expert GEMM, combine, and parameters on the side.
Plan hand_made() {
  Plan plan{"two GPUs, one layer", 2, {}};
  const auto at = [](Op op, Pass pass, Stage stage) {
    op.key.layer = 3;
    op.key.pass = pass;
    op.key.stage = stage;
    return op;
  };
  const Kernel permute = MemoryBound{Bytes(8192), Bytes(12288)};
  plan.add(at(kernel("permute", 0, {}, permute), Pass::forward, Stage::dispatch));
  plan.add(at(kernel("permute", 1, {}, permute), Pass::forward, Stage::dispatch));
  Op dispatch =
      exchange("dispatch", {0, 1}, matrix(2, 4096, {{0, 0, 1}, {0, 1, 2}, {1, 0, 1}}), {0, 1});
  std::get<Exchange>(dispatch.work).rows = {{GpuId(0), GpuId(0), TokenId(0), 1},
                                            {GpuId(0), GpuId(1), TokenId(0), 6},
                                            {GpuId(0), GpuId(1), TokenId(1), 15},
                                            {GpuId(1), GpuId(0), TokenId(2), 9}};
  plan.add(at(std::move(dispatch), Pass::forward, Stage::dispatch));
  plan.add(at(kernel("fc1", 1, {2}, GroupedGemm{{4, 8, 8, 8, 0}, 2816, 2048, DataType::bf16}),
              Pass::backward, Stage::experts));
  Op move = exchange("move \"expert\" 7", {1}, matrix(1, 1, {}));
  move.stream = Stream::param;
  plan.add(std::move(move));
  Op wait = kernel("wait", 0, {2});
  wait.stream = Stream::copy;
  plan.add(std::move(wait));
  plan.ops[3].after = ids<OpId>({2, 4});
  return plan;
}

TEST(PlanText, KeepsCopiesToTheMemoryOfHosts) {
  Plan plan{"copies", 2, {}};
  for (const bool back : {false, true}) {
    Op copy = exchange("copy", {0, 1}, matrix(2, 4096, {{0, 0, 3}, {1, 1, 2}}));
    copy.key.kind = OpKind::offload;
    copy.stream = back ? Stream::from_host : Stream::to_host;
    std::get<Exchange>(copy.work).with_hosts = true;
    std::get<Exchange>(copy.work).transposed = back;
    plan.add(std::move(copy));
  }
  const std::string text = to_text(plan);
  EXPECT_THAT(text,
              testing::HasSubstr(" to-host layer - forward other exchange 0,1 unit 4096 hosts"));
  EXPECT_EQ(parse_plan(text, "copies"), plan);
  std::string between = text;
  between.replace(between.find("0:3"), 3, "1:3");
  EXPECT_THROW(parse_plan(between, "copies"), Error);
}

TEST(PlanText, KeepsWavesOfFusedKernels) {
  Plan plan{"waves", 2, {}};
  Op fc1 = kernel("fc1-wave-1", 0, {}, MemoryBound{});
  fc1.group = Group({GpuId(0), GpuId(1)});
  const auto wave = [](std::vector<std::int64_t> rows, std::int64_t tiles, std::int64_t of) {
    return Wave{std::move(rows), 64, 64, tiles, of, DataType::fp4, true};
  };
  fc1.work = Kernels(
      std::vector<Kernel>{GroupedGemm{{64, 10}, 256, 128, DataType::fp8, wave({64, 80}, 2, 3)},
                          GroupedGemm{{1, 0}, 256, 128, DataType::fp8, wave({1, 0}, 1, 1)}});
  plan.add(fc1);
  plan.add(kernel("sums", 0, {}, MemoryBound{Bytes(8), Bytes(4), true}));
  const std::string text = to_text(plan);
  EXPECT_NE(text.find("gemm fp8 m 64,10;1,0 n 256 k 128 wave 2,1 of 3,1 tile 64 weights fp4 rows "
                      "64,80;1,0 starts"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("memory read 8 written 4 goes-on"), std::string::npos) << text;
  EXPECT_EQ(parse_plan(text, "t"), plan);
  check_plan(plan);
  GroupedGemm part{{64}, 256, 128, DataType::fp8, wave({64}, 1, 1)};
  part.wave->fill = 16;
  plan.ops[0].work = Kernels(Kernel(part));
  EXPECT_THAT(to_text(plan), testing::HasSubstr("tile 64 fill 16 weights fp4"));
  EXPECT_EQ(parse_plan(to_text(plan), "t"), plan);
  check_plan(plan);
  part.wave->fill = 65;
  plan.ops[0].work = Kernels(Kernel(part));
  EXPECT_THROW(check_plan(plan), Error);
  plan.ops[0].work = Kernels(Kernel(GroupedGemm{{64}, 256, 128, DataType::fp8, wave({64}, 2, 1)}));
  EXPECT_THROW(check_plan(plan), Error);  // two tiles of one
}

TEST(PlanText, MatchesTheGoldenFile) {
  const std::string path = std::string(MOESIM_ROOT) + "/tests/plan/golden/hand-made.plan";
  const std::string text = to_text(hand_made());
  if (std::getenv("MOESIM_ACCEPT") != nullptr) std::ofstream(path) << text;
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << "MOESIM_ACCEPT=1 rewrites " << path;
  EXPECT_EQ(parse_plan(golden.str(), path), hand_made());
}

/// Of one kind and shape; the sizes of the members are equal or not.
template <class Draw>
Kernels random_kernels(std::size_t members, Draw draw) {
  const int kind = draw(4);
  const bool same = draw(2) == 0;
  GroupedGemm gemm{{}, 1 + draw(9), 1 + draw(9), static_cast<DataType>(draw(4))};
  const int kv_heads = 1 + draw(9);
  AttentionHeads attention{kv_heads * (1 + draw(9)), kv_heads, 1 + draw(9), draw(9), gemm.type};
  attention.pass = static_cast<Pass>(draw(2));
  attention.latent = kv_heads == 1 && attention.v_width <= attention.qk_width;
  const int keys = attention.pass == Pass::forward ? draw(2) * 99 : 0;  // of every member, or none
  std::vector<Kernel> each;
  for (std::size_t i = 0; i < (same ? 1 : members); ++i) {
    gemm.m.clear();
    for (int g = draw(9); g > 0; --g) gemm.m.push_back(draw(3));
    if (kind == 0) each.emplace_back(gemm);
    if (kind == 1) each.emplace_back(HostWork{draw(1000)});
    if (kind == 3) each.emplace_back(FusedAttention{draw(99), draw(4), attention, draw(1 + keys)});
    if (kind == 2)
      each.emplace_back(MemoryBound{Bytes(draw(99)), Bytes(std::int64_t{1} << draw(53))});
  }
  return Kernels(std::move(each));
}

Plan random_plan(unsigned seed) {
  std::mt19937 random(seed);
  const auto draw = [&](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  const std::vector<std::string> names = {"a", "two words", "", "q\"\\\n\t\x7f#", "-", "ä", "x#1"};
  Plan plan{names[static_cast<std::size_t>(draw(7))], 1 + draw(12), {}};
  const int count = draw(20);
  for (int i = 0; i < count; ++i) {
    Op op;
    op.label = names[static_cast<std::size_t>(draw(7))];
    op.key = {.kind = static_cast<OpKind>(draw(op_kind_count)),
              .role = static_cast<Role>(draw(role_count)),
              .pass = static_cast<Pass>(draw(2)),
              .stage = static_cast<Stage>(draw(stage_count)),
              .layer = draw(4) - 1,
              .microbatch = draw(3),
              .chunk = draw(2),
              .part = draw(9)};
    for (int k = draw(5); i > 0 && k > 0; --k) op.after.push_back(OpId(draw(i)));
    std::vector<GpuId> gpus;
    for (int gpu = 0; gpu < plan.gpus; ++gpu) {
      if (gpu == 0 || draw(3) > 0) gpus.emplace_back(gpu);
    }
    op.group = draw(3) == 0 ? Group{GpuId(draw(plan.gpus))} : Group(gpus);
    if (draw(2) == 0) {
      op.stream = draw(2) == 0 ? Stream::compute : Stream::copy;
      op.work = random_kernels(op.group.size(), draw);
    } else {
      op.stream = draw(2) == 0 ? Stream::ep : Stream::param;
      Exchange work{ByteMatrix(Bytes(1 + draw(4096))), {}};
      work.transposed = draw(2) == 0;
      work.rounds = draw(4);
      const auto member = [&] { return op.group[random() % op.group.size()]; };
      for (std::size_t from = 0; from < op.group.size(); ++from) {
        std::vector<ByteMatrix::Entry> row;
        for (const GpuId to : moesim::ids_of<GpuId>(op.group.list())) {
          if (draw(2) == 0) row.push_back({to, 1 + static_cast<std::uint32_t>(random()) / 2});
        }
        work.traffic.add_row(row);
      }
      for (int r = draw(30); r > 0; --r) {
        work.rows.push_back({member(), member(), TokenId(draw(1 << 30)),
                             1 + static_cast<Choices>(random() % 0xffffffff)});
      }
      work.sms = draw(3);
      op.work = std::move(work);
    }
    // Waits across GPUs are foreign: keep the waits that share one.
    std::erase_if(op.after, [&](OpId id) { return !op.group.meets(plan[id].group); });
    plan.add(std::move(op));
  }
  return plan;
}

TEST(PlanText, BringsRandomPlansThereAndBack) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    const Plan plan = random_plan(seed);
    const std::string text = to_text(plan);
    const Plan read = parse_plan(text, "random");
    ASSERT_EQ(read, plan) << "seed " << seed << "\n" << text;
    ASSERT_EQ(to_text(read), text) << "seed " << seed;
  }
}

TEST(PlanText, QuotesNamesThatAreNoPlainWord) {
  for (const char* plain : {"AZaz09", "_-.:/+@", "A", "Z", "a", "z", "0", "9"}) {
    EXPECT_EQ(to_text({plain, 1, {}}), fmt::format("moesim-plan 2\nname {}\ngpus 1\n\n", plain));
  }
  EXPECT_EQ(to_text({"[`{?", 1, {}}), "moesim-plan 2\nname \"[`{?\"\ngpus 1\n\n");
}

TEST(PlanText, WritesBytesAsTheyMove) {
  Plan plan{"n", 8, {exchange("probe", {1, 3, 6}, matrix(3, 8, {{0, 1, 2}, {1, 2, 5}}))}};
  EXPECT_EQ(to_text(plan).substr(std::string("moesim-plan 2\nname n\ngpus 8\n\n").size()),
            "op 0 probe ep layer - forward other exchange 1,3,6 unit 8\n"
            "  1 -> 3:2\n"
            "  3 -> 6:5\n");
  auto& work = std::get<Exchange>(plan.ops[0].work);
  work.transposed = true;
  work.rounds = 4;
  const std::string turned = to_text(plan);
  EXPECT_EQ(turned.substr(std::string("moesim-plan 2\nname n\ngpus 8\n\n").size()),
            "op 0 probe ep layer - forward other exchange 1,3,6 unit 8 transposed rounds 4\n"
            "  3 -> 1:2\n"
            "  6 -> 3:5\n");
  EXPECT_EQ(parse_plan(turned, "test"), plan);
}

TEST(PlanText, AllowsCommentsBlanksAndCarriageReturns) {
  const std::string text =
      "# a plan\r\nmoesim-plan 2\r\n\r\nname n # the name\r\ngpus 2\r\n"
      "op 0 probe ep layer - forward other exchange 0,1 unit 8\r\n"
      "\t0 -> 1:2   # two\r\n\r\n  # rows follow\r\n  rows 0 -> 5:1:0\r\n";
  Plan plan{"n", 2, {exchange("probe", {0, 1}, matrix(2, 8, {{0, 1, 2}}))}};
  std::get<Exchange>(plan.ops[0].work).rows = {{GpuId(0), GpuId(1), TokenId(5), 1}};
  EXPECT_EQ(parse_plan(text, "test"), plan);
}

}  // namespace
}  // namespace moesim
