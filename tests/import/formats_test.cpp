// SPDX-License-Identifier: Apache-2.0
// Every format of formats.py gives the same routing.
#include "tests/import/formats.h"

#include <gmock/gmock.h>

#include <array>
#include <map>

#include "sim/trace/verify.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

struct Format {
  const char* kind;
  const char* dropped;  // rows that it leaves out
  Phase phase = Phase::mixed;
  bool ranks = false;   // source ranks are recorded
  bool sorted = false;  // by id, not by weight
  int steps = 1;
  int number = 0;  // of the first step
};

const std::vector<Format> all_formats = {
    {"sglang-recorder", "9 rows: of dense layers\ndropped    15 rows: of idle passes",
     Phase::prefill, true, false, 1, 7},
    {"sglang-routes", "9 rows: of dense layers"},
    {"vllm-routes", "4 rows: of dense layers\ndropped    2 rows: of padding (-1)"},
    {"megatron-routes", "nothing"},
    {"trtllm", "nothing", Phase::mixed, true, false, 1, 30},
    {"trtllm-routes", "nothing"},
    {"megatron-trace",
     "9 rows: of multi-token prediction\ndropped    18 rows: that repeat a layer's microbatch "
     "(recomputed activations)",
     Phase::training, true, true, 1, 3},
    {"trace-v1", "nothing", Phase::training, true, false, 1, 4},
    {"router-lists", "nothing", Phase::training, false, false, 2},
    {"verl",
     "4 rows: of last tokens, which are not fed back\ndropped    6 rows: of padding (mask)"},
    {"nemo-rl", "4 rows: of padding (-1)"},
    {"hf-logits", "2 rows: of padding (mask)", Phase::prefill},
    {"core12345", "nothing"}};

class FormatTest : public testing::TestWithParam<Format> {};

TEST_P(FormatTest, GivesTheRouting) {
  const Format& format = GetParam();
  const ScratchFolder scratch;
  const Imported imported =
      import_trace(format.kind, options_of(formats() + "/" + format.kind, scratch / "out"));
  EXPECT_THAT(imported.report, testing::HasSubstr("dropped    " + std::string(format.dropped)));
  EXPECT_TRUE(imported.warnings.empty());
  ASSERT_TRUE(verify_trace(scratch / "out").empty());
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_EQ(trace.info().layers, (std::vector{1, 2}));
  EXPECT_EQ(trace.info().phase, format.phase);
  ASSERT_EQ(trace.step_count(), format.steps);
  EXPECT_EQ(trace.step(0).number(), format.number);
  EXPECT_EQ(trace.total_tokens(), 9);
  int token = 0;
  for (int s = 0; s < trace.step_count(); ++s) {
    const TraceStep& step = trace.step(s);
    EXPECT_EQ(step.has_source_ranks(), format.ranks);
    if (format.steps == 1) {
      EXPECT_THAT(step.sequence_lengths(), testing::ElementsAre(5, 4));
    }
    for (std::int64_t t = 0; t < step.tokens(); ++t, ++token) {
      if (format.ranks) {
        EXPECT_EQ(step.source_rank(t), token < 5 ? 0 : 1);
      }
      for (int l = 0; l < 2; ++l) {
        auto expected = choice(token, l + 1);
        if (format.sorted) std::sort(expected.begin(), expected.end());
        EXPECT_EQ(step.ids(l).at(t, 0), expected[0]) << "token " << token << ", layer " << l + 1;
        EXPECT_EQ(step.ids(l).at(t, 1), expected[1]) << "token " << token << ", layer " << l + 1;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FormatTest, testing::ValuesIn(all_formats),
                         [](const auto& format) { return test_name(format.param.kind); });

TEST(Formats, RanksThatRepeatEachOtherAreTakenOnce) {
  const ScratchFolder scratch;
  for (const std::string rank : {"0", "1"}) {
    std::string lines = read_bytes(formats() + "/megatron-trace/router_trace_rank0.jsonl");
    write_bytes(scratch / ("in/router_trace_rank" + rank + ".jsonl"),
                replace_all(lines, "\"rank\": 0", "\"rank\": " + rank));
  }
  const auto report =
      import_trace("megatron-trace", options_of(scratch / "in", scratch / "out")).report;
  EXPECT_THAT(report, testing::HasSubstr("tokens     5\n"));
  EXPECT_THAT(report, testing::HasSubstr(
                          "10 rows: of ranks that repeat another's tokens (tensor parallelism)"));
}

TEST(Formats, RanksWithTheSameFileAreTakenOnce) {
  const ScratchFolder scratch;
  for (const char* name : {"meta_info.json", "rank0_raw.safetensors"}) {
    write_bytes(scratch / (std::string("in/") + name), read_bytes(formats() + "/trtllm/" + name));
  }
  write_bytes(scratch / "in/rank1_raw.safetensors",
              read_bytes(formats() + "/trtllm/rank0_raw.safetensors"));
  const auto report = import_trace("trtllm", options_of(scratch / "in", scratch / "out")).report;
  EXPECT_THAT(report, testing::HasSubstr("tokens     5\n"));
  EXPECT_THAT(report, testing::HasSubstr("10 rows: of ranks that repeat another's tokens"));
}

TEST(Formats, LayersThatAFileNumbersAreThoseOfTheModel) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/trtllm", scratch / "out");
  options.moe_layers = {1, 3};
  options.model_layers = 4;
  EXPECT_THAT(error_of([&] { import_trace("trtllm", options); }),
              testing::HasSubstr("has layers 1, 2 but the model's MoE layers are 1, 3"));
}

TEST(Formats, ThatDoNotSayTheExpertsNeedThemGiven) {
  const ScratchFolder scratch;
  for (const char* kind : {"moe-infinity", "trtllm-routes", "verl", "core12345"}) {
    auto options = options_of(formats() + "/" + kind, scratch / "out");
    options.experts = 0;
    EXPECT_THAT(error_of([&] { import_trace(kind, options); }),
                testing::HasSubstr("the number of experts is not known"))
        << kind;
  }
}

TEST(Formats, PassesOfOneKindAlone) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/sglang-recorder", scratch / "out");
  options.passes = Phase::decode;
  EXPECT_THAT(error_of([&] { import_trace("sglang-recorder", options); }),
              testing::HasSubstr("holds no tokens"));
}

TEST(Formats, LayersAreCountedAsTheFlagSays) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/wrong/other-numbering", scratch / "out");
  options.moe_layers = {};
  options.numbering = "from-1";
  import_trace("megatron-trace", options);
  EXPECT_EQ(RoutingTrace::open(scratch / "out").info().layers, (std::vector{4, 5}));
}

/// Files of the real torch.save: a list with a view of every other column, and bfloat16 logits.
const char* const real_torch = R"(
import sys, torch
ids = torch.tensor([[[t % 8, 7, (t + 1 + l) % 8, 7] for t in range(5)] for l in range(2)], dtype=torch.int16)
torch.save([ids[0, :, ::2], ids[1, :, ::2].clone()], sys.argv[1] + "/list.pt")
logits = torch.nn.functional.one_hot(torch.arange(5), 8) * 2.0 + torch.nn.functional.one_hot(torch.arange(5) + 2, 8)
torch.save({"router_logits": (logits.bfloat16(),) * 2, "attention_mask": torch.ones(1, 5).long()}, sys.argv[1] + "/logits.pt")
)";

TEST(Formats, OfTheRealTorch) {
  const std::string python = "/usr/bin/python3";
  if (std::system((python + " -c 'import torch' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << "no Python with PyTorch";
  }
  const ScratchFolder scratch;
  write_bytes(scratch / "save.py", real_torch);
  ASSERT_EQ(std::system((python + " " + (scratch / "save.py") + " " + scratch.path()).c_str()), 0);
  import_trace("router-lists", options_of(scratch / "list.pt", scratch / "lists"));
  import_trace("hf-logits", options_of(scratch / "logits.pt", scratch / "logits"));
  const auto lists = RoutingTrace::open(scratch / "lists");
  const auto logits = RoutingTrace::open(scratch / "logits");
  for (int t = 0; t < 5; ++t) {
    for (int l = 0; l < 2; ++l) {
      EXPECT_EQ(lists.step(0).ids(l).at(t, 0), t);
      EXPECT_EQ(lists.step(0).ids(l).at(t, 1), (t + 1 + l) % 8);
      EXPECT_EQ(logits.step(0).ids(l).at(t, 0), t);
      EXPECT_EQ(logits.step(0).ids(l).at(t, 1), t + 2);
    }
  }
}

TEST(Formats, OfFlameSayNoSequences) {
  const ScratchFolder scratch;
  const auto imported = import_trace("flame", options_of(formats() + "/flame", scratch / "out"));
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].message, testing::HasSubstr("taken as sequences of 2048"));
  const auto trace = RoutingTrace::open(scratch / "out");
  EXPECT_EQ(trace.info().layers, (std::vector{1, 2}));  // layer_02 and layer_03
  EXPECT_THAT(trace.step(0).sequence_lengths(), testing::ElementsAre(9));
  for (int t = 0; t < 9; ++t) {
    for (int l = 0; l < 2; ++l) {
      for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(trace.step(0).ids(l).at(t, k), choice(t, l + 1)[static_cast<std::size_t>(k)]);
      }
      EXPECT_NEAR(trace.step(0).weight(l, t, 0), 0.5 + 1.0 / (2 + t % 4), 3e-4);  // half floats
    }
  }
}

TEST(Formats, RoutesAreReadHoweverTheyAreEncoded) {
  for (const auto& [folder, kind] :
       std::map<std::string, std::string>{{"sglang-routes-nvext", "sglang-routes"},
                                          {"vllm-routes-nvext", "vllm-routes"},
                                          {"vllm-routes-coded", "vllm-routes"}}) {
    const ScratchFolder scratch;
    import_trace(kind, options_of(formats() + "/" + folder, scratch / "out"));
    const auto trace = RoutingTrace::open(scratch / "out");
    ASSERT_EQ(trace.total_tokens(), 9) << folder;
    EXPECT_THAT(trace.step(0).sequence_lengths(), testing::ElementsAre(5, 4));
    for (int t = 0; t < 9; ++t) {
      for (int k = 0; k < 2; ++k) {
        EXPECT_EQ(trace.step(0).ids(1).at(t, k), choice(t, 2)[static_cast<std::size_t>(k)])
            << folder;
      }
    }
  }
}

TEST(Formats, DraftModelsAreLeftOut) {
  const ScratchFolder scratch;  // the recorder's files hold a record of one
  const auto report =
      import_trace("sglang-recorder", options_of(formats() + "/sglang-recorder", scratch / "out"))
          .report;
  EXPECT_THAT(report, testing::HasSubstr("tokens     9\n"));
}

TEST(Formats, MoreChoicesThanTheRecorderHolds) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/sglang-recorder", scratch / "out");
  options.experts = 16;
  options.top_k = 10;
  EXPECT_THAT(error_of([&] { import_trace("sglang-recorder", options); }),
              testing::HasSubstr("has 8 choices per token but top-k is 10"));
}

TEST(Formats, CountsThatRanksShareAreSaid) {
  const ScratchFolder scratch;
  const auto imported =
      import_trace("trtllm-counts", options_of(formats() + "/same-counts", scratch / "out"));
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_THAT(imported.warnings[0].message,
              testing::HasSubstr("ranks 0 and 1 have the same counts in every layer"));
}

TEST(Formats, MicrobatchesThatLackLayersAreLeftOut) {
  const ScratchFolder scratch;
  const auto report =
      import_trace("ultraep", options_of(formats() + "/ultraep", scratch / "out")).report;
  EXPECT_THAT(report, testing::HasSubstr("1 row: of microbatches that lack layers"));
}

/// Of formats that count: the loads of the routing, by rank where ranks are known.
void expect_loads(const std::string& kind, const std::string& folder, std::size_t sequences) {
  const ScratchFolder scratch;
  import_trace(kind, options_of(formats() + "/" + folder, scratch / "out"));
  EXPECT_TRUE(verify_trace(scratch / "out").empty());
  const auto trace = RoutingTrace::open(scratch / "out");
  ASSERT_TRUE(trace.info().counts_alone);
  ASSERT_EQ(trace.step_count(), 1);
  const TraceStep& step = trace.step(0);
  EXPECT_EQ(step.sequence_lengths().size(), sequences);
  for (int l = 0; l < 2; ++l) {
    std::array<std::array<int, 8>, 2> found{}, expected{};
    for (int t = 0; t < 9; ++t) {
      const int source = sequences == 2 && t >= 5 ? 1 : 0;
      for (int k = 0; k < 2; ++k) {
        ++found[source][step.ids(l).at(t, k)];
        ++expected[source][choice(t, l + 1)[k]];
      }
    }
    EXPECT_EQ(found, expected) << kind << ", layer " << l;
  }
}

TEST(Formats, OfCountsGiveTheLoads) {
  expect_loads("sglang-counts", "sglang-counts", 2);
  expect_loads("sglang-counts", "sglang-stat", 9);
  expect_loads("sglang-counts", "sglang-counts-csv", 2);
  expect_loads("sglang-counts", "sglang-counts-json", 9);
  expect_loads("sglang-counts", "sglang-counts-flat-json", 9);
  expect_loads("sglang-counts", "sglang-counts-passes-json", 2);
  expect_loads("table", "table-counts", 9);
  expect_loads("trtllm-counts", "trtllm-counts", 2);
  expect_loads("moe-infinity", "moe-infinity", 2);
  expect_loads("harmoeny", "harmoeny", 2);
  expect_loads("ultraep", "ultraep", 9);
}

}  // namespace
}  // namespace moesim
