// SPDX-License-Identifier: Apache-2.0
// Timelines as moesim writes them: kinds of ops, ranks of one case, shapes and exchanges.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/profile/moesim_timeline.h"
#include "tests/profile/files.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TimelineOps, HaveTheKindOfTheirKernels) {
  using K = KernelKind;
  const std::map<OpKind, K> kinds = {{OpKind::attention_projections, K::gemm},
                                     {OpKind::shared_fc1, K::gemm},
                                     {OpKind::dense_fc2, K::gemm},
                                     {OpKind::head, K::gemm},
                                     {OpKind::fc1, K::grouped_gemm},
                                     {OpKind::fc2, K::grouped_gemm},
                                     {OpKind::attention_scores, K::attention},
                                     {OpKind::gate, K::router},
                                     {OpKind::activation, K::activation},
                                     {OpKind::norm, K::norm},
                                     {OpKind::permute, K::permute},
                                     {OpKind::encode, K::cast},
                                     {OpKind::embedding, K::embedding},
                                     {OpKind::mamba_conv, K::convolution},
                                     {OpKind::mamba_scan, K::scan},
                                     {OpKind::loss, K::loss},
                                     {OpKind::optimizer, K::optimizer},
                                     {OpKind::host_read, K::host},
                                     {OpKind::side_exchange, K::notify},
                                     {OpKind::weight_exchange, K::all_gather},
                                     {OpKind::stage_transfer, K::send_recv},
                                     {OpKind::gradient_sum, K::all_reduce},
                                     {OpKind::tensor_exchange, K::other_exchange}};
  for (const auto& [op, kind] : kinds) EXPECT_EQ(kind_of_op({op}, ""), kind);
  EXPECT_EQ(kind_of_op({OpKind::token_exchange}, "dispatch"), K::dispatch);
  EXPECT_EQ(kind_of_op({OpKind::token_exchange}, "combine"), K::combine);
  EXPECT_EQ(kind_of_op({OpKind::parameter_exchange}, "gather"), K::all_gather);
  EXPECT_EQ(kind_of_op({OpKind::parameter_exchange}, "reduce"), K::reduce_scatter);
  EXPECT_EQ(kind_of_op({OpKind::parameter_exchange}, ""), K::send_recv);
  OpType scores{OpKind::attention_scores};
  scores.pass = Pass::backward;
  EXPECT_EQ(kind_of_op(scores, ""), K::attention_backward);
  OpType norm{OpKind::norm};
  norm.pass = Pass::backward;
  EXPECT_EQ(kind_of_op(norm, ""), K::norm);
  scores.role = Role::recompute;
  EXPECT_EQ(kind_of_op(scores, ""), K::attention);
}

std::string name(int process, const std::string& shown) {
  return fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})",
                     process, shown);
}

std::string slice(const char* category, int process, double begin, double length,
                  const std::string& args = "") {
  return fmt::format(
      R"({{"ph":"X","pid":{},"tid":1,"ts":{},"dur":{},"name":"x","cat":"{}","args":{{{}}}}})",
      process, begin, length, category, args);
}

ProfiledRank read_rank(const std::vector<std::string>& events) {
  std::string text = name(0, "case: rank 3 of a");
  for (const std::string& event : events) text += "," + event;
  const ProfileFiles files;
  const std::string path =
      files.write("t.json", R"({"otherData":{"moesim":"0"},"traceEvents":[)" + text + "]}");
  return read_files({path}).profile.ranks.at(0);
}

TEST(Timeline, HasRanksAndStreamsByTheirNames) {
  const ProfiledRank rank =
      read_rank({R"({"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"ep"}})",
                 name(7, "cluster"), slice("step", 7, 1, 10), slice("kernel", 0, 2, 3),
                 slice("kernel", 5, 2, 3), slice("wait", 0, 2, 3)});
  EXPECT_EQ(rank.rank, 3);
  EXPECT_THAT(rank.streams, ElementsAre("ep"));
  ASSERT_EQ(rank.kernels.size(), 1U);
  EXPECT_EQ(rank.kernels[0].start, 2 * us);
  EXPECT_EQ(rank.kernels[0].length, 3 * us);
  EXPECT_EQ(rank.steps, (std::vector<std::pair<ProfileTicks, ProfileTicks>>{{us, 11 * us}}));
}

TEST(Timeline, IsOfOneCase) {
  const ProfileFiles files;
  const auto complaint = [&](const std::string& other) {
    return error_of_files({files.write("t.json", R"({"otherData":{"moesim":"0"},"traceEvents":[)" +
                                                     name(0, "a: rank 0") + "," + name(1, other) +
                                                     "," + slice("kernel", 0, 1, 1) + "]}")});
  };
  EXPECT_EQ(complaint("a: rank 1"), "");
  EXPECT_EQ(complaint("cluster"), "");
  EXPECT_THAT(complaint("b: rank 1"), HasSubstr("shows several cases"));
  EXPECT_THAT(
      error_of_files({files.write(
          "n.json", R"({"otherData":{"moesim":"0"},"traceEvents":[)" + name(0, "x") + "]}")}),
      HasSubstr("shows no rank"));
}

TEST(Timeline, HasShapesOfItsKernels) {
  const ProfiledRank rank = read_rank(
      {slice("kernel", 0, 1, 1, R"("op":"fc1","m":[3,0,5],"n":8,"k":4,"type":"bf16")"),
       slice("kernel", 0, 2, 1, R"("op":"norm","bytes":100)"),
       slice("kernel", 0, 3, 1, R"("op":"fc1","m":[3,0,5],"n":8,"k":4,"type":"bf16")"),
       slice("kernel", 0, 4, 1, R"("op":"fc1","m":[3],"n":0,"k":4,"type":"bf16")"),
       slice("kernel", 0, 5, 1, R"("op":"fc1","m":[],"n":8,"k":4,"type":"bf16")"),
       slice("kernel", 0, 6, 1, R"("op":"fc1","m":[3],"n":8,"k":4,"type":"int3")"),
       slice("kernel", 0, 6.25, 1, R"("op":"fc1","m":[3],"n":1,"k":1,"type":"bf16")"),
       slice("kernel", 0, 6.5, 1, R"("op":"fc1","queries":0,"type":"bf16")"),
       slice("kernel", 0, 7, 1,
             R"("op":"attention-scores","queries":6,"attended":21,"keys":9,"heads":4,"kv_heads":2,)"
             R"("qk_width":64,"v_width":32,"type":"fp16")")});
  std::vector<std::int32_t> shapes;
  for (const ProfiledKernel& kernel : rank.kernels) shapes.push_back(kernel.shape);
  EXPECT_THAT(shapes, ElementsAre(0, 1, 0, -1, -1, -1, 2, -1, 3));
  EXPECT_EQ(rank.shapes.at(0),
            (WorkShape{OpType{OpKind::fc1}, GroupedGemm{{3, 0, 5}, 8, 4, DataType::bf16}}));
  EXPECT_EQ(rank.shapes[1], (WorkShape{OpType{OpKind::norm}, MemoryBound{Bytes(100), Bytes(0)}}));
  const auto& attention = std::get<FusedAttention>(rank.shapes[3].work);
  EXPECT_EQ(attention.queries, 6);
  EXPECT_EQ(attention.attended, 21);
  EXPECT_EQ(attention.keys, 9);
  EXPECT_EQ(attention.shape.heads, 4);
  EXPECT_EQ(attention.shape.kv_heads, 2);
  EXPECT_EQ(attention.shape.qk_width, 64);
  EXPECT_EQ(attention.shape.v_width, 32);
  EXPECT_EQ(attention.shape.type, DataType::fp16);
}

TEST(Timeline, HasBytesLinksAndNumbersOfExchanges) {
  const ProfiledRank rank = read_rank(
      {slice("exchange", 0, 1, 5,
             R"("op":"token-exchange","stage":"combine","to_same_host_bytes":10,)"
             R"("to_other_hosts_bytes":5,"ranks":4,"op_id":6,"link":"nic","link_bytes":12,)"
             R"("waiting_us":2)"),
       slice("step", 7, 0, 10),
       slice("exchange", 0, 20, 1, R"("op":"norm","op_id":6,"link":"a/b","ranks":-1)")});
  ASSERT_EQ(rank.exchanges.size(), 2U);
  EXPECT_EQ(rank.kernels[0].kind, KernelKind::combine);
  const ExchangeFacts &first = rank.exchanges[0], &second = rank.exchanges[1];
  EXPECT_EQ(first.in_bytes, 15);
  EXPECT_EQ(first.ranks, 4);
  EXPECT_EQ(first.sequence, 6);
  EXPECT_EQ(first.link, "nic");
  EXPECT_EQ(first.link_bytes, 12);
  EXPECT_EQ(first.waiting, 2 * us);
  EXPECT_EQ(rank.kernels[1].kind, KernelKind::other_exchange);
  EXPECT_EQ(second.sequence, (std::int64_t{1} << 32) + 6) << "of the second step";
  EXPECT_EQ(second.link, "");
  EXPECT_EQ(second.ranks, 0);
  EXPECT_EQ(second.in_bytes, 0);
}

}  // namespace
}  // namespace moesim
