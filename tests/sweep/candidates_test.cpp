// SPDX-License-Identifier: Apache-2.0
// Candidates of an advice by themselves, and the advice about two of them.
#include "sim/sweep/candidates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <sstream>

#include "sim/sweep/advice_text.h"
#include "sim/sweep/break_even.h"
#include "sim/sweep/data_sheets.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(CandidateFigures, OfStepsComeBeforeThoseOfIterations) {
  SweepRow step{0,
                sweep_ok,
                "",
                {{"step_s", real_value(2)},
                 {"iteration_s", real_value(3)},
                 {"peak_memory_bytes", integer_value(7)},
                 {"peak_memory.bytes", integer_value(8)},
                 {"bound_by", text_value("tokens 51 %")},
                 {"critical_path.bound_by_s.nic", real_value(1)}}};
  EXPECT_EQ(time_in(step), 2);
  EXPECT_EQ(memory_in(step), 7);
  EXPECT_EQ(binding_in(step), "tokens 51 %");
  EXPECT_EQ(figure_number(step, "peak_memory_bytes"), 7);
  EXPECT_TRUE(std::isnan(figure_number(step, "none")));
  EXPECT_EQ(text_in(step, "none"), "");
}

TEST(CandidateFigures, OfIterationsNameWhatBindsTheLongest) {
  const SweepRow iteration{0,
                           sweep_ok,
                           "",
                           {{"iteration_s", real_value(3)},
                            {"peak_memory.bytes", integer_value(8)},
                            {"critical_path.bound_by_s.nic", real_value(1)},
                            {"critical_path.bound_by_s.sm", real_value(1.5)},
                            {"critical_path.bound_by_s.host", real_value(1.5)},
                            {"critical_path.bound_by_s.pcie", real_value(0.5)},
                            {"other_s", real_value(9)}}};
  EXPECT_EQ(time_in(iteration), 3);
  EXPECT_EQ(memory_in(iteration), 8);
  EXPECT_EQ(binding_in(iteration), "sm") << "the first of equal ones";
  EXPECT_EQ(binding_in({}), "");
}

class AdviceTest : public testing::Test {
 protected:
  /// 16 GPUs, one layer of a small trace.
  static SweepGrid grid(const std::string& more) {
    return SweepGrid::parse(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nset: "
        "[topology.nodes=2]\nsteps: 0\nlayers: [1]\n" +
            more,
        "advice.yaml", {});
  }
  static AdviseOptions options(int finals = 0) {
    AdviseOptions options;
    options.version = "v";
    options.finals = finals;
    options.most_part = 1;
    return options;
  }
  static std::string text(const SweepGrid& grid, const AdviseOptions& options) {
    std::string all;
    const Printout printout = advise(grid, options);
    for (const auto& part : printout.parts()) {
      if (const auto* line = std::get_if<std::string>(&part)) all += *line;
    }
    return all;
  }
  static Table table(const SweepGrid& grid, const AdviseOptions& options) {
    const Printout printout = advise(grid, options);
    for (const auto& part : printout.parts()) {
      if (const auto* found = std::get_if<Table>(&part)) return *found;
    }
    return Table("none", 0, {});
  }
  static std::string error(const SweepGrid& grid, const AdviseOptions& options) {
    return error_of([&] { advise(grid, options); });
  }
};

TEST_F(AdviceTest, RowsAreRankedByTheFinestTimeThatTheyHave) {
  const SweepGrid two = grid("policy: [alltoall, dedup]\n");
  const Table port = table(two, options());
  ASSERT_EQ(port.rows.size(), 2U);
  EXPECT_LE(*port.rows[0][3].value, *port.rows[1][3].value);
  EXPECT_EQ(port.rows[0][4].text, "-") << "nothing was simulated at flow";
  EXPECT_EQ(port.columns[0].name, "policy");
  EXPECT_FALSE(port.columns[1].telling) << "nobody is lossy";
  EXPECT_FALSE(port.columns[2].telling) << "nobody goes by a data sheet";
  EXPECT_EQ(port.columns.back().name, "bound by");
  const Table flow = table(two, options(2));
  EXPECT_LE(*flow.rows[0][4].value, *flow.rows[1][4].value);
  const Table one = table(two, options(1));
  EXPECT_EQ(one.rows[0][4].text, "-") << "one has nobody to be compared with";
  const SweepGrid apart =
      grid("policy: alltoall\naxes: {topology.node.nics.bandwidth: [50 GB/s, 5 GB/s]}\n");
  EXPECT_EQ(table(apart, options(2)).rows[0][4].text, "-") << "flow would not turn them";
}

TEST_F(AdviceTest, SaysHowManyWereSimulatedAndWhatTheNextNeeds) {
  const SweepGrid two = grid("policy: [alltoall, dedup]\n");
  const std::string all = text(two, options(2));
  EXPECT_THAT(all, HasSubstr("# 2 candidates: 2 simulated at analytic, 0 cannot be; 2 at port, 2 "
                             "at flow\n# 100 % sure that no other one is faster at port; 0 of the "
                             "others are slower for certain, by their bounds\n"));
  EXPECT_THAT(all, HasSubstr("# the next takes "));
  AdviseOptions first = options();
  first.shown = 1;
  EXPECT_THAT(text(two, first), Not(HasSubstr("the next takes")));
  EXPECT_EQ(table(two, first).rows.size(), 1U);
}

TEST_F(AdviceTest, CountsThoseThatAreAsFast) {
  // A copy of the policy under another name takes the same time.
  const std::string all = text(
      grid("policy: dedup\naxes: {topology.node.nvlink.latency: [0.5 us, 500 ns]}\n"), options());
  EXPECT_THAT(
      all, AllOf(HasSubstr("# as fast as the first: 1 more\n"), Not(HasSubstr("the next takes"))));
  EXPECT_THAT(text(grid("policy: [alltoall, dedup]\n"), options()),
              Not(HasSubstr("as fast as the first")));
}

TEST_F(AdviceTest, SaysWhyOthersCannotBe) {
  const SweepGrid degrees = grid("policy: dedup\naxes: {ep: [16, 8, 32, 64]}\n");
  const std::string all = text(degrees, options());
  EXPECT_THAT(all, HasSubstr("# 4 candidates: 2 simulated at analytic, 2 cannot be; 2 at port, 0 "
                             "at flow\n"));
  EXPECT_THAT(all, HasSubstr("#   2 cannot be, such as: "));
  EXPECT_THAT(all, HasSubstr("'ep' is 32: it must divide 16 GPUs"));
  EXPECT_EQ(error(grid("policy: dedup\naxes: {ep: [32, 64]}\n"), options()),
            "error: 2 cannot be, such as: 'ep' is 32: it must divide 16 GPUs\nhint: ep 16 fits\n"
            "error: no candidate could be simulated\n");
}

TEST_F(AdviceTest, DoesNotProposeWhatTheClusterCannotRun) {
  const std::string why =
      "nvlink-one-sided cannot run so: one-sided NVLink joins the GPUs of one host, an EP group "
      "has 2 hosts";
  const SweepGrid both = grid("policy: [alltoall, nvlink-one-sided]\n");
  EXPECT_THAT(text(both, options()),
              AllOf(HasSubstr("# 2 candidates: 1 simulated at analytic, 1 cannot be; 1 at port"),
                    HasSubstr("#   1 cannot be: " + why + "\n")));
  EXPECT_EQ(table(both, options()).rows.size(), 1U);
  EXPECT_EQ(error(grid("policy: nvlink-one-sided\n"), options()),
            "error: " + why + "\nerror: no candidate could be simulated\n");
}

SweepRow carried_by(const std::string& whose_rates) {
  return {0, sweep_ok, "", {{"token_rates.nic", text_value(whose_rates)}}};
}

TEST(DataSheets, CountWhereOthersHaveRates) {
  const SweepRow sheet = carried_by("data sheet"), measured = carried_by("transport"), inside;
  const std::map<std::int64_t, SweepRow> rows = {{3, sheet}, {4, measured}, {5, inside}};
  const DataSheets all(rows, {3, 4, 5});
  EXPECT_TRUE(all.any());
  EXPECT_EQ(all.links(sheet), "nic");
  EXPECT_EQ(all.links(measured), "");
  EXPECT_EQ(all.links(inside), "");
  const DataSheets alike(rows, {3, 5});
  EXPECT_FALSE(alike.any());
  EXPECT_EQ(alike.links(sheet), "") << "nobody has better ones";
}

/// Over EFA NCCL's rates were measured, those of NVIDIA's Hybrid-EP were not.
TEST_F(AdviceTest, PutsDataSheetsBehindMeasurements) {
  const SweepGrid both = SweepGrid::parse(
      "topology: h100-efa\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nset: [topology.nodes=2]\n"
      "steps: 0\nlayers: [1]\npolicy: [hybrid-ep, megatron]\n",
      "efa.yaml", {});
  const Table ranked = table(both, options(2));
  ASSERT_EQ(ranked.rows.size(), 2U);
  EXPECT_EQ(ranked.rows[0][0].text, "megatron");
  EXPECT_EQ(ranked.columns[2].name, "data sheet");
  EXPECT_EQ(ranked.rows[1][2].text, "nic");
  ASSERT_LT(*ranked.rows[1][3].value, *ranked.rows[0][3].value) << "by its data sheet it is faster";
  const std::string all = text(both, options(2));
  EXPECT_THAT(all, AllOf(HasSubstr("sure that no other measured one is faster at port"),
                         HasSubstr("# nic by data sheet: hybrid-ep takes "),
                         Not(HasSubstr("the next takes"))));
}

TEST_F(AdviceTest, SimulatesNobodyAfterTheTimeIsOver) {
  AdviseOptions none = options();
  none.budget = 0;
  EXPECT_THAT(error(grid("policy: [alltoall, dedup]\n"), none),
              HasSubstr("error: no candidate could be simulated\n"));
}

TEST_F(AdviceTest, HeadersNameWhatOnlyTheFirstHas) {
  const std::string header =
      advice_header(grid("policy: [alltoall, dedup]\naxes: {ep: [8, 16]}\n"), "v");
  EXPECT_THAT(header, testing::StartsWith("# moesim v\n"));
  EXPECT_THAT(header, HasSubstr("# the above with ep 8: of the first candidate\n"));
  EXPECT_THAT(header, Not(HasSubstr("policy alltoall")));
  EXPECT_THAT(advice_header(grid("policy: [alltoall, dedup]\n"), "v"),
              Not(HasSubstr("of the first candidate")));
  EXPECT_THAT(advice_header(grid("axes: {ep: [8, 16], topology.nodes: [2]}\npolicy: dedup\n"), "v"),
              HasSubstr("# the above with ep 8, topology.nodes 2: of the first candidate\n"));
  EXPECT_EQ(advice_header(grid("policy: dedup\nep: 32\n"), "v"), "");
}

TEST_F(AdviceTest, HeadersNameAllPoliciesAndClusters) {
  const std::string clusters = "axes: {topology: [h100-rail, h200-rail], ep: [8]}\n",
                    both = "# transport nccl-p2p, deepep-normal on h100-rail";
  const auto header = [](const std::string& more) { return advice_header(grid(more), "v"); };
  EXPECT_THAT(header("policy: [alltoall, deepep-normal]\n"), HasSubstr(both));
  EXPECT_THAT(header("axes: {ep: [8, 16], policy: [alltoall, deepep-normal]}\n"), HasSubstr(both));
  EXPECT_THAT(header("policy: alltoall\n" + clusters),
              AllOf(HasSubstr("\n# h100-rail: 16 GPUs"), HasSubstr("\n# h200-rail: 16 GPUs")));
  // What has a name of its own, or changes more, is told of the first.
  EXPECT_THAT(header("axes: {policy: [{name: a, policy: alltoall}, {policy: deepep-normal}]}\n"),
              AllOf(HasSubstr("# transport nccl-p2p on h100-rail"), Not(HasSubstr(both))));
  const std::string many =
      "axes: {cluster: [{topology.nodes: 2, ep: 16}], policy: [alltoall, deepep-normal]}\n";
  EXPECT_THAT(header(many), HasSubstr(both));
}

TEST_F(AdviceTest, SimulatesNoMoreAtPortThanAskedFor) {
  const SweepGrid four = grid("policy: [alltoall, dedup, hiermoe-hd, deepep-normal]\n");
  AdviseOptions half = options();
  half.most_part = 0.5;
  half.shown = 2;
  EXPECT_THAT(text(four, half), HasSubstr("0 cannot be; 2 at port, 0 at flow\n"));
  half.most_part.reset();
  EXPECT_THAT(text(four, half), HasSubstr("0 cannot be; 4 at port, 0 at flow\n")) << "12 at least";
}

TEST_F(AdviceTest, TellsReasonsThatDifferInNumbersOnce) {
  const auto reasons = [](const std::string& points) {
    std::string told;
    std::istringstream lines(
        text(grid("policy: dedup\naxes: {x: [{ep: 16}, " + points + "]}\n"), options()));
    for (std::string line; std::getline(lines, line);) {
      const auto end = line.find(": it must");
      if (line.starts_with("#   ")) told += line.substr(4, end - 4) + "\n";
    }
    return told;
  };
  EXPECT_EQ(reasons("{ep: 32}, {ep: 64}, {ep: 64, repeat: 2}, {ep: 128}"),
            "4 cannot be, such as: 'ep' is 32\n");
  EXPECT_EQ(reasons("{ep: 64}, {ep: 64, repeat: 2}"), "2 cannot be: 'ep' is 64\n");
}

// A host's links are fast, or wide with a long latency, as in the tests of break_even().
TEST_F(AdviceTest, NamesTheResourcesThatTheNextNeeds) {
  const SweepGrid hosts = grid(
      "policy: alltoall\ntransport: ideal\naxes:\n  nics:\n"
      "  - {topology.node.nics.bandwidth: 50 GB/s, topology.node.nics.latency: 1 us}\n"
      "  - {topology.node.nics.bandwidth: 100 GB/s, topology.node.nics.latency: 15 us}\n");
  const auto found = break_even(hosts.unit(0), hosts.unit(1), 1, [] { return false; });
  ASSERT_FALSE(found.empty());
  std::string with;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, found.size()); ++i) {
    with += fmt::format("{}{} {:.2f} times", i > 0 ? ", or with " : "", found[i].resource,
                        found[i].factor);
  }
  EXPECT_THAT(text(hosts, options()),
              HasSubstr(" longer; at port it would win with " + with + " as now\n"));
}

TEST_F(AdviceTest, HintsAreThoseOfTheInputs) {
  EXPECT_EQ(hint_about(grid("policy: dedup\n"), 0), "");
  EXPECT_EQ(hint_about(grid("policy: dedup\naxes: {ep: [16, 32]}\n"), 1), "ep 16 fits");
}

TEST_F(AdviceTest, EdgesAreToldOfThreeNumbersOfOneUnit) {
  const auto edges = [](const std::string& values, std::int64_t candidate) {
    return edges_of_ranges(
        grid("policy: dedup\naxes: {topology.node.nics.bandwidth: [" + values + "]}\n"), candidate);
  };
  const std::string three = "10 GB/s, 50 GB/s, 20 GB/s";
  EXPECT_EQ(edges(three, 0),
            "# the best topology.node.nics.bandwidth is the least that was tried, 10 GB/s: the "
            "edge of the range\n");
  EXPECT_EQ(edges(three, 1),
            "# the best topology.node.nics.bandwidth is the largest that was tried, 50 GB/s: the "
            "edge of the range\n");
  EXPECT_EQ(edges(three, 2), "");
  EXPECT_EQ(edges("10 GB/s, 50 GB/s", 0), "");
  EXPECT_EQ(edges("10 GB/s, 50 GB/s, 400 Gbit/s", 0), "");
}

TEST_F(AdviceTest, TellsDegreesThatPoliciesHaveByThemselves) {
  const std::string own = "set: [topology.nodes=2, scenario:dedup.ep=8]\n";
  const auto of = [&](const std::string& more) {
    return text(SweepGrid::parse("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
                                 "steps: 0\nlayers: [1]\n" +
                                     more,
                                 "own.yaml", {}),
                options());
  };
  const std::string both = "policy: [alltoall, dedup]\n";
  EXPECT_THAT(of(own + both),
              testing::ContainsRegex("\n# ep 8: [^,]*dedup[^,]*\n# ep 16: [^,]*alltoall[^,]*\n$"));
  EXPECT_THAT(of("set: [topology.nodes=2]\n" + both), Not(HasSubstr("\n# ep ")));
  EXPECT_THAT(of("set: [topology.nodes=2]\naxes: {ep: [8, 16]}\n" + both),
              Not(HasSubstr("\n# ep ")))
      << "the table says it";
}

TEST_F(AdviceTest, TellsTheEdgeOfTheBest) {
  EXPECT_THAT(text(grid("policy: alltoall\ntransport: ideal\naxes: "
                        "{topology.node.nics.bandwidth: [10 GB/s, 20 GB/s, 50 GB/s]}\n"),
                   options()),
              HasSubstr("# the best topology.node.nics.bandwidth is the largest that was tried, 50 "
                        "GB/s: the edge of the range\n"));
}

TEST_F(AdviceTest, VisitsGridsFromAllSides) {
  const auto order = [](const std::string& scenario) {
    return spread_order(SweepGrid::parse(scenario, "order.yaml", {}));
  };
  const std::string bandwidths =
      "axes: {topology.node.nics.bandwidth: [1 GB/s, 2 GB/s, 3 GB/s, 4 GB/s, 5 GB/s, 6 GB/s], ep: "
      "[8, 16, 32, 64]}\n";
  const std::string step = "topology: h100-rail\nmodel: gpt-oss-20b\npolicy: dedup\n";
  const auto iterations =
      order(step +
            "routing: balanced\nbatch: {global: 8, sequence: 512}\naxes: {parallel.tp: [1, "
            "2, 4, 8], parallel.ep: [1, 2, 4, 8]}\n");
  EXPECT_EQ(std::set(iterations.begin(), iterations.end()).size(), 16U);
  std::set<std::int64_t> quarters;  // the first four candidates are not all of one tp
  for (std::size_t i = 0; i < 4; ++i) quarters.insert(iterations[i] / 4);
  EXPECT_GT(quarters.size(), 1U);
  const auto steps = order(step + "trace: tiny-moe-train\n" + bandwidths);
  EXPECT_EQ(std::set(steps.begin(), steps.end()).size(), 24U);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i] % 8, static_cast<std::int64_t>(i % 8)) << "neighbours stay together";
  }
}

TEST_F(AdviceTest, RanksByAnalyticIfTheTimeIsTooShortForMore) {
  AdviseOptions late = options();
  const SweepGrid one = grid("policy: alltoall\n");
  late.most_part = 0;  // none at `port`, as if the time were over
  const Table rough = table(one, late);
  ASSERT_EQ(rough.rows.size(), 1U);
  EXPECT_EQ(rough.rows[0][2].text, "-") << "no time at port";
  EXPECT_GT(*rough.rows[0][4].value, 0);
  EXPECT_THAT(text(one, late), HasSubstr("\n# none was simulated at port: the times are rough\n"));
}

TEST_F(AdviceTest, StateThatDoesNotFitIsFoundWithoutAPlan) {
  // Of 235 billion parameters on every GPU; a plan of 131072 tokens would take minutes.
  const SweepGrid iteration = SweepGrid::parse(
      "topology: h200-rail\nmodel: qwen3-235b-a22b\npolicy: alltoall\nrouting: balanced\n"
      "parallel: {ep: 1}\nbatch: {global: 512, sequence: 4096}\nset: [topology.nodes=16]\n",
      "state.yaml", {});
  const AdviseOptions asked = options();
  Candidates candidates(iteration, Fidelity::analytic, asked);
  candidates.run({0});
  const SweepRow& row = candidates.rows().at(0);
  EXPECT_EQ(row.state, sweep_unsuitable);
  EXPECT_THAT(row.reason, HasSubstr("needs at least "));
  EXPECT_FALSE(text_in(row, "model_xxh3").empty()) << "it is stale if the model changes";
}

TEST_F(AdviceTest, IterationsThatDoNotFitAreNone) {
  const auto state = [](const std::string& more) {
    const SweepGrid iteration = SweepGrid::parse(
        "topology: h100-rail\nmodel: gpt-oss-20b\npolicy: alltoall\nrouting: balanced\nparallel: "
        "{ep: 8}\nbatch: {global: 8, sequence: 512}\nset: [topology.nodes=1, model.layers=2, "
        "model.moe_layers.count=2, gpu.memory=24 GB]\n" +
            more,
        "iteration.yaml", {});
    const AdviseOptions asked = options();
    Candidates candidates(iteration, Fidelity::analytic, asked);
    candidates.run({0});
    return candidates.rows().at(0);
  };
  const SweepRow full = state("");
  EXPECT_EQ(full.state, sweep_unsuitable);
  EXPECT_THAT(full.reason, HasSubstr("needs 14.28 GB on GPU 0"));
  const SweepRow ignored = state("memory: ignore\n");
  EXPECT_EQ(ignored.state, sweep_ok);
  EXPECT_GT(time_in(ignored), 0);
}

}  // namespace
}  // namespace moesim
