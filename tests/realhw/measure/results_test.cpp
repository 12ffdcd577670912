// SPDX-License-Identifier: Apache-2.0
// Tables and files of measurements that are written by hand.
#include "realhw/measure/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/plan/fixtures.h"
#include "tests/realhw/measure/two_gpus.h"

namespace moesim {
namespace {

using test::exchange;
using test::kernel;
using testing::ElementsAre;

/// A kernel of GPU 0, then an exchange of both, which GPU 1 joins at once.
Plan kernel_and_exchange() {
  Plan plan{"plan", 2, {}};
  plan.add(kernel("fc1", 0));
  plan.add(exchange("dispatch-alltoall", {0, 1}, test::matrix(2, 8, {{{0, 1, 1}}}), {0}));
  return plan;
}

/// The kernel takes `compute`; the exchange 1 s from then on.
Timeline timeline(double compute) {
  Timeline t;
  const Seconds joined(compute), end(compute + 1);
  t.ops.add_row({{Seconds(0), joined}});
  t.ops.add_row({{joined, end}, {Seconds(0), end}});
  t.makespan = end;
  return t;
}

Measured measured(const std::vector<std::vector<double>>& steps) {
  Measured m;
  m.policy = "alltoall";
  for (const auto& repeats : steps) {
    MeasuredStep step;
    for (const double compute : repeats) step.repeats.push_back(timeline(compute));
    add_measured(m, kernel_and_exchange(), step, two_gpus());
  }
  return m;
}

TEST(HardwareResults, ReportTheMedianRepeat) {
  const Measured m = measured({{5, 2, 3}});
  ASSERT_EQ(m.steps.size(), 1U);
  EXPECT_THAT(m.steps[0].repeats, ElementsAre(Seconds(6), Seconds(3), Seconds(4)));
  EXPECT_EQ(m.steps[0].plan, hash_of_plan(kernel_and_exchange()));
  EXPECT_THAT(m.metrics.steps, ElementsAre(Seconds(4)));
  // Means over both GPUs: 3 s of one, 1 s of each; GPU 1 waits for 5, 2 and 3 s.
  ASSERT_EQ(m.steps[0].ops.kinds.size(), 2U);
  for (const auto& [kind, time] : m.steps[0].ops.kinds) {
    EXPECT_DOUBLE_EQ(time.value, kind.name == "fc1" ? 1.5 : 1) << kind.name;
  }
  EXPECT_DOUBLE_EQ(m.steps[0].ops.waiting.value, (5 + 2 + 3) / 3.0 / 2);
}

TEST(HardwareResults, TableHasMeansOverSteps) {
  Measured m = measured({{5, 2, 3}, {1, 1, 7}});
  m.compared.wrong_outputs = 4;
  Measured no;
  no.policy = "elsewhere";
  no.unsuitable = "too large";
  // step: 4 s and 2 s; least 3 and 2; most 6 and 8; compute 1.5 and 0.5; exchange: 1 s, and
  // the waiting of GPU 1.
  EXPECT_EQ(hardware_table({m, no}),
            "policy     step  least  most  compute  comm  params  exposed  #wrong\n"
            "alltoall    3 s  2.5 s   7 s      1 s   2 s    0 ns      2 s       4\n"
            "elsewhere     -      -     -        -     -       -        -       -\n");
}

TEST(HardwareResults, TableHasWhatWasLostPerStep) {
  Measured m = measured({{1}, {1}}), whole = m, no;
  no.unsuitable = "too large";
  const auto columns = [&](std::int64_t dropped, std::int64_t replaced) {
    m.metrics.loss.dropped = dropped;
    m.metrics.loss.replaced = replaced;
    std::vector<std::string> ends;
    std::istringstream lines(hardware_table({m, whole, no}));
    for (std::string line; std::getline(lines, line);) ends.push_back(line.substr(62));
    return ends;
  };
  EXPECT_THAT(columns(0, 0), ElementsAre("#wrong", "     0", "     0", "     -"));
  const std::string titles = "#wrong  dropped choices  replaced choices";
  const std::string nothing = "                0                 0";
  EXPECT_THAT(columns(1, 0),
              ElementsAre(titles, "     0" + nothing, "     0" + nothing, "     -" + nothing));
  EXPECT_THAT(columns(0, 1)[0], titles);
  EXPECT_THAT(columns(14, 6)[1], "     0                7                 3");
}

TEST(HardwareResults, OpsOfAllPoliciesStandInOneTable) {
  Measured m = measured({{5, 2, 3}, {1, 1, 7}});
  Measured other;
  other.policy = "other";
  other.steps.resize(1);
  other.steps[0].ops.kinds[{"fc2", Stage::experts, Stream::compute}] = Seconds(2);
  other.steps[0].ops.kinds[{"fc2", Stage::gather, Stream::param}] = Seconds(3);
  // The waiting of GPU 1: 10 / 3 s and 3 s.
  EXPECT_EQ(op_table({m, other}),
            "op                 alltoall  other\n"
            "dispatch-alltoall       1 s      -\n"
            "fc1                     1 s      -\n"
            "fc2                       -    2 s\n"
            "fc2 (params)              -    3 s\n"
            "waiting             1.583 s   0 ns\n");
}

StepsOrigin origin() {
  StepsOrigin o;
  o.scenario = R"({"seed": 3})";
  o.trace = {"t.trace", "11"};
  o.model = {"m.yaml", "22"};
  o.topology = {"c.yaml", "33"};
  o.model_name = "tiny";
  o.hidden = 64;
  o.expert_ffn = 32;
  o.layers = 1;
  o.steps = 2;
  o.tokens_per_rank = 16;
  return o;
}

const HardwareJob hardware_job{"mpi", "Open MPI", "mpirun", "2026-01-02", 2, 1, 1, 5};

TEST(HardwareResults, HeaderSaysWhatWasMeasured) {
  StepsOrigin o = origin();
  EXPECT_EQ(hardware_header(hardware_job, o, two_gpus()),
            "# moesim-hw, Open MPI, 2 ranks on 1 host, for test of 2 GPUs\n"
            "# trace t.trace, model tiny: hidden 64, expert ffn 32, 1 layer, 2 steps of 16 tokens "
            "per rank\n"
            "# measured; forward and backward; step: median of 5 repeats after 1, mean over steps; "
            "ops: of the median\n");
  o.backward = false;
  EXPECT_THAT(hardware_header(hardware_job, o, two_gpus()),
              testing::HasSubstr("measured; forward only;"));
  o.iteration = true;
  EXPECT_THAT(hardware_header(hardware_job, o, two_gpus()),
              testing::AllOf(testing::HasSubstr("2 iterations of"),
                             testing::HasSubstr("measured; forward, backward and update;")));
}

TEST(HardwareResults, FileIsReadBack) {
  Measured m = measured({{5, 2, 3}, {1, 1, 7}});
  m.compared = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  Measured no;
  no.policy = "elsewhere";
  no.unsuitable = "too large";
  const std::string text = hardware_json(hardware_job, origin(), two_gpus(), {m, no});
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(text, nlohmann::ordered_json::parse(text).dump(1) + "\n");
  EXPECT_EQ(json["trace"], (nlohmann::json{{"name", "t.trace"}, {"xxh3", "11"}}));
  EXPECT_EQ(json["backend"], "mpi");
  EXPECT_EQ(json["launcher"], "mpirun");
  const auto& first = json["cases"][0];
  EXPECT_EQ(first["fidelity"], "mpi");
  EXPECT_EQ(first["compared"], (nlohmann::json{{"outputs", 1},
                                               {"wrong_outputs", 2},
                                               {"input_gradients", 3},
                                               {"wrong_input_gradients", 4},
                                               {"weight_gradients", 5},
                                               {"wrong_weight_gradients", 6},
                                               {"wrong_bytes", 7},
                                               {"weights", 8},
                                               {"wrong_weights", 9}}));
  EXPECT_EQ(first["measured_steps"][0]["ops"].size(), 2U);
  EXPECT_EQ(json["cases"][1]["unsuitable"], "too large");

  const HardwareResult read = parse_hardware_result(text, "r.json");
  EXPECT_EQ(read.description, "Open MPI");
  EXPECT_EQ(read.date, "2026-01-02");
  EXPECT_EQ(std::tuple(read.ranks, read.hosts, read.warmup, read.repeats), std::tuple(2, 1, 1, 5));
  ASSERT_EQ(read.cases.size(), 2U);
  EXPECT_EQ(read.cases[0].wrong, 2 + 4 + 6 + 7 + 9);
  ASSERT_EQ(read.cases[0].steps.size(), 2U);
  EXPECT_THAT(read.cases[0].steps[1].repeats, ElementsAre(Seconds(2), Seconds(2), Seconds(8)));
  EXPECT_DOUBLE_EQ(read.cases[0].steps[1].ops.waiting.value, 1.5);
}

}  // namespace
}  // namespace moesim
