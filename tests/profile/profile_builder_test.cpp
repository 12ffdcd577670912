// SPDX-License-Identifier: Apache-2.0
// What the readers of profiles have in common.
#include "sim/profile/profile_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/base/error.h"
#include "sim/profile/kineto_args.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(ProfileTimes, AreMicrosecondsAndTheirRest) {
  const auto moment = [](std::string_view text) {
    const ProfileMoment at = profile_moment(text);
    return std::pair(at.microseconds, at.rest);
  };
  EXPECT_EQ(moment("7"), std::pair(7L, 0L));
  EXPECT_EQ(moment("12.345678"), std::pair(12L, 345678L));
  EXPECT_EQ(moment("12.3456789"), std::pair(12L, 345678L));
  EXPECT_EQ(moment("12.09"), std::pair(12L, 90000L));
  EXPECT_EQ(moment("-1.5"), std::pair(-1L, -500000L));
  EXPECT_EQ(moment("2e3"), std::pair(2000L, 0L));
  EXPECT_EQ(moment("2.5e2"), std::pair(250L, 0L));
  EXPECT_EQ(moment("-125E-2"), std::pair(-1L, -250000L));
  EXPECT_EQ(moment("3e18"), std::pair(3'000'000'000'000'000'000L, 0L));
  EXPECT_EQ(moment("4000000000000000000"), std::pair(4'000'000'000'000'000'000L, 0L));
  EXPECT_EQ(moment("-4000000000000000000"), std::pair(-4'000'000'000'000'000'000L, 0L));
  for (const char* const none : {"", "x", "4e18", "-4e18", "4000000000000000001",
                                 "-4000000000000000001", "99999999999999999999"}) {
    EXPECT_EQ(moment(none), std::pair(0L, 0L)) << none;
  }
}

TEST(ProfileTimes, AreElevenDaysFromTheirBase) {
  EXPECT_EQ(profile_ticks({5, 7}, 2), 3'000'007);
  EXPECT_EQ(profile_ticks({2, 0}, 5), -3'000'000);
  constexpr std::int64_t most = 1'000'000'000'000;
  EXPECT_EQ(profile_ticks({most + 8, 1}, 5), most * 1'000'000 + 1);
  EXPECT_EQ(profile_ticks({-most - 8, 1}, 5), -most * 1'000'000 + 1);
}

TEST(ProfileTimes, OfKernelsAreUnderTenMinutes) {
  EXPECT_EQ(profile_length("1.5"), 1'500'000);
  EXPECT_EQ(profile_length("0.25"), 250'000);
  EXPECT_EQ(profile_length("599999999.5"), 599'999'999'500'000);
  for (const char* const none : {"600000000", "-1", "-0.5", "x", ""}) {
    EXPECT_EQ(profile_length(none), 0) << none;
  }
}

TEST(ProfileNames, SayNeitherPathsNorWhatNoTextHolds) {
  EXPECT_EQ(text_of_profile("a\x1b"), "a\\x1b");
  EXPECT_EQ(text_of_profile("a\xff"), "(not UTF-8)");
  Profile profile;
  profile.kernel_names = {"nvjet_x"};
  const KernelTable table = kernel_table({});
  KernelNames names(table, profile);
  EXPECT_EQ(names.number("nvjet_x", "f"), 0U);
  EXPECT_EQ(names.kind(0), KernelKind::gemm);
  EXPECT_EQ(names.number("/home/me/k.cu(3)", "f"), 1U);
  EXPECT_EQ(names.number("f<int>(a/b, /c/d,e/g x/y)", "f"), 2U);
  EXPECT_EQ(names.number("/home/me/k.cu(3)", "f"), 1U);
  EXPECT_EQ(names.kind(1), KernelKind::unknown);
  EXPECT_THAT(profile.kernel_names, ElementsAre("nvjet_x", "k.cu(3)", "f<int>(b, d,g y)"));
}

TEST(ProfileNames, OfGroupsAreNumbered) {
  Profile profile;
  EXPECT_EQ(group_number("a", profile), 0U);
  EXPECT_EQ(group_number("b", profile), 1U);
  EXPECT_EQ(group_number("a", profile), 0U);
  EXPECT_THAT(profile.groups, ElementsAre("a", "b"));
}

TEST(ProfileNames, OfTypesTellBytes) {
  const std::map<std::string, std::int64_t> bytes = {{"Float", 4},          {"BFloat16", 2},
                                                     {"Half", 2},           {"Double", 8},
                                                     {"Byte", 1},           {"Char", 1},
                                                     {"Bool", 1},           {"Int", 4},
                                                     {"Long", 8},           {"Short", 2},
                                                     {"Float8_e4m3fn", 1},  {"Float8_e5m2", 1},
                                                     {"ncclInt8", 1},       {"ncclFloat16", 2},
                                                     {"ncclBfloat16", 2},   {"ncclFloat64", 8},
                                                     {"ncclUint8", 1},      {"ncclInt32", 4},
                                                     {"ncclUint32", 4},     {"ncclFloat32", 4},
                                                     {"ncclInt64", 8},      {"ncclUint64", 8},
                                                     {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1},
                                                     {"float", 0},          {"", 0}};
  for (const auto& [type, each] : bytes) EXPECT_EQ(element_bytes(type), each) << type;
}

TEST(ProfileNames, OfCollectivesTellTheirKind) {
  using K = KernelKind;
  const std::map<std::string, K> kinds = {{"nccl:all_to_all", K::all_to_all},
                                          {"AllReduce", K::all_reduce},
                                          {"barrier", K::all_reduce},
                                          {"_reduce_scatter_base", K::reduce_scatter},
                                          {"_allgather_base", K::all_gather},
                                          {"Broadcast", K::broadcast},
                                          {"send", K::send_recv},
                                          {"Recv", K::send_recv},
                                          {"gather", K::other_exchange},
                                          {"scatter", K::other_exchange},
                                          {"reduce", K::other_exchange},
                                          {"ZAZ", K::unknown}};
  for (const auto& [name, kind] : kinds) EXPECT_EQ(collective_kind(name), kind) << name;
}

TEST(ProfileRanks, AreInOrderAndThereOnce) {
  Profile profile;
  for (const int number : {5, 2, 9}) {
    ProfiledRank rank;
    rank.rank = number;
    add_rank(rank, "f", profile);
  }
  EXPECT_EQ(profile.ranks[0].rank, 2);
  EXPECT_EQ(profile.ranks[1].rank, 5);
  EXPECT_EQ(profile.ranks[2].rank, 9);
  ProfiledRank again;
  again.rank = 5;
  EXPECT_THROW(add_rank(again, "f", profile), Error);
}

ProfiledKernel kernel_at(ProfileTicks start, KernelKind kind) {
  ProfiledKernel kernel;
  kernel.start = start;
  kernel.length = 10;
  kernel.kind = kind;
  return kernel;
}

TEST(RankBuilders, JoinLaunchesAndOpsByTheirNumbers) {
  RankBuilder builder(3);
  EXPECT_TRUE(builder.empty());
  EXPECT_EQ(builder.device(), 3);
  builder.rank().steps = {{9, 10}, {4, 6}};
  EXPECT_EQ(builder.stream("7", "f"), 0);
  EXPECT_EQ(builder.stream("20", "f"), 1);
  EXPECT_EQ(builder.stream("7", "f"), 0);
  builder.add(kernel_at(300, KernelKind::all_to_all), 4, 8);
  builder.add(kernel_at(100, KernelKind::gemm), 2, 8);
  builder.add(kernel_at(200, KernelKind::gemm), -1, -1);
  builder.add(kernel_at(400, KernelKind::gemm), 3, 9);
  EXPECT_FALSE(builder.empty());
  builder.join_launches({{0, 1}, {2, 50}, {4, 60}});
  ExchangeFacts facts;
  facts.ranks = 7;
  builder.join_ops({{7, 0, -1}, {8, 1, 0}}, {{{}, MemoryBound{Bytes(1), Bytes(0)}}, {}},
                   {{KernelKind::dispatch, facts}});
  const ProfiledRank rank = builder.finish(1000);
  EXPECT_EQ(rank.steps,
            (std::vector<std::pair<ProfileTicks, ProfileTicks>>{{1004, 1006}, {1009, 1010}}));
  ASSERT_EQ(rank.kernels.size(), 4U);
  const std::vector<ProfileTicks> starts = {1100, 1200, 1300, 1400},
                                  launches = {1050, -1, 1060, -1};
  const std::vector<std::int32_t> shapes = {1, -1, 1, -1}, exchanges = {-1, -1, 0, -1};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(rank.kernels[i].start, starts[i]);
    EXPECT_EQ(rank.kernels[i].launch, launches[i]) << i;
    EXPECT_EQ(rank.kernels[i].shape, shapes[i]) << i;
    EXPECT_EQ(rank.kernels[i].exchange, exchanges[i]) << i;
  }
  EXPECT_EQ(rank.kernels[2].kind, KernelKind::dispatch);
  EXPECT_EQ(rank.exchanges.at(0).ranks, 7);
  EXPECT_EQ(rank.shapes.size(), 2U);
}

TEST(RankBuilders, HoldEqualShapesOnceAndAnHourOfKernels) {
  RankBuilder builder(0);
  EXPECT_EQ(builder.shape("a", {}), 0);
  EXPECT_EQ(builder.shape("b", {}), 1);
  EXPECT_EQ(builder.shape("a", {}), 0);
  EXPECT_EQ(builder.rank().shapes.size(), 2U);
  ProfiledKernel hour;
  hour.length = 2'000'000'000'000'000;
  builder.add(hour, -1, -1);
  builder.add(hour, -1, -1);
  EXPECT_THROW(builder.add(kernel_at(0, KernelKind::gemm), -1, -1), Error);
}

TEST(KinetoArguments, NameRuns) {
  EXPECT_EQ(ranks_text("[0, 1, 2, 8]"), "0-2,8");
  EXPECT_EQ(ranks_text("[3]"), "3");
  EXPECT_EQ(ranks_text("[0, 2, 3, \"x\", 5]"), "0,2-3,5");
  EXPECT_EQ(ranks_text("[]"), "");
  std::string strided = "0", list = "[0";
  for (int rank = 8; rank < 512; rank += 8) {
    strided += "," + std::to_string(rank);
    list += ", " + std::to_string(rank);
  }
  EXPECT_EQ(ranks_text(list + "]"), strided) << "of 64 ranks, all";
}

TEST(KinetoArguments, TellWhatAProductMultiplies) {
  const auto shape = [](const char* op, const char* dims, const char* types = "[]") {
    const auto found = product_shape(op, dims, types);
    return found ? std::get<GroupedGemm>(found->work) : GroupedGemm{{}, 0, 0, DataType::fp4};
  };
  const GroupedGemm none{{}, 0, 0, DataType::fp4};
  EXPECT_EQ(shape("aten::mm", "[[8, 4], [4, 2]]", "[\"float\", \"float\"]"),
            (GroupedGemm{{8}, 2, 4, DataType::fp32}));
  EXPECT_EQ(shape("aten::_scaled_mm", "[[8, 4], [4, 2]]", "[\"c10::Float8_e5m2\"]"),
            (GroupedGemm{{8}, 2, 4, DataType::fp8}));
  EXPECT_EQ(shape("aten::bmm", "[[3, 8, 4], [3, 4, 2]]"),
            (GroupedGemm{{8, 8, 8}, 2, 4, DataType::bf16}));
  EXPECT_EQ(shape("aten::baddbmm", "[[1], [3, 8, 4], [3, 4, 2]]", "[\"x\", \"c10::Half\"]"),
            (GroupedGemm{{8, 8, 8}, 2, 4, DataType::fp16}));
  EXPECT_EQ(shape("aten::mm", "[[8, 4], [4, 2]]", "[\"double\", \"double\"]"), none);
  EXPECT_EQ(shape("aten::mm", "[[1, 1], [1, 1]]"), (GroupedGemm{{1}, 1, 1, DataType::bf16}));
  for (const auto& [op, dims] : {std::pair("aten::mm", "[[8, 4]]"),
                                 {"aten::mm", "[[8, 4], [2, 4]]"},
                                 {"aten::mm", "[[8, 4, 1], [4, 2]]"},
                                 {"aten::mm", "[[8, 4], [4]]"},
                                 {"aten::mm", "[[0, 4], [4, 2]]"},
                                 {"aten::mm", "[[8, 4], [4, 0]]"},
                                 {"aten::mm", "[[8, 0], [0, 2]]"},
                                 {"aten::mm", "[[8, 99999999], [99999999, 2]]"},
                                 {"aten::bmm", "[[0, 8, 4], [0, 4, 2]]"},
                                 {"aten::bmm", "[[4097, 8, 4], [4097, 4, 2]]"},
                                 {"aten::add", "[[8, 4], [4, 2]]"},
                                 {"mm", "[[8, 4], [4, 2]]"},
                                 {"aten::addmm", "[[8, 4], [4, 2]]"}}) {
    EXPECT_EQ(shape(op, dims), none) << op << dims;
  }
}

}  // namespace
}  // namespace moesim
