// SPDX-License-Identifier: Apache-2.0
// Logs of many programs, in rows of JSON lines, CSV and plain text, give the routing of formats.py.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct LogForm {
  const char* name;
  bool weights = false;
  std::vector<std::string> map = {};
  const char* warning = "";
};

constexpr const char* no_sequences = "does not say which tokens are of one sequence";

const std::vector<LogForm> log_forms = {
    {"logger", true},
    {"preplay", true},
    {"batches"},
    {"keyed"},
    {"all-layers"},
    {"renamed", false, {"experts=who", "layer=where", "token=when", "request=of"}},
    {"choices", false, {}, no_sequences},
    {"joined", false, {}, no_sequences},
    {"slots"},
    {"lists", true, {}, no_sequences},
    {"wide", true},
    {"file-per-layer"},
    {"aligned"},
    {"printed"},
    {"columns", false, {"layer=1", "token=2", "experts=3"}, no_sequences},
    {"headings", false, {}, no_sequences},
    {"pairs", true}};

class LogTest : public testing::TestWithParam<LogForm> {};

TEST_P(LogTest, GivesTheRouting) {
  const LogForm& form = GetParam();
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/table/" + form.name, scratch / "out");
  options.map = form.map;
  const Imported imported = import_trace("table", options);
  ASSERT_EQ(imported.warnings.empty(), std::string(form.warning).empty());
  if (!imported.warnings.empty()) {
    EXPECT_THAT(imported.warnings.front().message, HasSubstr(form.warning));
  }
  ASSERT_TRUE(verify_trace(scratch / "out").empty());
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_THAT(trace.info().layers, ElementsAre(1, 2));
  ASSERT_EQ(trace.step_count(), 1);
  const TraceStep& step = trace.step(0);
  EXPECT_THAT(step.sequence_lengths(), ElementsAre(5, 4));
  EXPECT_EQ(step.has_weights(), form.weights);
  for (int t = 0; t < 9; ++t) {
    for (int l = 0; l < 2; ++l) {
      for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(step.ids(l).at(t, k), choice(t, l + 1)[static_cast<std::size_t>(k)])
            << "token " << t << ", layer " << l + 1;
        if (!form.weights) continue;
        EXPECT_EQ(step.weight(l, t, k), k == 0 ? 0.75F : 0.25F);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LogTest, testing::ValuesIn(log_forms),
                         [](const auto& form) { return test_name(form.param.name); });

/// The report and warnings of a log that a test writes.
Imported import_log(const std::string& kind, const std::string& name, const std::string& content,
                    const std::function<void(ImportOptions&)>& change = {}) {
  const ScratchFolder scratch;
  write_bytes(scratch / ("in/" + name), content);
  auto options = options_of(scratch / "in", scratch / "out");
  if (change) change(options);
  return import_trace(kind, options);
}

TEST(Logs, OfVllmAreReadByItsKind) {
  const ScratchFolder scratch;
  import_trace("vllm-routes", options_of(formats() + "/table/logger", scratch / "out"));
  EXPECT_EQ(RoutingTrace::open(scratch / "out").total_tokens(), 9);
}

TEST(Logs, ATokenThatComesAgainBeginsAPass) {
  // A prompt of two tokens, then two steps of decoding: one sequence, whatever the numbers say.
  std::string lines;
  for (const int token : {0, 1, 0, 0}) {
    for (const int layer : {1, 2}) {
      lines +=
          fmt::format("{{\"layer\": {}, \"token_idx\": {}, \"topk_ids\": [0, 1]}}\n", layer, token);
    }
  }
  const auto imported = import_log("table", "a.jsonl", lines);
  EXPECT_THAT(imported.report, HasSubstr("tokens     4\nsequences  1\n"));
  EXPECT_TRUE(imported.warnings.empty());
}

TEST(Logs, TokensThatLackALayerAreLeftOut) {
  // llama.cpp computes the last layer of a prompt for its last token only.
  const std::string prompt = "1,0\n1,1\n1,2\n1,3\n2,4\n2,5\n", decoded = "1,0\n1,1\n2,4\n2,5\n";
  const auto imported = import_log("table", "a.csv", "layer,expert\n" + prompt + decoded);
  EXPECT_THAT(imported.report, HasSubstr("tokens     2\n"));
  EXPECT_THAT(imported.report, HasSubstr("1 row: of tokens that lack layers"));
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].hint, HasSubstr("--layers without it keeps them"));
  const auto kept = import_log("table", "a.csv", "layer,expert\n" + prompt + decoded,
                               [](ImportOptions& options) { options.layers = {1}; });
  EXPECT_THAT(kept.report, HasSubstr("tokens     3\n"));
}

TEST(Logs, OfAKilledRecorderEndWithTheLastWholeToken) {
  const auto imported = import_log("table", "a.csv", "layer,token,expert\n1,0,3\n1,0,4\n1,1,5\n1",
                                   [](ImportOptions& options) { options.layers = {1}; });
  EXPECT_THAT(imported.report, HasSubstr("tokens     1\n"));
}

TEST(Logs, OfAKilledRecorderMayEndInsideJson) {
  const std::string lines =
      "{\"layer\": 1, \"token\": 0, \"topk_ids\": [3, 4]}\n{\"layer\": 1, \"token\": 1, \"topk_i";
  const auto layer = [](ImportOptions& options) { options.layers = {1}; };
  EXPECT_THAT(import_log("table", "a.jsonl", lines, layer).report, HasSubstr("tokens     1\n"));
  EXPECT_THAT(
      error_of([&] { import_log("table", "a.jsonl", lines.substr(lines.find('\n') + 1), layer); }),
      HasSubstr("a.jsonl:1:"))
      << "nothing of it is whole";
}

/// One token in each form: expert 3 and 4 in layer 1, 5 and 6 in layer 2.
TEST(Logs, NameLayersInManyWays) {
  const auto twice = [](const char* field, const char* first, const char* second) {
    return fmt::format(R"({{"token_idx": 0, "{0}": {1}, "topk_ids": [3, 4]}}
{{"token_idx": 0, "{0}": {2}, "topk_ids": [5, 6]}})",
                       field, first, second);
  };
  for (const std::string& lines :
       {twice("layer", "1", "2"), "\xef\xbb\xbf" + twice("layer", "1", "2"),
        twice("layer", R"("model.layers.1.mlp.gate")", R"("model.layers.2.mlp.gate")"),
        twice("layer_name", R"("layers.1.router")", R"("layers.2.router")"),
        std::string(R"({"token_idx": 0, "layer_1": [3, 4], "layer_2": [5, 6]})"),
        std::string(R"({"token_idx": 0, "layers": {"1": [3, 4], "2": [5, 6]}})"),
        std::string(R"({"1": [[3, 4]], "2": [[5, 6]]})"),
        std::string(R"({"model.layers.1.mlp": [[3, 4]], "model.layers.2.mlp": [[5, 6]]})"),
        std::string(R"(data: {"token_idx": 0, "layer_1": [3, 4], "layer_2": [5, 6]}

data: [DONE]
)")}) {
    SCOPED_TRACE(lines);
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a.jsonl", lines);
    import_trace("table", options_of(scratch / "in", scratch / "out"));
    const auto trace = RoutingTrace::open(scratch / "out");
    EXPECT_THAT(trace.info().layers, ElementsAre(1, 2));
    ASSERT_EQ(trace.total_tokens(), 1);
    for (int l = 0; l < 2; ++l) {
      EXPECT_EQ(trace.step(0).ids(l).at(0, 0), 3 + 2 * l);
      EXPECT_EQ(trace.step(0).ids(l).at(0, 1), 4 + 2 * l);
    }
  }
  // Which of two numbers is the layer nobody can say.
  EXPECT_THAT(error_of([&] {
                import_log("table", "a.jsonl",
                           twice("layer", R"("stage.0.layers.1")", R"("stage.0.layers.2")"));
              }),
              HasSubstr("does not say its layer"));
}

TEST(Logs, ResponsesMayBeThoseOfABatchOrAStream) {
  const std::string response = R"({"choices": [{"routed_experts": [[[3, 4], [5, 6]]]}]})";
  for (const std::string& text :
       {response,
        R"({"custom_id": "a", "response": {"status_code": 200, "body": )" + response + "}}",
        R"({"request": {"prompt": "q"}, "response": )" + response + "}",
        R"({"prompt": "q", "output": )" + response + "}",
        ": ping\n\nevent: message\nid: 1\ndata: " + response + "\n\nevent: end\ndata: [DONE]\n\n",
        "data: " + response + "\n\n: ping",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nserver: a, b\r\n\r\n" + response,
        "> POST / HTTP/1.1\n>\n< HTTP/1.1 200 OK\n<\n" + response}) {
    EXPECT_THAT(import_log("vllm-routes", "a.json", text).report, HasSubstr("tokens     1\n"))
        << text;
  }
}

TEST(Logs, OfTensorParallelRanksAreTakenOnce) {
  const ScratchFolder scratch;
  for (const char* rank : {"0", "1"}) {
    write_bytes(scratch / ("in/rank" + std::string(rank) + ".jsonl"),
                read_bytes(formats() + "/table/logger/l.jsonl"));
  }
  const auto imported = import_trace("table", options_of(scratch / "in", scratch / "out"));
  EXPECT_THAT(imported.report, HasSubstr("tokens     9\n"));
  EXPECT_THAT(imported.report, HasSubstr("18 rows: of ranks that repeat another's tokens"));
}

TEST(Logs, HeadersSayHowManyExpertsThereAre) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/table/slots", scratch / "out");
  options.experts = options.top_k = 0;
  import_trace("table", options);
  EXPECT_EQ(RoutingTrace::open(scratch / "out").info().experts, 8);
}

TEST(Logs, StepsOfTrainingAreSteps) {
  std::string lines;
  for (const int step : {4, 9}) {
    for (const int layer : {1, 2}) {
      lines += fmt::format("{{\"iteration\": {}, \"layer\": {}, \"topk_ids\": [[0, 1], [2, 3]]}}\n",
                           step, layer);
    }
  }
  const auto imported = import_log("table", "a.jsonl", lines);
  EXPECT_THAT(imported.report, HasSubstr("steps      2\ntokens     4\n"));
}

TEST(Logs, CountsThatNoTopKExplainsKeepTheirLoads) {
  const auto imported = import_log("sglang-counts", "expert_distribution_rank0_timestamp1.5.csv",
                                   "layer_id,expert_id,count\n1,0,10\n1,3,30\n2,1,20\n2,5,20\n");
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].message,
              HasSubstr("its counts are not of 2 different experts a token"));
  EXPECT_THAT(imported.report, HasSubstr("tokens     40\n"));
  EXPECT_THAT(imported.report, HasSubstr("top-k      1\n"));
}

TEST(Logs, CountsThatAreNoListsAreRefused) {
  for (const char* counts : {R"({"1": [1, 1]})", "5"}) {
    EXPECT_THAT(error_of([&] {
                  import_log("sglang-counts", "a.json",
                             fmt::format(R"({{"logical_count": {}}})", counts));
                }),
                HasSubstr("a.json:1/logical_count: error: holds no lists of counts"));
  }
}

TEST(Logs, OfTwoBytesACharacterAreNamed) {
  EXPECT_THAT(error_of([] {
                import_log("table", "a.csv",
                           std::string("\xff\xfe"
                                       "1\0,\0"
                                       "2\0",
                                       8));
              }),
              HasSubstr("is UTF-16 text (save it as UTF-8)"));
}

TEST(Logs, SayTheirPhaseInManyWords) {
  const auto phase_of = [](const std::string& first, const std::string& second) {
    const std::string line = R"({{"layer": 1, "token": {}, "phase": "{}", "topk_ids": [0, 1]}})";
    const ScratchFolder scratch;
    write_bytes(scratch / "in/a.jsonl", fmt::format(fmt::runtime(line), 0, first) + "\n" +
                                            fmt::format(fmt::runtime(line), 1, second) + "\n");
    auto options = options_of(scratch / "in", scratch / "out");
    options.layers = {1};
    import_trace("table", options);
    return RoutingTrace::open(scratch / "out").info().phase;
  };
  for (const char* word : {"prefill", "extend", "prompt"}) {
    EXPECT_EQ(phase_of(word, word), Phase::prefill) << word;
  }
  EXPECT_EQ(phase_of("decode", "decode"), Phase::decode);
  EXPECT_EQ(phase_of("generation", "generation"), Phase::decode);
  EXPECT_EQ(phase_of("training", "training"), Phase::training);
  EXPECT_EQ(phase_of("prefill", "decode"), Phase::mixed);
}

TEST(Logs, MapsAreChecked) {
  const auto refused = [](const char* map) {
    return error_of([&] {
      import_log("table", "a.csv", "layer,expert\n1,0\n1,1\n",
                 [&](ImportOptions& options) { options.map = {map}; });
    });
  };
  EXPECT_THAT(refused("expert"), HasSubstr("--map: 'expert' is not ROLE=FIELD"));
  EXPECT_THAT(refused("expertz=expert"), HasSubstr("did you mean 'experts'?"));
  EXPECT_THAT(refused("layer=leyer"), HasSubstr("has no field 'leyer', which --map names"));
  EXPECT_THAT(refused("layer=leyer"), HasSubstr("it has layer, expert"));
}

}  // namespace
}  // namespace moesim
