// SPDX-License-Identifier: Apache-2.0
// How published tables are read: every key, its default, and what is wrong.
#include "sim/evidence/published.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/evidence/predict.h"
#include "sim/run/simulate.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

PaperTable table_of(const std::string& text) {
  return parse_paper_table("title: x\nsource: y\n" + text, "folder/name.yaml");
}

std::string mistakes_of(const std::string& text) {
  std::string all;
  try {
    table_of(text);
  } catch (const Error& e) {
    for (const Diagnostic& d : e.diagnostics()) all += d.str() + "\n";
  }
  return all;
}

/// "key=value" of each.
std::vector<std::string> words_of(const std::vector<Override>& flags) {
  std::vector<std::string> words;
  for (const Override& flag : flags) words.push_back(flag.path + "=" + flag.value);
  return words;
}

TEST(PublishedTables, SettingsChangeWhatIsCommon) {
  const PaperTable table = table_of(R"(
common: {scenario: one, ep: 8, all_to_all: 1 MB, set: [a=1], layers: 2}
settings:
  plain: {}
  own: {scenario: two, ep: 4, all_to_all: 2 MB, set: [b=2], parallel: {tp: 2}}
policies:
  fast: {policy: dedup, ep: 2, set: [c=3]}
figures: [{setting: own, policy: fast, measure: load, published: 1.5}]
)");
  ASSERT_EQ(table.settings.size(), 2U);
  EXPECT_EQ(table.settings[0].scenario, "one");
  EXPECT_EQ(table.settings[0].all_to_all, Bytes(1'000'000));
  EXPECT_THAT(words_of(table.settings[0].flags), ElementsAre("ep=8", "set=a=1", "layers=2"));
  EXPECT_EQ(table.settings[1].name, "own");
  EXPECT_EQ(table.settings[1].scenario, "two");
  EXPECT_EQ(table.settings[1].all_to_all, Bytes(2'000'000));
  EXPECT_THAT(words_of(table.settings[1].flags),
              ElementsAre("ep=4", "set=a=1", "layers=2", "set=b=2", R"(parallel={"tp":2})"));
  ASSERT_EQ(table.variants.size(), 1U);
  EXPECT_EQ(table.variants[0].name + "/" + table.variants[0].policy, "fast/dedup");
  EXPECT_THAT(words_of(table.variants[0].flags), ElementsAre("ep=2", "set=c=3"));
  EXPECT_EQ(table.figures[0].setting, 1U);
  EXPECT_EQ(*table.figures[0].published, 1.5);
  EXPECT_EQ(table.name, "name");
  EXPECT_FALSE(table.fast || table.headlines || table.iterations || table.serving);
  EXPECT_TRUE(table.contested);
}

TEST(PublishedTables, LinesAreKept) {
  const PaperTable table = table_of(R"(fast: true
contested: false
assumed: [one, two]
misses: [three]
left_out: [d=4, e=5]
settings: {s: {}}
figures: []
)");
  EXPECT_TRUE(table.fast);
  EXPECT_FALSE(table.contested);
  EXPECT_THAT(table.assumed, ElementsAre("one", "two"));
  EXPECT_THAT(table.misses, ElementsAre("three"));
  EXPECT_THAT(words_of(table.left_out), ElementsAre("set=d=4", "set=e=5"));
  EXPECT_EQ(table.left_out[1].str(), "left_out: e=5");
}

PaperFigure figure_of(const std::string& keys) {
  const PaperTable table =
      table_of("settings: {s: {}}\nfigures: [{setting: s, policy: a, " + keys + "}]\n");
  return table.figures.at(0);
}

TEST(PublishedFigures, HaveTheirUnitsByWhatTheyAreOf) {
  const PaperFigure plain = figure_of("measure: step");
  EXPECT_EQ(plain.times, 1);
  EXPECT_FALSE(plain.published || plain.bytes || plain.spread || plain.over || plain.by_formula);
  EXPECT_EQ(plain.mark() + plain.fitted + plain.outside, "");
  const PaperFigure times = figure_of("measure: combine, times: 3, spread: 0, published: 2 ms");
  EXPECT_EQ(times.times, 3);
  EXPECT_EQ(times.spread, 0);
  EXPECT_DOUBLE_EQ(*times.published, 2e-3);
  EXPECT_TRUE(figure_of("measure: bubble, published: formula").by_formula);
  EXPECT_DOUBLE_EQ(*figure_of("measure: bubble, published: 2 s").published, 2);
  EXPECT_DOUBLE_EQ(*figure_of("measure: load, published: 1.25").published, 1.25);
  const PaperFigure range = figure_of("measure: load, published: [1.25, 1.25]");
  EXPECT_EQ(*range.published, *range.up_to);
  EXPECT_EQ(figure_of("measure: weights, over: b, published: 2").over, 1U);
  EXPECT_EQ(figure_of("measure: step, fitted: x, outside: y").mark(), "fitted");
  EXPECT_EQ(figure_of("measure: step, outside: y").mark(), "outside");
}

TEST(PublishedFigures, TheirMistakesAreSaid) {
  const auto said = [](const std::string& keys) {
    return mistakes_of("settings: {s: {}}\nfigures: [{setting: s, policy: a, " + keys + "}]\n");
  };
  const auto range = HasSubstr("'published' is a number, or of a speedup the two ends of a range");
  EXPECT_THAT(said("measure: step, published: [1, 2]"), range);
  EXPECT_THAT(said("measure: load, published: [1, 2, 3]"), range);
  EXPECT_THAT(said("measure: load, published: [1]"), range);
  EXPECT_THAT(said("measure: load, published: 0"), HasSubstr("name.yaml:4"));
  EXPECT_THAT(said("measure: step, published: formula"), HasSubstr("formula"));
  EXPECT_THAT(said("measure: step, published: 0 s"), HasSubstr("name.yaml:4"));
  EXPECT_THAT(said("measure: step, times: 0"), HasSubstr("times"));
  EXPECT_THAT(said("measure: step, spread: -1"), HasSubstr("spread"));
  for (const char* const amount : {"off_host", "activations", "weights"}) {
    EXPECT_THAT(said(std::string("measure: ") + amount + ", published: 2 s"),
                HasSubstr(std::string("'") + amount + "' needs 'over'"));
  }
  EXPECT_THAT(said("measure: step, other: 1"), HasSubstr("other"));
  EXPECT_EQ(said("measure: step"), "");
  EXPECT_THAT(mistakes_of("settings: {s: {}}\n"), HasSubstr("figures"));
  EXPECT_THAT(mistakes_of("figures: []\n"), HasSubstr("settings"));
}

TEST(PublishedFigures, OfOneNameAreSaidOnce) {
  const std::string figure = "- {setting: s, policy: a, measure: step, name: ";
  const auto said = [&](const std::vector<std::string>& names) {
    std::string text = "settings: {s: {}}\nfigures:\n";
    for (const std::string& name : names) text += figure + name + "}\n";
    return mistakes_of(text);
  };
  EXPECT_EQ(said({"n", "m"}), "");
  const std::string once = said({"n", "n", "m"});
  EXPECT_THAT(once, HasSubstr("two figures are called 'n'"));
  EXPECT_EQ(said({"n", "n", "n"}), once);
}

TEST(PublishedFigures, OrdersNeedNoSetting) {
  const PaperTable table = table_of(
      "settings: {s: {}, t: {}}\nfigures: []\n"
      "orders: [{setting: t, slower: a, faster: b, measure: layer, source: z}]\n");
  const PaperFigure& order = table.figures.at(0);
  EXPECT_EQ(order.name, "a is slower than b on t");
  EXPECT_EQ(order.setting, 1U);
  EXPECT_EQ(order.measure, Measure::layer);
  EXPECT_EQ(table.variants[order.variant].name + table.variants[*order.over].name, "ba");
  EXPECT_TRUE(order.relative() && order.says_order());
  EXPECT_TRUE(order.in_order(1.01));
  EXPECT_FALSE(order.in_order(1));
}

TEST(OwnFits, AreTakenBackWhereATableNamesThem) {
  const std::string rest =
      "settings: {s: {}}\npolicies: {v: {policy: a, set: [b=2]}}\nfigures:\n"
      "- {setting: s, policy: v, measure: step, fitted: x, outside: y}\n";
  std::vector<PaperTable> tables = {table_of("left_out: [c=3]\n" + rest), table_of(rest)};
  leave_out_own_fits(tables);
  EXPECT_THAT(words_of(tables[0].variants[0].flags), ElementsAre("set=c=3", "set=b=2"));
  EXPECT_EQ(tables[0].figures[0].mark(), "outside");
  EXPECT_THAT(words_of(tables[1].variants[0].flags), ElementsAre("set=b=2"));
  EXPECT_EQ(tables[1].figures[0].mark(), "fitted");
}

const std::string row_start =
    "- {name: a, model: m, policy: p, gpus: 8, batch: {global: 4, sequence: 16}, ";

TEST(RowKeysOf, AllThatARowSaysIsKept) {
  const PaperTable table =
      rows_table(row_start +
                     "release: 2, published: 2 s, peak_memory: 3 GiB, fits: false, note: n, "
                     "turns: {1F: 1 s, bubble: 250 ms}, turns_of_stage: 3, fitted: f, recorded: r, "
                     "scores: all, whole: true}\n" +
                     "- {name: b, like: a-2, scores: causal, whole: false, turns_of_stage: 0}\n",
                 "outside: why\n");
  const PaperFigure &a = table.figures.at(0), &b = table.figures.at(1);
  EXPECT_EQ(a.name + a.fitted + a.outside, "a-2fwhy");
  const PublishedIteration& of = *a.iteration;
  EXPECT_EQ(of.model + of.release + of.note + of.recorded, "m2nr");
  EXPECT_EQ(of.gpus, 8);
  EXPECT_EQ(of.tokens, 64);
  EXPECT_EQ(of.peak_memory, Bytes(3LL << 30));
  EXPECT_EQ(of.fits, false);
  EXPECT_EQ(of.stage, 3);
  EXPECT_TRUE(of.all_scores && of.whole);
  ASSERT_EQ(of.turns.size(), 2U);
  EXPECT_EQ(of.turns[1].part, TurnPart::bubble);
  EXPECT_EQ(of.turns[1].time, Seconds(0.25));
  EXPECT_EQ(b.fitted + b.iteration->recorded + b.iteration->release + b.iteration->note, "fr");
  EXPECT_FALSE(b.iteration->all_scores || b.iteration->whole || b.iteration->fits);
  EXPECT_EQ(b.iteration->stage, 0);
  EXPECT_FALSE(rows_table(row_start + "fits: true}\n").figures[0].iteration->stage);
}

TEST(RowKeysOf, MistakesAreSaid) {
  const auto said = [](const std::string& rows, const std::string& more = "") {
    try {
      rows_table(rows, more);
    } catch (const Error& e) {
      std::string all;
      for (const Diagnostic& d : e.diagnostics()) all += d.message + "\n";
      return all;
    }
    return std::string();
  };
  EXPECT_THAT(said(row_start + "published: -2 s}\n"), HasSubstr("published"));
  EXPECT_THAT(said(row_start + "published: -2 tokens/s}\n"), HasSubstr("published"));
  EXPECT_THAT(said(row_start + "published: 2 tokens}\n"), HasSubstr("published"));
  EXPECT_THAT(said(row_start + "turns_of_stage: -1}\n"), HasSubstr("turns_of_stage"));
  EXPECT_THAT(said(row_start + "scores: some}\n"), HasSubstr("some"));
  EXPECT_EQ(said("- {name: a, model: m, policy: p, batch: {global: 4, sequence: 16}}\n"),
            "a row needs 'gpus'\n");
  EXPECT_EQ(said("- {name: a, model: m, gpus: 8, batch: {global: 4, sequence: 16}}\n"),
            "a row needs 'policy'\n");
  EXPECT_EQ(said("- {name: a, policy: p, gpus: 8, batch: {global: 4, sequence: 16}}\n"),
            "a row needs 'model'\n");
  for (const char* const wrong : {"0", "1073741825", "8x", "-1"}) {
    EXPECT_EQ(said(std::string("- {name: a, model: m, policy: p, gpus: 8, batch: {sequence: 1, "
                               "global: ") +
                   wrong + "}}\n"),
              "a row needs 'batch.global', a whole number from 1 to 1073741824\n");
  }
  EXPECT_EQ(rows_table("- {name: a, model: m, policy: p, gpus: 8, batch: {sequence: 2, global: "
                       "1073741824}}\n")
                .figures[0]
                .iteration->tokens,
            1LL << 31);
  const std::string series = "- {name: a, model: m, policy: p, batch: {global: 4, sequence: 16}, ";
  EXPECT_THAT(said(series + "gpus: [8, 16], published: [2 s]}\n"),
              HasSubstr("1 value for 2 numbers of GPUs"));
  EXPECT_THAT(said(series + "gpus: [8, 16]}\n"), HasSubstr("published"));
  EXPECT_THAT(said(row_start + "published: 2 s}\n", "gains: [[a, a, a]]\n"),
              HasSubstr("a gain is of two rows, the slower one first"));
}

/// Changes of a row of `gpus` GPUs, and groups of experts of `ep`, on nodes of 8.
std::vector<std::string> placed(int gpus, int ep, const std::string& adapters,
                                const std::string& more = "") {
  const PaperTable table = rows_table(
      "- {name: a, gpus: " + std::to_string(gpus) + ", parallel: {ep: " + std::to_string(ep) + "}" +
          more + "}\n",
      "machines: {other: {gpus_per_node: 2}, m: {gpus_per_node: 8, adapters: " + adapters +
          ", left_out: [z=1]}}\nmachine: m\n"
          "policies: {d: {policy: q, between_nodes: {fast: 41 GB/s, slow: 9 GB/s}, merged: "
          "[sms=16, x=1]}}\ncommon: {model: x, policy: d, batch: {global: 16, sequence: 4}}\n");
  EXPECT_THAT(words_of(table.left_out), ElementsAre("set=z=1"));
  std::vector<std::string> changes;
  for (const Override& flag : table.settings.at(0).flags) {
    if (flag.path == "set") changes.push_back(flag.value);
  }
  return changes;
}

TEST(RowPlaces, FollowFromTheMachineAndItsAdapters) {
  const std::string rate = "topology.node.nics.bandwidth=";
  EXPECT_THAT(placed(8, 8, "fast"), ElementsAre("topology.nodes=1"));
  EXPECT_THAT(placed(9, 9, "fast"), ElementsAre("topology.nodes=2", rate + "41 GB/s"));
  EXPECT_THAT(placed(17, 9, "slow"), ElementsAre("topology.nodes=3", rate + "9 GB/s"));
  EXPECT_THAT(placed(16, 16, "others"), ElementsAre("topology.nodes=2"));
  EXPECT_THAT(placed(8, 8, "fast", ", pipeline: combined-1f1b"),
              ElementsAre("topology.nodes=1", "sms=16", "x=1"));
  EXPECT_THAT(placed(8, 8, "fast", ", pipeline: 1f1b"), ElementsAre("topology.nodes=1"));
  EXPECT_THAT(placed(8, 8, "fast", ", pipeline: none-such"), ElementsAre("topology.nodes=1"));
}

PredictedTable predicted_on(const std::string& common, const std::string& figures) {
  return predict({table_of("common: {transport: ideal, topology: h800-rail, set: "
                           "[topology.nodes=1], " +
                           common + "}\nsettings: {s: {}}\nfigures:\n" + figures)},
                 {.workers = 1})
      .at(0);
}

std::string figure_line(const std::string& measure, const std::string& more = "") {
  return "- {setting: s, policy: alltoall, measure: " + measure + more + "}\n";
}

// An even exchange and its gradients: four of one size.
TEST(PredictedMeasures, ExchangesAreThoseOfBothPasses) {
  const PredictedTable p =
      predicted_on("all_to_all: 160 MB, ep: 8",
                   figure_line("dispatch") + figure_line("combine") + figure_line("exchanges") +
                       figure_line("dispatch", ", times: 3, name: thrice") + figure_line("step") +
                       figure_line("layer") + figure_line("load"));
  EXPECT_NEAR(p[0].value, 13e-6 + 140e6 / 160e9, 1e-8);
  EXPECT_NEAR(p[1].value, p[0].value, 1e-3 * p[0].value);
  EXPECT_NEAR(p[2].value, 2 * (p[0].value + p[1].value), 1e-12);
  EXPECT_DOUBLE_EQ(p[3].value, 3 * p[0].value);
  EXPECT_GT(p[4].value, p[5].value) << "a layer has no gate";
  EXPECT_GT(p[5].value, p[2].value);
  EXPECT_EQ(p[6].value, 1);
  for (const PredictedFigure& figure : p) EXPECT_NE(figure.inputs, "");
}

// Two steps on two nodes: times are those of the mean step, bytes and loads of both.
TEST(PredictedMeasures, OfStepsAreTheirMeans) {
  const std::vector<Override> flags = {{"topology", "h100-rail", ""},
                                       {"set", "topology.nodes=2", ""},
                                       {"model", "tiny-moe", ""},
                                       {"synth", "{tokens: 4096, steps: 2, skew: 1}", ""},
                                       {"ep", "16", ""}};
  PaperTable table;
  table.settings = {{"s", "", flags, {}}};
  table.variants = {{"a", "alltoall", {}}, {"m", "megatron", {}}};
  for (const Measure measure : {Measure::step, Measure::communication, Measure::exposed,
                                Measure::load, Measure::off_host}) {
    PaperFigure figure;
    figure.measure = measure;
    table.figures.push_back(figure);
  }
  table.figures[4].over = 1;
  const PredictedTable p = predict({table}, {.workers = 1}).at(0);
  const auto metrics_of = [&](const std::string& policy) {
    std::vector<Override> all = flags;
    all.push_back({"policy", policy, ""});
    const Scenario scenario = read_scenario("", all);
    return simulate(scenario, open_inputs(scenario), {}).cases.at(0).metrics;
  };
  const RunMetrics a = metrics_of("alltoall"), m = metrics_of("megatron");
  ASSERT_EQ(a.steps.size(), 2U);
  EXPECT_DOUBLE_EQ(p[0].value, (a.steps[0].value + a.steps[1].value) / 2);
  EXPECT_DOUBLE_EQ(p[1].value, a.total.communication.value / 2);
  EXPECT_DOUBLE_EQ(p[2].value, a.total.exposed.value / 2);
  EXPECT_EQ(p[3].value, a.total.load_max_over_mean.value());
  EXPECT_GT(p[3].value, 1);
  EXPECT_DOUBLE_EQ(p[4].value, static_cast<double>(a.total.traffic.other_host.value) /
                                   static_cast<double>(m.total.traffic.other_host.value));
}

TEST(PredictedMeasures, OfStepsAndIterationsAreOfTwoSettings) {
  EXPECT_THROW(predicted_on("model: tiny-moe, synth: {tokens: 64}, ep: 8",
                            figure_line("step") + figure_line("iteration")),
               Error);
}

}  // namespace
}  // namespace moesim
