// SPDX-License-Identifier: Apache-2.0
// Rows of serving engines: cells that are absent or wrong, tables of rules, and reports word for
// word.
#include "sim/evidence/engine_report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The only row of a file of these columns and cells.
EngineRow only_row_of(const std::string& columns, const std::string& cells) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/rows.csv", columns + "\n" + cells + "\n");
  return read_engine_rows(folder.path() + "/rows.csv").at(0);
}

const std::string few_columns =
    "layout_suspect,id,silicon_data_source,backend,backend_version,model_path,system,precision,"
    "mode,isl,osl,";
const std::string one_pool =
    few_columns +
    "tp_size,attention_dp_size,moe_tp_size,moe_ep_size,silicon_ttft_ms,silicon_tpot_ms";
const std::string two_pools =
    few_columns +
    "prefill_num_workers,prefill_tp_size,prefill_attention_dp_size,prefill_moe_tp_size,"
    "prefill_moe_ep_size,decode_num_workers,decode_tp_size,decode_attention_dp_size,"
    "decode_moe_tp_size,decode_moe_ep_size,silicon_ttft_ms,silicon_tpot_ms";
const std::string about = ",r,silicon_concurrency=6,sglang,0.5,org/M,b200,fp8,";

TEST(EngineCells, AbsentOnesHaveDefaults) {
  const EngineRow row = only_row_of(one_pool, about + "agg,,,2,1,,2,500,20");
  EXPECT_EQ(row.id + row.backend + row.version + row.model + row.system + row.precision,
            "rsglang0.5org/Mb200fp8");
  EXPECT_EQ(std::pair(row.input, row.output), std::pair(0L, 0L));
  EXPECT_EQ(row.prompts, (EngineDegrees{2, 1, 1, 2}));
  EXPECT_EQ(row.unstated, "");
  EXPECT_EQ(row.gpus(), 2);
  const EngineRow apart = only_row_of(two_pools, about + "disagg,1,1,,8,1,1,8,,4,1,1,4,500,20");
  EXPECT_EQ(apart.unstated, "how many workers there are");
  EXPECT_EQ(std::pair(apart.prompt_instances, apart.decode_instances), std::pair(1, 1));
  EXPECT_EQ(apart.gpus(), 8 + 4);
}

TEST(EngineCells, WhatARowLeavesOpenIsSaid) {
  const auto open = [](const std::string& columns, const std::string& cells) {
    return only_row_of(columns, cells).unstated;
  };
  EXPECT_EQ(open(one_pool, ",r,a note,b,0,m,s,p,agg,1,1,2,1,1,2,5,2"), "its concurrency");
  EXPECT_EQ(open(one_pool, about + "agg,1,1,2,,1,2,5,2"), "its attention DP");
  EXPECT_EQ(open(one_pool, about + "agg,1,1,2,1,2,2,5,2"), "degrees that make a layout");
  EXPECT_EQ(open(two_pools, about + "disagg,1,1,1,8,1,1,8,,4,1,1,4,5,2"),
            "how many workers there are");
  EXPECT_EQ(open(two_pools, about + "disagg,1,1,1,8,1,1,8,1,4,1,1,2,5,2"),
            "degrees that make a layout");
  EXPECT_EQ(open(two_pools, about + "disagg,1,1,1,8,1,1,8,1,4,1,1,4,5,2"), "");
}

TEST(EngineCells, WhatCannotBeReadIsSaidWithItsLine) {
  const auto said = [](const std::string& text) {
    const TemporaryFolder folder;
    write_file(folder.path() + "/rows.csv", text);
    try {
      read_engine_rows(folder.path() + "/rows.csv");
    } catch (const Error& e) {
      return fmt::format("{}: {}", e.diagnostics().front().line, e.diagnostics().front().message);
    }
    return std::string();
  };
  EXPECT_EQ(said(""), "0: has no line");
  EXPECT_EQ(said("id\n1\n"), "1: no column 'layout_suspect'");
  EXPECT_EQ(said("layout_suspect,id\n1,a\n0\n"), "3: 1 cells and no 'id'");
  EXPECT_EQ(said(one_pool + "\n,r,silicon_concurrency=,b,0,m,s,p,agg,1,1,2,1,1,2,5,2\n"),
            "2: 'silicon_data_source' is '', no number");
  EXPECT_EQ(said(one_pool + "\n" + about + "agg,7k,1,2,1,1,2,5,2\n"),
            "2: 'isl' is '7k', no number");
}

EngineRow engine_row(std::int64_t in_flight, const EngineDegrees& degrees,
                     std::int64_t output = 11) {
  EngineRow row;
  row.id = "r", row.backend = "sglang", row.version = "0.5", row.model = "org/M";
  row.system = "b200", row.precision = "fp8";
  row.input = 100, row.output = output, row.concurrency = in_flight, row.prompts = degrees;
  row.ttft = row.tpot = 1;
  return row;
}

/// With a flag `met` for rows of which all conditions hold, on nodes of 8 GPUs.
EngineTable rules_table(const std::string& conditions) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/engines.yaml", R"(title: T
source: S
assumed: one
misses: [two, three]
least_share: 0.5
without_dp: [{backend: vllm}]
dp_for_tp: [{precision: fp4}, {precision: int4}]
prompts: [{of: {output: 7}, tp: 2, dp: 3, moe_tp: 5, moe_ep: 4}, {of: {output: 8}}]
rules:
- {of: {}, gpus_per_node: 8, topology: t, model: m, policy: p}
- {of: )" + conditions + ", met: {deep: 1}}\n");
  return read_engine_table(folder.path() + "/engines.yaml");
}

TEST(EngineRules, AreReadWithWhatTheySay) {
  const EngineTable table = rules_table("{backend: [a, b], pool: decode}");
  EXPECT_EQ(table.title + table.source, "TS");
  EXPECT_THAT(table.assumed, ElementsAre("one"));
  EXPECT_THAT(table.misses, ElementsAre("two", "three"));
  EXPECT_EQ(table.least_share, 0.5);
  EXPECT_EQ(table.without_dp.size(), 1U);
  EXPECT_EQ(table.dp_for_tp.size(), 2U);
  ASSERT_EQ(table.prompts.size(), 2U);
  EXPECT_EQ(table.prompts[0].degrees, (EngineDegrees{2, 3, 5, 4}));
  EXPECT_EQ(table.prompts[1].degrees, (EngineDegrees{1, 1, 1, 1}));
  ASSERT_EQ(table.rules.size(), 2U);
  EXPECT_EQ(table.rules[0].gpus_per_node, 8);
  EXPECT_EQ(table.rules[1].gpus_per_node, 0);
  EXPECT_EQ(table.rules[1].conditions.size(), 2U);
  EXPECT_EQ(*table.rules[1].flags.find("met.deep"), "1");
  EXPECT_EQ(table.rules[1].flags.find("gpus_per_node"), nullptr);
}

TEST(EngineRules, MeanRowsOfWhichEveryConditionHolds) {
  const auto met = [](const std::string& conditions, const EngineRow& row, bool decode = false) {
    std::string why;
    const auto pool = pool_of(row, rules_table(conditions), decode, why);
    return std::ranges::count(pool->flags, "met.deep", &Override::path) == 1;
  };
  const EngineRow row = engine_row(6, {2, 1, 1, 2});
  for (const char* const holds :
       {"{backend: sglang}", "{version: '0.5'}", "{model: org/M}", "{system: b200}",
        "{precision: fp8}", "{input: 100}", "{output: 11}", "{in_flight: 6}", "{layout: shared}",
        "{pool: all}", "{backend: [vllm, sglang], output: 11}"}) {
    EXPECT_TRUE(met(holds, row)) << holds;
  }
  for (const char* const fails :
       {"{backend: vllm}", "{version: '5'}", "{model: M}", "{system: b300}", "{precision: fp4}",
        "{input: 11}", "{output: 100}", "{in_flight: 100}", "{layout: both}", "{pool: prompts}",
        "{backend: sglang, output: 12}"}) {
    EXPECT_FALSE(met(fails, row)) << fails;
  }
  EXPECT_TRUE(met("{layout: sliced}", engine_row(6, {2, 1, 2, 1})));
  EXPECT_TRUE(met("{layout: spread}", engine_row(6, {1, 2, 1, 2})));
  EXPECT_TRUE(met("{layout: both}", engine_row(6, {2, 2, 1, 4})));
  EngineRow apart = row;
  apart.decode = EngineDegrees{1, 2, 1, 2};
  EXPECT_TRUE(met("{pool: prompts, layout: shared}", apart));
  EXPECT_TRUE(met("{pool: decode, layout: spread}", apart, true));
}

TEST(EngineRules, APoolHasItsDegreesAndItsNodes) {
  const auto flags = [](const EngineDegrees& degrees, EngineTable table) {
    std::string why, all;
    const auto pool = pool_of(engine_row(6, degrees), table, false, why);
    for (const Override& flag : pool->flags) {
      if (flag.path != "serving.requests") all += flag.path + "=" + flag.value + "\n";
    }
    EXPECT_THAT(pool->key, testing::StartsWith(all));
    return all;
  };
  const std::string start = "topology=t\nmodel=m\npolicy=p\n";
  EngineTable table = rules_table("{backend: vllm}");
  EXPECT_EQ(flags({4, 3, 2, 6}, table),
            start +
                "parallel.tp=4\nparallel.ep=6\nparallel.etp=2\nset=topology.nodes=2\n"
                "set=topology.node.gpus=8\nset=topology.node.nics.count=8\n");
  EXPECT_THAT(flags({2, 1, 1, 2}, table),
              HasSubstr("nodes=1\nset=topology.node.gpus=2\nset=topology.node.nics.count=2\n"));
  table.rules[0].gpus_per_node = 0;
  EXPECT_THAT(flags({2, 1, 1, 2}, table), HasSubstr("nodes=2\nset=topology.node.gpus=1\n"));
}

TEST(EngineRules, NameWhatTheyLeaveOpen) {
  for (const auto& [open, why_not] :
       std::vector<std::pair<std::string, std::string>>{{"topology", "no topology for b200"},
                                                        {"model", "no model for org/M"},
                                                        {"policy", "no policy for sglang"}}) {
    EngineTable table = rules_table("{backend: vllm}");
    PaperFlags flags;
    for (const Override& flag : table.rules[0].flags.list()) {
      if (flag.path != open) flags.take(flag);
    }
    table.rules[0].flags = flags;
    std::string why;
    EXPECT_FALSE(pool_of(engine_row(6, {2, 1, 1, 2}), table, false, why));
    EXPECT_EQ(why, why_not);
  }
}

TEST(EngineRules, StartedDegreesOfPromptsAreOfPoolsApart) {
  const EngineTable table = rules_table("{backend: vllm}");
  EngineRow row = engine_row(6, {4, 2, 1, 8}, 7);
  row.backend = "vllm";
  EXPECT_EQ(as_started(row, table).prompts, (EngineDegrees{4, 1, 1, 4}));
  row.prompts = {4, 2, 8, 1};
  EXPECT_EQ(as_started(row, table).prompts, (EngineDegrees{4, 1, 8, 1})) << "no expert parallelism";
  row.prompts = {4, 1, 1, 4}, row.precision = "fp4";
  EXPECT_EQ(as_started(row, table).prompts, row.prompts) << "without data parallelism";
  row.decode = EngineDegrees{4, 2, 1, 8};
  EXPECT_EQ(as_started(row, table).prompts, (EngineDegrees{2, 3, 5, 4}));
}

TEST(EngineReports, ARowIsSaturatedAboveATenthOfItsRequest) {
  for (const auto& [output, saturated] : {std::pair(11, false), {10, false}, {9, true}}) {
    EXPECT_EQ((JudgedEngineRow{engine_row(6, {}, output), {}}).saturated(), saturated) << output;
  }
}

TEST(EngineReports, BandsAreOfRequestsPerGpu) {
  for (const auto& [in_flight, band] :
       std::vector<std::pair<int, std::string>>{{2, "to 1 per GPU"},
                                                {3, "to 8 per GPU"},
                                                {16, "to 8 per GPU"},
                                                {17, "to 64 per GPU"},
                                                {128, "to 64 per GPU"},
                                                {129, "above"}}) {
    const auto sums = engine_summaries({{engine_row(in_flight, {2, 1, 1, 2}), {1, 1, 0, 0, ""}}});
    EXPECT_EQ(sums.back().group + ": " + sums.back().name, "in flight: " + band) << in_flight;
  }
}

/// Of two models: +50 % and -25 % per token; the second, of pools apart, is saturated.
std::vector<JudgedEngineRow> three_judged() {
  EngineRow apart = engine_row(12, {2, 1, 2, 1}, 9), open = apart;
  apart.model = "N";
  apart.decode = EngineDegrees{1, 4, 1, 4}, apart.decode_instances = 2;
  return judged_engines({engine_row(12, {4, 2, 1, 8}), apart, open},
                        {{2, 1.5, 0, 0, ""}, {1, 0.75, 0, 0, ""}, {0, 0, 0, 0, "no reason"}});
}

// Rates: 12 x 11 / (1 + 10) / 8 = 1.5 and 12 x 9 / (1 + 8) / 10 = 1.2 tokens/s and GPU, simulated
// over 2 + 15 and 1 + 6 s: 11 / 17 and 9 / 7 of them.
TEST(EngineReports, AreWordForWordWhatTheRowsSay) {
  const EngineTable table{"Title", "a source", {}, {"A miss."}, 1, {}, {}, {}, {}};
  EXPECT_EQ(squeezed(engines_text(table, three_judged(), "v").text()),
            R"(# moesim v: Title (a source)
row TPOT simulated error TTFT simulated error tokens/s/GPU error
M b200 sglang fp8 100/11 c12 tp4dp2ep8 1 s 1.5 s +50.0 % 1 s 2 s +100.0 % 2 -35.3 %
N b200 sglang fp8 100/9 c12 1xtp2ep1etp2+2xdp4ep4 1 s 750 ms -25.0 % 1 s 1 s +0.0 % 1 +28.6 %
# 1 row not predicted: no reason
# errors are absolute: median, 90 %; TTFT of rows in which it is at most 10 % of a request
of rows of rows TPOT signed TTFT tokens/s/GPU
all rows 2 37.5, 50.0 % +12.5 % 100.0, 100.0 % 31.9, 35.3 %
model N 1 25.0, 25.0 % -25.0 % - 28.6, 28.6 %
model org/M 1 50.0, 50.0 % +50.0 % 100.0, 100.0 % 35.3, 35.3 %
machine b200 2 37.5, 50.0 % +12.5 % 100.0, 100.0 % 31.9, 35.3 %
engine sglang 2 37.5, 50.0 % +12.5 % 100.0, 100.0 % 31.9, 35.3 %
pools apart 1 25.0, 25.0 % -25.0 % - 28.6, 28.6 %
pools together 1 50.0, 50.0 % +50.0 % 100.0, 100.0 % 35.3, 35.3 %
tokens 100/11 1 50.0, 50.0 % +50.0 % 100.0, 100.0 % 35.3, 35.3 %
tokens 100/9 1 25.0, 25.0 % -25.0 % - 28.6, 28.6 %
in flight to 8 per GPU 2 37.5, 50.0 % +12.5 % 100.0, 100.0 % 31.9, 35.3 %
)");
  EXPECT_EQ(engines_page(table, three_judged()), R"(2 of 3 runs are predicted. Cells: median, 90 %.

| of | rows | TPOT | TTFT | tokens/s/GPU |
|---|---|---|---|---|
| rows | 2 | 37.5, 50.0 % | 100.0, 100.0 % | 31.9, 35.3 % |
| N | 1 | 25.0, 25.0 % | - | 28.6, 28.6 % |
| org/M | 1 | 50.0, 50.0 % | 100.0, 100.0 % | 35.3, 35.3 % |

- 1 row not predicted: no reason.
- A miss.
)");
}

}  // namespace
}  // namespace moesim
