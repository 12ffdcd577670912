// SPDX-License-Identifier: Apache-2.0
// Explanations of exchanges that share links, carry no rows, or are of two passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/analytic/analytic_backend.h"
#include "sim/model/gpu_model.h"
#include "sim/report/explain.h"
#include "sim/report/explain_text.h"
#include "sim/report/iteration_explain.h"
#include "sim/report/table.h"
#include "sim/report/time_bounds_table.h"
#include "sim/topology/reader.h"
#include "tests/plan/fixtures.h"
#include "tests/report/iteration_case.h"
#include "tests/report/table_rows.h"

namespace moesim::test {
namespace {

using ::testing::ElementsAre;

/// Two hosts of two GPUs at a socket, of one NIC: 10 GB/s, 1 us to the socket and 5 us to the
/// switch.
const Topology& hosts_with_sockets() {
  static const TopologyFile file = parse_topology(
      "nodes: 2\nnode:\n  gpu: round\n  gpus: 2\n  pcie: {bandwidth: 10 GB/s, latency: 1 us}\n"
      "  nics: {count: 1, bandwidth: 10 GB/s, latency: 5 us}\nfabric: {kind: switch}\n",
      "sockets");
  return file.topology;
}

Explanation explained(const Plan& plan, const Topology& topology) {
  check_plan(plan);
  const GpuModels gpus(static_cast<std::size_t>(plan.gpus),
                       std::make_shared<const GpuModel>(parse_gpu_model(
                           "name: round\nsource: test\nmemory: 10 GB\nmemory_bandwidth: 1 TB/s\n"
                           "peak: {bf16: 100 TFLOP/s}\nlaunch_overhead: 1 us\n",
                           "round")));
  const auto backend = make_analytic_backend(topology, gpus);
  return explain(PricedPlan(plan, topology), gpus, {{"analytic", backend.get()}});
}

/// 10 MB from GPU 0 to another, with one row or without.
Op ten_megabytes(const std::string& name, int to, Pass pass, bool row) {
  Op op = exchange(name, {0, to}, matrix(2, 10'000'000, {{0, 1, 1}}));
  op.key.stage = Stage::dispatch;
  op.key.pass = pass;
  if (row) {
    std::get<Exchange>(op.work).rows = {{GpuId(0), GpuId(to), TokenId(0), 1}};
  }
  return op;
}

// 20 MB leave GPU 0, half of them to its neighbour over two hops, half through the NIC. What leaves
// begins to arrive when the nearest could: after 2 us, in each of two rounds.
TEST(ExplainSharedLinks, BeginWhenTheNearestCould) {
  for (const bool far_first : {false, true}) {
    Plan plan{"plan", 4, {}};
    for (const bool far : {far_first, !far_first}) {
      plan.add(ten_megabytes("send", far ? 2 : 1, Pass::forward, true));
    }
    const Explanation e = explained(plan, hosts_with_sockets());
    ASSERT_EQ(e.phases.size(), 1u);
    const PhaseReport& send = e.phases[0];
    EXPECT_EQ(send.rounds, 2);
    EXPECT_NEAR(send.closed_form.transfer.value, 2e-3, 1e-12);
    EXPECT_NEAR(send.closed_form.latency.value, 2 * 2e-6, 1e-12);
    const ClassLoad& pcie = send.classes.at(0);
    EXPECT_EQ(pcie.busiest_bytes, Bytes(20'000'000));
    EXPECT_NEAR(pcie.busiest_time.value, 2e-3, 1e-12);
  }
}

TEST(ExplainSharedLinks, ExchangesWithoutRowsHaveDashesInTheirPlace) {
  Plan plan{"plan", 4, {}};
  plan.add(ten_megabytes("counts", 1, Pass::forward, false));
  plan.add(ten_megabytes("one", 2, Pass::forward, true));
  const Printout text = explain_text(explained(plan, hosts_with_sockets()), hosts_with_sockets());
  EXPECT_THAT(rows_of(text, "forward moves"), ElementsAre("counts|2|10 MB|0 B|10 MB|0 B|1|-|-|-|-",
                                                          "one|2|10 MB|10 MB|0 B|0 B|1|1|1|0|0"));
}

TEST(ExplainSharedLinks, WavesOfAFusedLayerCountFromOne) {
  Plan plan{"plan", 4, {}};
  plan.add(ten_megabytes("send", 1, Pass::forward, true));
  Explanation e = explained(plan, hosts_with_sockets());
  FusedMemory& memory = e.fused.emplace_back();
  memory.gpu = GpuId(1);
  for (const int rows : {30, 20}) {
    FusedWave& wave = memory.waves.emplace_back();
    wave.rows = rows;
    wave.sent = Seconds(1), wave.begins = Seconds(2), wave.ends = Seconds(3);
    wave.left = Seconds(4);
    wave.most = {Bytes(5), Bytes(6), Bytes(7)};
  }
  EXPECT_THAT(rows_of(explain_text(e, hosts_with_sockets()), "forward fused"),
              ElementsAre("1|30|1 s|2 s|3 s|4 s|5 B|6 B|7 B|18 B",
                          "2|20|1 s|2 s|3 s|4 s|5 B|6 B|7 B|18 B"));
}

/// Phases and kernels of both passes, the backward ones in between.
TEST(ExplainSharedLinks, EachPassHasItsOwnTables) {
  Plan plan{"plan", 4, {}};
  const auto add_kernel = [&](const std::string& name, Pass pass) {
    Op op = kernel(name, 0, {}, MemoryBound{Bytes(1'000'000), Bytes(1'000'000)});
    op.key.pass = pass;
    plan.add(std::move(op));
  };
  add_kernel("pack", Pass::forward);
  plan.add(ten_megabytes("back", 1, Pass::backward, true));
  add_kernel("unpack-back", Pass::backward);
  plan.add(ten_megabytes("there", 1, Pass::forward, true));
  add_kernel("unpack", Pass::forward);
  const Printout text = explain_text(explained(plan, hosts_with_sockets()), hosts_with_sockets());
  const auto first_cells = [&](const std::string& table) {
    std::vector<std::string> cells;
    for (const std::string& row : rows_of(text, table))
      cells.push_back(row.substr(0, row.find('|')));
    return cells;
  };
  EXPECT_THAT(first_cells("forward order"), ElementsAre("pack", "> there", "unpack"));
  EXPECT_THAT(first_cells("backward order"), ElementsAre("> back", "unpack-back"));
  for (const char* what : {"moves", "links"}) {
    EXPECT_THAT(first_cells(std::string("forward ") + what), ElementsAre("there")) << what;
    EXPECT_THAT(first_cells(std::string("backward ") + what), ElementsAre("back")) << what;
  }
  EXPECT_THAT(first_cells("forward times"), ElementsAre("there", ""));
  EXPECT_THAT(first_cells("backward times"), ElementsAre("back", ""));
  for (const char* title :
       {"\nforward: what moves\n", "\nforward: links (* the busiest of the phase)\n",
        "\nforward: times of the exchanges\n", "\nbackward: times of the exchanges\n"}) {
    EXPECT_THAT(text.text(), ::testing::HasSubstr(title));
  }
}

/// The columns that stay whatever others are asked for.
std::vector<std::string> names_that_stay(const Printout& printout, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& part : printout.parts()) {
    const auto* table = std::get_if<Table>(&part);
    if (table == nullptr || table->name != name) continue;
    for (const TableColumn& column : table->columns) {
      if (column.kind == TableColumn::Kind::key) names.push_back(column.name);
    }
  }
  return names;
}

TEST(ExplainedTables, KeepTheColumnsThatNameTheirRows) {
  IterationExplanation e;
  e.times.iteration = Seconds(1);
  e.times.parts[0] = Seconds(1);
  RankReport rank{GpuId(0), "gpu0", 0, e.times, {}};
  rank.memory.parts = {{"weights", Bytes(1)}};
  e.ranks = {rank};
  e.sums.gpus = e.sums.waited = {Seconds(1)};
  const Printout iteration = iteration_explanation_text(e);
  EXPECT_THAT(names_that_stay(iteration, "stages"), ElementsAre("stage"));
  EXPECT_THAT(names_that_stay(iteration, "memory"), ElementsAre("stage"));
  EXPECT_THAT(names_that_stay(iteration, "ranks"), ElementsAre("rank", "GPU"));
  EXPECT_THAT(iteration.text(), ::testing::HasSubstr("\nwhat no such plan can beat, as a part of "
                                                     "the simulated time\nsimulated  balance "))
      << "its title stands once";
  EXPECT_THAT(iteration.text(), ::testing::Not(::testing::HasSubstr(time_bounds_title)));
  CaseResult c = iteration_case("cluster", "a", "", 1);
  c.metrics.layers[0].traffic.link_class = {1, 0};
  const Printout layers = Printout().add(layer_table(c));
  EXPECT_THAT(names_that_stay(layers, "layers"), ElementsAre("layer"));
  EXPECT_THAT(rows_of(layers, "layers").at(0), ::testing::EndsWith("|nvlink 1 B"));
}

}  // namespace
}  // namespace moesim::test
