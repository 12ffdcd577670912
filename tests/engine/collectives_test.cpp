// SPDX-License-Identifier: Apache-2.0
// Collectives apart in one op take the times that they take as ops of their own.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include "sim/analytic/analytic_backend.h"
#include "sim/engine/port_backend.h"
#include "tests/engine/fixtures.h"

namespace moesim::test {
namespace {

constexpr int set_gpus = 16;

using Sets = std::vector<std::vector<int>>;

Sets rail_sets() {
  Sets sets;
  for (int r = 0; r < 8; ++r) sets.push_back({r, r + 8});
  return sets;
}
Sets node_sets() { return {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11, 12, 13, 14, 15}}; }

/// Kernels of unequal times, and phases between rails and inside nodes that follow them.
class Phases {
 public:
  explicit Phases(bool joined) : joined_(joined) { plan_.gpus = set_gpus; }

  void kernels(std::mt19937& random) {
    ++step_;
    std::vector<Kernel> each;
    for (int g = 0; g < set_gpus; ++g) {
      each.emplace_back(MemoryBound{Bytes(static_cast<std::int64_t>(random() % 400'000'000)), {}});
    }
    add(Stream::compute, all_, Kernels(std::move(each)), last_);
  }

  void phase(const Sets& sets, Stream stream, const ByteMatrix& bytes, bool transposed) {
    ++step_;
    const std::vector<OpId> after = last_;
    std::vector<std::vector<GpuId>> members;
    for (const auto& set : sets) members.emplace_back(set.begin(), set.end());
    if (joined_) {
      ByteMatrix within;
      for (int from = 0; from < set_gpus; ++from) within.add_row(row_within(bytes, sets, from));
      Exchange exchange{std::move(within), {}};
      exchange.transposed = transposed;
      exchange.collectives = std::make_shared<const Collectives>(std::move(members), true);
      add(stream, all_, std::move(exchange), after);
      return;
    }
    std::vector<OpId> added;
    for (const auto& set : members) {
      Exchange exchange{bytes.among(set), {}};
      exchange.transposed = transposed;
      add(stream, Group(set), std::move(exchange), after);
      added.push_back(last_.front());
    }
    last_ = added;
  }

  const Plan& plan() const { return plan_; }
  const std::vector<int>& steps() const { return steps_; }

 private:
  static std::vector<ByteMatrix::Entry> row_within(const ByteMatrix& bytes, const Sets& sets,
                                                   int from) {
    std::vector<ByteMatrix::Entry> row;
    for (const auto& set : sets) {
      if (!std::ranges::count(set, from)) continue;
      for (const auto& entry : bytes.row(GpuId(from))) {
        if (std::ranges::find(set, entry.to.value) != set.end()) row.push_back(entry);
      }
    }
    return row;
  }

  void add(Stream stream, const Group& group, std::variant<Kernels, Exchange> work,
           std::vector<OpId> after) {
    Op op;
    op.stream = stream;
    op.group = group;
    op.work = std::move(work);
    for (const OpId earlier : after) {
      if (plan_[earlier].group.meets(group)) op.after.push_back(earlier);
    }
    op.key.layer = step_;
    steps_.push_back(step_);
    last_ = {plan_.add(std::move(op))};
  }

  bool joined_;
  Plan plan_;
  Group all_ = Group::first(set_gpus);
  std::vector<OpId> last_;
  std::vector<int> steps_;  // [op] kernels and phases are counted alike in both plans
  int step_ = 0;
};

Phases phases_of(unsigned seed, bool joined) {
  std::mt19937 random(seed);
  Phases made(joined);
  for (int i = 0; i < 5; ++i) {
    if (i % 2 == 0) made.kernels(random);
    const auto bytes = [&] { return uneven(all_of(set_gpus), set_gpus, 2e6, 3, random); };
    made.phase(rail_sets(), Stream::ep, bytes(), i % 2 == 1);
    made.phase(rail_sets(), Stream::ep, bytes(), false);
    made.phase(node_sets(), Stream::ep_2, bytes(), i % 2 == 1);
    if (i % 3 == 0) made.phase(node_sets(), Stream::ep, bytes(), true);
  }
  return made;
}

/// By kernel or phase and GPU.
std::map<std::tuple<int, GpuId>, Interval> times_of(const Phases& made, const Timeline& timeline) {
  std::map<std::tuple<int, GpuId>, Interval> times;
  for (std::size_t op = 0; op < made.steps().size(); ++op) {
    const Group& group = made.plan().ops[op].group;
    for (std::size_t m = 0; m < group.size(); ++m) {
      times[{made.steps()[op], group[m]}] = timeline.ops[op][m];
    }
  }
  return times;
}

void expect_same_times(SimulatedBackend& backend, const Topology& topology) {
  for (unsigned seed = 0; seed < 8; ++seed) {
    const Phases joined = phases_of(seed, true), apart = phases_of(seed, false);
    const PricedPlan one(joined.plan(), topology), several(apart.plan(), topology);
    EXPECT_LT(joined.plan().ops.size(), apart.plan().ops.size());
    EXPECT_EQ(times_of(joined, backend.run(one)), times_of(apart, backend.run(several)));
  }
}

GpuModels gpus_with(Overlap overlap) {
  auto gpu = std::make_shared<GpuModel>(*test_gpus(1).front());
  gpu->overlap = overlap;
  return GpuModels(set_gpus, gpu);
}

TEST(CollectivesApart, TakeTheTimesOfExchangesOfTheirOwn) {
  const Topology topology = nodes_of_8(2);
  for (const Overlap& overlap : {Overlap{}, Overlap{1.3, 1}, Overlap{1.3, 1.2}}) {
    expect_same_times(*make_port_backend(topology, gpus_with(overlap)), topology);
    expect_same_times(*make_analytic_backend(topology, gpus_with(overlap)), topology);
  }
}

}  // namespace
}  // namespace moesim::test
