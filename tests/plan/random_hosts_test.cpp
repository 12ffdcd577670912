// SPDX-License-Identifier: Apache-2.0
// Hosts by their definition, op by op, on random plans: with kernels of one launch and of many,
// graphs, and hosts that wait.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "sim/plan/check.h"
#include "sim/plan/simulate/host_program.h"
#include "tests/plan/host_case.h"

namespace moesim {
namespace {

using namespace test;

class RandomHosts : public testing::TestWithParam<int> {
 protected:
  int upto(int n) { return std::uniform_int_distribution(0, n)(random_); }
  HostModel host() {
    HostModel model = host_of(upto(20), upto(40));
    model.per_module = test::milliseconds(upto(10));
    model.per_graph = test::milliseconds(upto(50));
    if (upto(1) == 0) model.graphs = {GraphModule::attn};
    if (upto(1) == 0) model.waits_for = {OpKind::stage_transfer};
    return model;
  }
  HostCase plan(bool reads) {
    constexpr std::array kinds = {OpKind::other, OpKind::attention_scores, OpKind::gate,
                                  OpKind::attention_output, OpKind::permute};
    constexpr std::array streams = {Stream::ep, Stream::dp, Stream::pp_up};
    HostCase c;
    for (int i = 0; i < 60; ++i) {
      std::vector<OpId> after;
      if (i > 0 && upto(2) == 0) after.emplace_back(upto(i - 1));
      if (upto(4) == 0) {
        const int s = upto(2);
        c.exchange(after, streams[static_cast<std::size_t>(s)],
                   s == 2 ? OpKind::stage_transfer : OpKind::token_exchange);
        continue;
      }
      const int gpu = upto(1);
      std::erase_if(after, [&](OpId id) { return !c.plan[id].group.contains(GpuId(gpu)); });
      if (reads && upto(9) == 0) {
        c.kernel(gpu, HostWork{upto(30) * 1'000'000 + 1}, OpKind::host_read, after);
        continue;
      }
      c.kernel(gpu, kernel_of(upto(60)), kinds[static_cast<std::size_t>(upto(4))], after, upto(2));
    }
    check_plan(c.plan);
    return c;
  }
  std::mt19937 random_{static_cast<unsigned>(GetParam())};
};

/// What the definition says: ops in the order of the plan, kernels launch by launch.
class ByDefinition {
 public:
  ByDefinition(const Plan& plan, const HostModel& host, Seconds exchange)
      : plan_(plan), host_(host), exchange_(exchange), ends_(plan.ops.size()) {
    for (OpId id(0); id.index() < plan.ops.size(); ++id.value) run(id);
  }
  Seconds end(OpId op, std::size_t member) const { return ends_[op.index()][member]; }

 private:
  struct HostClock {
    Seconds now;
    int graph_of_layer = -1;
    bool in_call = false;
  };

  Seconds ready(OpId id, GpuId gpu) {
    const Op& op = plan_[id];
    Seconds at = streams_[{gpu, op.stream}];
    for (const OpId after : op.after) {
      const std::size_t m = plan_[after].group.member(gpu);
      if (m < plan_[after].group.size()) at = std::max(at, ends_[after.index()][m]);
    }
    return at;
  }

  /// Launches one by one, and runs each when it is launched.
  Seconds run_kernel(const Op& op, HostClock& clock, Seconds at) {
    const Kernel& kernel = op.kernels()->of(0);
    if (const auto* work = std::get_if<HostWork>(&kernel)) {
      clock.graph_of_layer = -1;
      return std::max(at, clock.now) + Seconds(static_cast<double>(work->nanoseconds) * 1e-9);
    }
    clock.in_call = false;
    const Seconds whole(static_cast<double>(memory_traffic_of(kernel).value) * 1e-3);
    const bool scores = op.key.kind == OpKind::attention_scores;
    const bool of_attention = scores || op.key.kind == OpKind::attention_output;
    if (host_.graphs.has(GraphModule::attn) && of_attention) {
      if (clock.graph_of_layer != op.key.layer) clock.now += host_.per_graph;
      clock.graph_of_layer = op.key.layer;
      return std::max(at, clock.now) + whole;
    }
    clock.graph_of_layer = -1;
    const HostCalls calls = host_calls(op.key.type(), &kernel);
    const Seconds each = host_.time(calls) * (1.0 / calls.kernels);
    for (int launch = 0; launch < calls.kernels; ++launch) {
      clock.now += each;
      at = std::max(at, clock.now) + whole * (1.0 / calls.kernels);
    }
    return at;
  }

  void run(OpId id) {
    const Op& op = plan_[id];
    auto& ends = ends_[id.index()];
    Seconds all(0);
    for (const GpuId gpu : op.group) {
      HostClock& clock = clocks_[gpu];
      const Seconds at = ready(id, gpu);
      if (op.kernels() != nullptr) {
        ends.push_back(run_kernel(op, clock, at));
        continue;
      }
      clock.graph_of_layer = -1;
      const bool tokens = op.key.kind == OpKind::token_exchange;
      if (!(tokens && clock.in_call)) clock.now += host_.per_collective;
      clock.in_call = tokens;
      all = std::max({all, at, clock.now});
    }
    if (op.exchange() != nullptr) ends.assign(op.group.size(), all + exchange_);
    const bool waits = op.key.kind == OpKind::host_read ||
                       std::ranges::find(host_.waits_for, op.key.kind) != host_.waits_for.end();
    for (std::size_t m = 0; m < ends.size(); ++m) {
      streams_[{op.group[m], op.stream}] = ends[m];
      if (waits) clocks_[op.group[m]] = {ends[m]};
    }
  }

  const Plan& plan_;
  const HostModel& host_;
  Seconds exchange_;
  std::vector<std::vector<Seconds>> ends_;  // [op][member]
  std::map<GpuId, HostClock> clocks_;
  std::map<std::pair<GpuId, Stream>, Seconds> streams_;
};

TEST_P(RandomHosts, AreAsDefined) {
  const HostModel model = host();
  const HostCase c = plan(true);
  const Seconds exchange = test::milliseconds(upto(50) + 1);
  if (!model.takes_time()) return;
  const ByDefinition expected(c.plan, model, exchange);
  for (const bool slowed : {false, true}) {
    const Timeline timeline = c.run(model, exchange.value * 1e3, slowed);
    for (OpId id(0); id.index() < c.plan.ops.size(); ++id.value) {
      for (std::size_t m = 0; m < c.plan[id].group.size(); ++m) {
        ASSERT_NEAR(timeline.ops[id.index()][m].end.value, expected.end(id, m).value, 1e-9)
            << "op " << id.value << ", " << name_of(c.plan[id].key.kind)
            << (slowed ? ", told" : "");
      }
    }
  }
}

TEST_P(RandomHosts, ThatTakeNoTimeChangeNothing) {
  const HostCase c = plan(false);
  HostModel idle;
  idle.per_graph = Seconds(1);  // of which there are none
  const Timeline with = c.run(idle, 20), without = c.run(HostModel(), 20);
  for (std::size_t op = 0; op < with.ops.size(); ++op) {  // but for rounding
    for (std::size_t m = 0; m < with.ops[op].size(); ++m) {
      EXPECT_NEAR(with.ops[op].start(m).value, without.ops[op].start(m).value, 1e-12);
      EXPECT_NEAR(with.ops[op].end(m).value, without.ops[op].end(m).value, 1e-12);
    }
  }
  EXPECT_NEAR(with.makespan.value, without.makespan.value, 1e-12);
}

TEST_P(RandomHosts, ThatAreFasterAreNotLater) {
  const HostCase c = plan(true);
  HostModel model = host();
  const Seconds slow = c.run(model, 20).makespan;
  for (Seconds* part :
       {&model.per_kernel, &model.per_module, &model.per_collective, &model.per_graph}) {
    *part = *part * 0.5;
  }
  EXPECT_LE(c.run(model, 20).makespan.value, slow.value + 1e-12);
}

TEST_P(RandomHosts, BoundTheTimeFromBelow) {
  const HostCase c = plan(false);
  HostModel model = host();
  model.graphs = {};
  for (const int gpu : {0, 1}) {
    Seconds issuing(0);
    for (const Op& op : c.plan.ops) {
      const Kernel* kernel = op.kernels() != nullptr ? &op.kernels()->of(0) : nullptr;
      const bool phase = op.key.kind == OpKind::token_exchange;  // perhaps of one call
      if (op.group.contains(GpuId(gpu)) && !phase)
        issuing += model.time(host_calls(op.key.type(), kernel));
    }
    EXPECT_GE(c.run(model, 20).makespan.value, issuing.value - 1e-12);
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, RandomHosts, testing::Range(0, 40));

}  // namespace
}  // namespace moesim
