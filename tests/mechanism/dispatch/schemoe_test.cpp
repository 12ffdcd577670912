// SPDX-License-Identifier: Apache-2.0
// Pipe-A2A of ScheMoE: two exchanges at once, and the closed form of its time.
#include <gtest/gtest.h>

#include "sim/analytic/analytic_backend.h"
#include "sim/base/data_files.h"
#include "sim/engine/port_backend.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

TEST(SchemoePipe, OnRandomLayersSplitsPairsByNode) {
  std::mt19937 random(41);
  for (int trial = 0; trial < 2500; ++trial) {
    SCOPED_TRACE(trial);
    const RandomLayer layer(random);
    const int in_node = layer.shape.gpus;
    std::vector<PairCounts> expected(layer.shape.ep > in_node ? 2 : 1);
    for (int t = 0; t < layer.token_count(); ++t) {
      for (int k = 0; k < layer.top_k; ++k) {
        const int from = layer.source(t), to = layer.gpu(t, k);
        ++expected[from / in_node == to / in_node ? 0 : 1][{from, to}];
      }
    }
    const auto dispatch = layer.dispatch("schemoe-pipe");
    ASSERT_NO_FATAL_FAILURE(expect_rows(*dispatch, layer, expected));
    if (trial % 25 == 0 && layer.per_rank > 0) {
      ASSERT_NO_THROW(prove(*dispatch, layer));
    }
  }
}

// Reference 2.7: t_pipe = max(M t1, (P - M) t2), with t1 and t2 the times of one pair inside and
// across. Here a rank's own part costs nothing, so that M - 1 pairs remain inside: with two nodes
// of four and 25 rows of 16,000 bytes a pair, t2 = 8 us at 50 GB/s and t1 = 1 us or 16 us.
TEST(SchemoePipe, TakesTheLongerOfItsTwoStreams) {
  MoeModel model;
  model.hidden = 8000;
  model.experts = 8;
  model.top_k = 8;
  std::vector<int> ids;
  for (int t = 0; t < 8 * 25; ++t) {
    for (int e = 0; e < 8; ++e) ids.push_back(e);
  }
  const Tokens tokens(8, 8, 8, 25, ids, 8);
  for (const auto& [nvlink, t1] : {std::pair(400, 1e-6), std::pair(25, 16e-6)}) {
    const Topology topology = bare_nodes(2, 4, nvlink);
    const GpuModels gpus(
        8, std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", "h100-sxm"))));
    const auto pipe = make_dispatch("schemoe-pipe", topology, 8, model);
    const Plan plan = exchanges_of(*pipe, tokens, model, Stage::dispatch);
    const double expected = std::max(3 * t1, 4 * 8e-6);
    for (const auto& backend :
         {make_analytic_backend(topology, gpus), make_port_backend(topology, gpus)}) {
      EXPECT_NEAR(backend->run(plan).makespan.value, expected, 1e-9 * expected);
    }
  }
}

}  // namespace
}  // namespace moesim
