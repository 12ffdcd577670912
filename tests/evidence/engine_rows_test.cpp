// SPDX-License-Identifier: Apache-2.0
// Rows of serving engines: how they are read, which pools they become, what errors are.
#include "sim/evidence/engine_rows.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/evidence/engine_report.h"
#include "sim/evidence/engine_table.h"
#include "sim/evidence/predict_engines.h"
#include "sim/model/gpu_model.h"
#include "sim/run/engine_pool.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/scenario.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const std::string columns =
    "layout_suspect,id,silicon_data_source,backend,backend_version,model_path,system,precision,"
    "mode,isl,osl,tp_size,attention_dp_size,moe_tp_size,moe_ep_size,prefill_num_workers,"
    "prefill_tp_size,prefill_attention_dp_size,prefill_moe_tp_size,prefill_moe_ep_size,"
    "decode_num_workers,decode_tp_size,decode_attention_dp_size,decode_moe_tp_size,"
    "decode_moe_ep_size,silicon_ttft_ms,silicon_tpot_ms\n";
const std::string together =
    "0,a,x; silicon_concurrency=16; y,sglang,0.5.9,Qwen/Qwen3.5-397B-A17B,b200_sxm,fp8,agg,1024,"
    "1024,4,1,1,4,,,,,,,,,,,100,10\n";
const std::string apart =
    "0,b,silicon_concurrency=64,trtllm,0.8.1,deepseek-ai/DeepSeek-R1,gb200,fp8,disagg,8192,1024,,"
    ",,,2,1,8,1,8,1,1,32,1,32,500,20\n";

std::vector<EngineRow> rows_of(const std::string& lines) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/rows.csv";
  write_file(path, columns + lines);
  return read_engine_rows(path);
}

TEST(EngineRows, CellsBecomeADeployment) {
  const auto rows = rows_of(together + apart);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].concurrency, 16);
  EXPECT_EQ(std::pair(rows[0].input, rows[0].output), std::pair(1024L, 1024L));
  EXPECT_EQ(std::pair(rows[1].input, rows[1].output), std::pair(8192L, 1024L));
  EXPECT_EQ(rows[0].prompts, (EngineDegrees{4, 1, 1, 4}));
  EXPECT_FALSE(rows[0].decode);
  EXPECT_EQ(rows[0].gpus(), 4);
  EXPECT_DOUBLE_EQ(rows[0].ttft, 0.1);
  EXPECT_DOUBLE_EQ(rows[0].tpot, 0.01);
  EXPECT_EQ(rows[1].prompt_instances, 2);
  EXPECT_EQ(*rows[1].decode, (EngineDegrees{1, 32, 1, 32}));
  EXPECT_EQ(rows[1].gpus(), 2 * 8 + 32);
  EXPECT_EQ(rows[0].unstated + rows[1].unstated, "");
}

TEST(EngineRows, SuspectLayoutsAreLeftOutAndOpenOnesSayWhy) {
  std::string suspect = together, open = apart, odd = together;
  suspect[0] = '1';
  open.replace(open.find(",2,1,8,1,8,"), 3, ",,");
  odd.replace(odd.find(",4,1,1,4,"), 9, ",4,2,1,4,");
  const auto rows = rows_of(suspect + open + odd);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].unstated, "how many workers there are");
  EXPECT_EQ(rows[1].unstated, "degrees that make a layout");
}

TEST(EngineRows, MistakesHaveTheirLine) {
  std::string wrong = together;
  wrong.replace(wrong.find("100,10"), 6, "soon,1");
  try {
    rows_of(together + wrong);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.diagnostics().front().line, 3);
    EXPECT_THAT(e.what(), HasSubstr("'silicon_ttft_ms' is 'soon', no number"));
  }
}

std::string flag_of(const EnginePool& pool, const std::string& path) {
  const auto found = std::ranges::find(pool.flags, path, &Override::path);
  return found == pool.flags.end() ? "" : found->value;
}

TEST(EngineRows, RulesMakePools) {
  const EngineTable table = read_engine_table("inferencex");
  const auto rows = rows_of(together + apart);
  std::string why;
  const auto whole = pool_of(rows[0], table, false, why);
  ASSERT_TRUE(whole) << why;
  EXPECT_EQ(flag_of(*whole, "parallel.ep"), "4");
  const Scenario scenario = read_scenario("", whole->flags);
  EXPECT_EQ(scenario.topologies.front(), "b200-hgx");
  EXPECT_EQ(scenario.engine_run->engine.name, "sglang");
  const auto prompts = pool_of(rows[1], table, false, why),
             decode = pool_of(rows[1], table, true, why);
  ASSERT_TRUE(prompts && decode) << why;
  EXPECT_NE(prompts->key, decode->key);
  EXPECT_EQ(read_scenario("", decode->flags).iteration->parallel.ep, 32);
  EngineRow unknown = rows[0];
  unknown.system = "abacus";
  EXPECT_FALSE(pool_of(unknown, table, false, why));
  EXPECT_EQ(why, "no topology for abacus");
}

TEST(EngineRows, LayoutsSayWhatCarriesTokensAndHowRowsAreNamed) {
  const EngineTable table = read_engine_table("inferencex");
  EngineRow row = rows_of(together).front();
  const auto flag = [&](const EngineDegrees& degrees, const std::string& path) {
    row.prompts = degrees;
    std::string why;
    return flag_of(*pool_of(row, table, false, why), path);
  };
  for (const EngineDegrees& joint :
       {EngineDegrees{4, 1, 1, 4}, EngineDegrees{4, 1, 4, 1}, EngineDegrees{2, 2, 1, 4}}) {
    EXPECT_EQ(flag(joint, "transport"), "engine-all-reduce") << joint.tp;
  }
  EXPECT_EQ((JudgedEngineRow{row, {}}).name(),
            "Qwen3.5-397B-A17B b200_sxm sglang fp8 1024/1024 c16 tp2dp2ep4");
  EXPECT_EQ(flag({1, 4, 1, 4}, "policy"), "deepep-low-latency");
  EXPECT_EQ(flag({1, 4, 1, 4}, "transport"), "");
}

TEST(EngineRows, RecipesWithoutDataParallelismHaveNone) {
  EngineTable table;
  table.without_dp.push_back({{{"backend", {"vllm"}}}, {}, 0});
  EngineRow row = rows_of(together).front();
  row.prompts = {2, 2, 1, 4};
  EXPECT_EQ(as_started(row, table).prompts, row.prompts) << "another engine";
  row.backend = "vllm";
  EXPECT_EQ(as_started(row, table).prompts, (EngineDegrees{2, 1, 1, 2}));
  table.dp_for_tp.push_back({{{"precision", {"fp4"}}}, {}, 0});
  row.precision = "fp4";
  EXPECT_EQ(as_started(row, table).prompts, (EngineDegrees{1, 2, 1, 2})) << "as many GPUs";
}

TEST(EngineRows, RecipesSayHowPromptsAreComputed) {
  EngineTable table;
  table.prompts = {{{{{"system", {"gb200"}}, {"output", {"1024"}}}, {}, 0}, {8, 1, 1, 8}},
                   {{{{"output", {"8192"}}}, {}, 0}, {2, 1, 1, 2}}};
  const auto rows = rows_of(together + apart);
  EXPECT_EQ(as_started(rows[0], table).prompts, rows[0].prompts) << "its only pool";
  const EngineRow started = as_started(rows[1], table);
  EXPECT_EQ(started.prompts, (EngineDegrees{8, 1, 1, 8}));
  EXPECT_EQ(started.decode, rows[1].decode);
}

TEST(EngineRows, PoolsApartHaveTheRouterAndTheLimitsOfTheirRecipe) {
  const EngineTable table = read_engine_table("inferencex");
  const EngineRow row = rows_of(apart).front();
  std::string why;
  const Scenario prompts = read_scenario("", pool_of(row, table, false, why)->flags);
  EXPECT_EQ(prompts.engine_run->router.kind, RouterOptions::Kind::round_robin);
  EXPECT_EQ(prompts.engine_run->router.front_ends, 8);
  EXPECT_EQ(prompts.engine_run->engine.options.max_sequences, 2);
  EXPECT_FALSE(prompts.engine_run->engine.options.plans_ahead);
}

/// The GPU as the pool that decodes has it.
GpuModel gpu_of(const EngineRow& row, const std::string& gpu) {
  std::string why;
  const auto pool = pool_of(row, read_engine_table("inferencex"), row.decode.has_value(), why);
  const Scenario scenario = read_scenario("", pool->flags);
  return read_gpu_model(data_file("models/gpu", gpu), scenario.overrides_of("gpu", gpu));
}

TEST(EngineRows, VllmsShareOfMemoryIsOfAllButWhatItHoldsItself) {
  EngineRow row = rows_of(together).front();
  row.backend = "vllm";
  row.model = "MiniMaxAI/MiniMax-M2.5";
  EXPECT_EQ(gpu_of(row, "b200-measured").memory, Bytes(187'230'000'000));
  row.system = "h100_sxm";
  EXPECT_EQ(gpu_of(row, "h100-measured").memory, Bytes(80'630'000'000));
}

TEST(EngineRows, RatesAreLittlesLaw) {
  JudgedEngineRow row{rows_of(together).front(), {}};
  // 16 requests of 1,024 tokens in 0.1 + 1023 x 0.01 s on 4 GPUs.
  EXPECT_DOUBLE_EQ(row.rate(0.1, 0.01), 16 * 1024 / (0.1 + 10.23) / 4);
  row.predicted = {0.05, 0.02, 0, 0, ""};
  EXPECT_DOUBLE_EQ(row.tpot_error(), 1);
  EXPECT_DOUBLE_EQ(row.ttft_error(), -0.5);
  EXPECT_LT(row.rate_error(), 0);
  EXPECT_FALSE(row.saturated());
  row.row.ttft = 2;
  EXPECT_TRUE(row.saturated());
}

TEST(EngineRows, TheDocumentHasEveryRow) {
  const EngineTable table{"Title", "a source", {}, {}, 1, {}, {}, {}, {}};
  const auto rows = judged_engines(rows_of(together + apart),
                                   {{0.2, 0.011, 3, 0.25, ""}, {0, 0, 0, 0, "no reason"}});
  EXPECT_EQ(engines_json(table, rows, "v"), R"({
 "format": "moesim-engine-rows",
 "format_version": 1,
 "moesim": "v",
 "title": "Title",
 "source": "a source",
 "rows": [
  {
   "id": "a",
   "ttft_s": 0.1,
   "tpot_s": 0.01,
   "simulated_ttft_s": 0.2,
   "simulated_tpot_s": 0.011,
   "saturated": false,
   "waiting": 3.0,
   "prompt_passes": 0.25
  },
  {
   "id": "b",
   "ttft_s": 0.5,
   "tpot_s": 0.02,
   "not_predicted": "no reason"
  }
 ]
}
)");
}

TEST(EngineRows, SummariesGroupWhatIsPredicted) {
  auto rows = rows_of(together + together + apart);
  std::vector<EnginePrediction> predictions = {
      {0.1, 0.011, 0, 0, ""}, {0.1, 0.009, 0, 0, ""}, {0, 0, 0, 0, "no reason"}};
  const auto sums = engine_summaries(judged_engines(rows, predictions));
  EXPECT_EQ(sums.front().rows, 2);
  EXPECT_NEAR(sums.front().tpot.median(), 0.1, 1e-12);
  EXPECT_NEAR(sums.front().signed_tpot, 0, 1e-12);
  const auto machine = std::ranges::find(sums, "machine", &EngineSummary::group);
  EXPECT_EQ(machine->name, "b200_sxm");
}

TEST(EngineRows, APageHasErrorsByModelAndWhatIsLeftOut) {
  const EngineTable table{"Title", "a source", {}, {"A miss."}, 1, {}, {}, {}, {}};
  const auto rows =
      judged_engines(rows_of(together + together + apart),
                     {{0.1, 0.011, 0, 0, ""}, {0.1, 0.009, 0, 0, ""}, {0, 0, 0, 0, "no reason"}});
  EXPECT_EQ(rows[0].name(), "Qwen3.5-397B-A17B b200_sxm sglang fp8 1024/1024 c16 tp4ep4");
  EXPECT_EQ(rows[2].name(), "DeepSeek-R1 gb200 trtllm fp8 8192/1024 c64 2xdp8ep8+1xdp32ep32");
  const std::string page = engines_page(table, rows);
  EXPECT_THAT(page, testing::StartsWith("2 of 3 runs are predicted. "));
  EXPECT_THAT(page, HasSubstr("| rows | 2 | 10.0, 10.0 % | 0.0, 0.0 % | "));
  EXPECT_THAT(page, HasSubstr("| Qwen/Qwen3.5-397B-A17B | 2 | "));
  EXPECT_THAT(page, testing::Not(HasSubstr("b200_sxm")));
  EXPECT_THAT(page, testing::EndsWith("\n- 1 row not predicted: no reason.\n- A miss.\n"));
  const std::string text = engines_text(table, rows, "v").text();
  EXPECT_THAT(text, testing::StartsWith("# moesim v: Title (a source)\n"));
  EXPECT_THAT(text, testing::ContainsRegex("tp4ep4 +10 ms +11 ms +[+]10.0 % +100 ms +100 ms"));
  EXPECT_THAT(text, testing::ContainsRegex("in flight +to 8 per GPU +2 "));
  EXPECT_THAT(text, HasSubstr("# 1 row not predicted: no reason\n"));
}

// Ten rounds of two requests: each counts alike.
TEST(EngineRows, ArePredictedAsTheMeansOfARunOfTheirPool) {
  EngineTable table = read_engine_table("inferencex");
  table.least_share = 1;
  EngineRow row = rows_of(together).front();
  row.input = 64, row.output = 4, row.concurrency = 2;
  EngineRow open = row;
  open.unstated = "its router";
  const auto predicted = predict_engines({open, row}, table, 1);
  EXPECT_EQ(predicted[0].why, "the row does not say its router");
  ASSERT_EQ(predicted[1].why, "");
  std::string why;
  OpenedPool pool(read_scenario("", pool_of(row, table, false, why)->flags));
  RequestDraw draw;
  draw.count = 20, draw.concurrency = 2, draw.client = benchmark_client;
  draw.input.mean = 64, draw.output.mean = 4;
  const PoolInstances one{&pool.prices(), &pool.engine_run().engine, 1};
  const ServedPools served =
      serve(pool.engine_run(), one, std::nullopt, draw_requests(draw), no_progress);
  const ServingMetrics metrics = serving_metrics(served.run, {}, 0, served.gpus);
  EXPECT_NEAR(predicted[1].ttft, metrics.ttft.mean, 1e-12);
  EXPECT_NEAR(predicted[1].tpot, metrics.tpot.mean, 1e-12);
  EXPECT_DOUBLE_EQ(predicted[1].waiting, metrics.load.waiting_mean);
  const auto& counts = served.run.instances.at(0).counts;
  EXPECT_GT(counts.prompt_passes + counts.mixed_passes, 0);
  EXPECT_DOUBLE_EQ(predicted[1].prompt_share * static_cast<double>(counts.passes),
                   static_cast<double>(counts.prompt_passes + counts.mixed_passes));
}

TEST(EngineRows, OfPoolsApartArePredictedAsARunOfBoth) {
  EngineTable table = read_engine_table("inferencex");
  table.least_share = 1;
  EngineRow row = rows_of(together).front();
  row.input = 64, row.output = 4, row.concurrency = 2;
  row.decode = row.prompts, row.prompt_instances = 1, row.decode_instances = 1;
  const EnginePrediction predicted = predict_engines({row}, table, 1)[0];
  ASSERT_EQ(predicted.why, "");
  const auto open = [&](bool decode) {
    std::string why;
    return std::make_unique<OpenedPool>(read_scenario("", pool_of(row, table, decode, why)->flags));
  };
  const auto prompts = open(false), decode = open(true);
  RequestDraw draw;
  draw.count = 20, draw.concurrency = 2, draw.client = benchmark_client;
  draw.input.mean = 64, draw.output.mean = 4;
  const ServedPools served =
      serve(prompts->engine_run(), {&prompts->prices(), &prompts->engine_run().engine, 1},
            PoolInstances{&decode->prices(), &decode->engine_run().engine, 1}, draw_requests(draw),
            no_progress);
  EXPECT_EQ(served.run.moved_requests, 20);
  const ServingMetrics metrics = serving_metrics(served.run, {}, 0, served.gpus);
  EXPECT_NEAR(predicted.ttft, metrics.ttft.mean, 1e-12);
  EXPECT_NEAR(predicted.tpot, metrics.tpot.mean, 1e-12);
}

/// Results of engines are printed with what the page says.
TEST(EngineTables, SayHowFarOffTheyWere) {
  const KnownEngineErrors known = read_engine_table(shipped_engine_table).known;
  const std::string page = read_file(MOESIM_ROOT "/docs/results/engines.md");
  const auto cell = [](const std::vector<double>& of) {
    return fmt::format("{:.1f}, {:.1f} %", 100 * of.at(0), 100 * of.at(1));
  };
  EXPECT_THAT(
      page, testing::HasSubstr(fmt::format("| rows | {} | {} | {} | {} |\n", known.runs,
                                           cell(known.tpot), cell(known.ttft), cell(known.rate))));
  EXPECT_EQ(engine_errors_line({7, {0.1, 0.2}, {0.3, 0.4}, {0.0549, 1.5}}),
            "# error bars, median and 90 % of 7 published runs of engines: TPOT 10.0, 20.0 %, TTFT "
            "30.0, 40.0 %, tokens/s/GPU 5.5, 150.0 %\n");
  EXPECT_EQ(engine_errors_line({}), "");
}

}  // namespace
}  // namespace moesim
