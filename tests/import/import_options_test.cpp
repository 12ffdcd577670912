// SPDX-License-Identifier: Apache-2.0
// What an import takes from its options, what it warns of, and other ways to write the same.
#include <gmock/gmock.h>

#include "sim/trace/npy.h"
#include "sim/trace/verify.h"
#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// What the Error of importing a sound recording with changed options says.
template <class Change>
std::string refused(const char* kind, const std::string& folder, Change change) {
  const ScratchFolder scratch;
  ImportOptions options = options_of(formats() + "/" + folder, scratch / "out");
  change(options);
  const std::string text = error_of([&] { import_trace(kind, options); });
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  return text;
}

std::string warnings_of(const Imported& imported) {
  std::string text;
  for (const Diagnostic& warning : imported.warnings) text += warning.str();
  return text;
}

/// Whether it holds the routing of formats.py, in sequences of 5 and 4 tokens.
void expect_routing(const std::string& folder) {
  EXPECT_TRUE(verify_trace(folder).empty());
  const auto trace = RoutingTrace::open(folder);
  ASSERT_EQ(trace.total_tokens(), 9);
  EXPECT_EQ(trace.info().layers, (std::vector{1, 2}));
  int token = 0;
  for (int s = 0; s < trace.step_count(); ++s) {
    for (std::int64_t t = 0; t < trace.step(s).tokens(); ++t, ++token) {
      for (int l = 0; l < 2; ++l) {
        const IdRows ids = trace.step(s).ids(l);
        EXPECT_EQ(
            (std::vector<int>{static_cast<int>(ids.at(t, 0)), static_cast<int>(ids.at(t, 1))}),
            choice(token, l + 1))
            << token;
      }
    }
  }
}

TEST(ImportOptionsTest, PicklesOfEveryProtocolAreRead) {
  for (const char* protocol : {"2", "4"}) {
    const ScratchFolder scratch;
    import_trace("nemo-rl",
                 options_of(formats() + "/pickles/protocol" + protocol, scratch / "out"));
    expect_routing(scratch / "out");
  }
}

/// What the lines of a trace of Megatron refer to is in files next to them.
TEST(ImportOptionsTest, FilesNextToTheLinesOfATraceAreNotRead) {
  const ScratchFolder scratch;
  fs::copy(formats() + "/megatron-trace", scratch / "in", fs::copy_options::recursive);
  write_bytes(scratch / "in/router_trace_rank0.bin", "x");
  write_bytes(scratch / "in/router_trace_rank0.pt", "x");
  import_trace("megatron-trace", options_of(scratch / "in", scratch / "out"));
  EXPECT_TRUE(verify_trace(scratch / "out").empty());
  EXPECT_EQ(RoutingTrace::open(scratch / "out").total_tokens(), 9);
}

TEST(ImportOptionsTest, RankFilesMayHaveTheirLongName) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "in");
  for (const std::string name :
       {"meta_info.json", "rank0_raw.safetensors", "rank1_raw.safetensors"}) {
    const bool rank = name.starts_with("rank");
    fs::copy(
        formats() + "/trtllm/" + name,
        scratch / "in" +
            (rank ? "/token_selected_experts_" + name.substr(0, 5) + ".safetensors" : "/" + name));
  }
  import_trace("trtllm", options_of(scratch / "in", scratch / "out"));
  expect_routing(scratch / "out");
}

TEST(ImportOptionsTest, NumbersAreInRange) {
  const auto change = [](auto field, auto value) {
    return [=](ImportOptions& o) { o.*field = value; };
  };
  EXPECT_THAT(refused("core12345", "core12345", change(&ImportOptions::top_k, 9)),
              HasSubstr("top-k 9 exceeds the 8 experts"));
  EXPECT_THAT(refused("core12345", "core12345", change(&ImportOptions::top_k, 3)),
              HasSubstr("has 2 choices per token but top-k is 3"));
  EXPECT_THAT(refused("core12345", "core12345", change(&ImportOptions::step_tokens, -1)),
              HasSubstr("--step-tokens is -1"));
  EXPECT_THAT(refused("hf-logits", "hf-logits", change(&ImportOptions::top_k, 0)),
              HasSubstr("logits do not say top-k"));
  EXPECT_THAT(refused("esft", "esft", change(&ImportOptions::top_k, 0)),
              HasSubstr("ESFT files do not say top-k"));
  EXPECT_THAT(refused("hf-logits", "hf-logits", change(&ImportOptions::selects_otherwise, true)),
              HasSubstr("the model's gate does not choose the largest logits"));
}

TEST(ImportOptionsTest, LayersAreThoseOfTheFilesTheFlagsOrTheModel) {
  const auto layers = [](std::vector<int> numbers) {
    return [=](ImportOptions& o) { o.layers = numbers; };
  };
  EXPECT_THAT(refused("core12345", "core12345", layers({1, 2})),
              HasSubstr("says itself which layers it holds"));
  EXPECT_THAT(refused("esft", "esft", layers({1, 2})), HasSubstr("ESFT file names say the layers"));
  EXPECT_THAT(refused("npz", "npz", layers({1, 2, 3})),
              HasSubstr("has 2 layers but --layers names 3"));
  EXPECT_THAT(refused("npz", "npz", layers({1, 1})), HasSubstr("has layer 1 twice"));
  EXPECT_THAT(refused("npz", "npz", layers({4, 5})), HasSubstr("holds no MoE layer of the model"));
  EXPECT_THAT(refused("npz", "npz", [](ImportOptions& o) { o.moe_layers = {}; }),
              HasSubstr("does not say which layers of the model it holds"));
  EXPECT_THAT(refused("core12345", "core12345",
                      [](ImportOptions& o) {
                        o.moe_layers = {1, 2, 4};
                      }),
              HasSubstr("has layers 1, 2 but the model's MoE layers are 1, 2, 4"));
  EXPECT_THAT(
      refused("sglang-routes", "sglang-routes", [](ImportOptions& o) { o.model_layers = 0; }),
      HasSubstr("says neither layers nor top-k of its routes"));
}

TEST(ImportOptionsTest, NumberingSaysHowLayersAreCounted) {
  const auto counted = [](const char* numbering) {
    return [=](ImportOptions& o) { o.numbering = numbering; };
  };
  // As only MoE layers, 2 would be the third of two.
  EXPECT_THAT(refused("megatron-trace", "megatron-trace", counted("moe")),
              HasSubstr("has layers 1, 2, which are not counted so"));
  const ScratchFolder scratch;
  ImportOptions options = options_of(formats() + "/megatron-trace", scratch / "out");
  options.numbering = "from-1";
  options.moe_layers = {};
  import_trace("megatron-trace", options);
  EXPECT_EQ(RoutingTrace::open(options.output).info().layers, (std::vector{0, 1}));
}

TEST(ImportOptionsTest, ArraysAreFoundByTheirNames) {
  EXPECT_THAT(refused("npz", "npz", [](ImportOptions& o) { o.ids = "idz"; }),
              HasSubstr("there is no array 'idz' for the ids\nhint: did you mean 'ids'?"));
  EXPECT_THAT(refused("npz", "npz", [](ImportOptions& o) { o.weights = "seq_len"; }),
              HasSubstr("has shape (2,) but the ids have (9, 2, 2)"));
}

TEST(ImportOptionsTest, RecordingsOfOtherLayersDoNotFitTogether) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "in");
  write_bytes(scratch / "in" + "/a.json", R"([{"1": [[0, 1]], "2": [[0, 1]]}])");
  write_bytes(scratch / "in" + "/b.json", R"([{"1": [[0, 1]], "3": [[0, 1]]}])");
  ImportOptions options = options_of(scratch / "in", scratch / "out");
  options.moe_layers = {};
  EXPECT_THAT(error_of([&] { import_trace("core12345", options); }),
              HasSubstr("has 2 choices of layers 1, 3 but those before have 2 of layers 1, 2"));
}

TEST(ImportWarningsTest, ResponsesWithoutRoutesAreCounted) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "in");
  write_bytes(scratch / "in" + "/a.json",
              R"([{"choices": [{"moe_topk_indices": [[[0, 1], [2, 3]]]}]}, {"choices": []}, {}])");
  const Imported imported =
      import_trace("megatron-routes", options_of(scratch / "in", scratch / "out"));
  EXPECT_THAT(warnings_of(imported), HasSubstr("2 responses have no moe_topk_indices"));
  EXPECT_EQ(RoutingTrace::open(scratch / "out").total_tokens(), 1);
}

TEST(ImportWarningsTest, LongArraysWithoutLengthsAreSeveralSequences) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "in");
  const std::vector<std::int64_t> shape = {300'000, 1, 1};
  write_bytes(scratch / "in" + "/ids.npy", npy_header({'u', 1}, shape) + std::string(300'000, 1));
  ImportOptions options = options_of(scratch / "in", scratch / "out");
  options.moe_layers = {1};
  options.top_k = 1;
  options.order = "tlk";
  EXPECT_THAT(warnings_of(import_trace("npz", options)),
              HasSubstr("all tokens are taken as sequences of 131072 tokens"));
  const RoutingTrace trace = RoutingTrace::open(options.output);
  EXPECT_EQ(trace.step_count(), 3);
  EXPECT_THAT(trace.step(2).sequence_lengths(), ElementsAre(300'000 - 2 * 131'072));
}

TEST(ImportWarningsTest, ArraysWithoutLengthsAreOneSequence) {
  const ScratchFolder scratch;
  fs::create_directory(scratch / "in");
  fs::copy(formats() + "/npy/ids.npy", scratch / "in" + "/ids.npy");
  ImportOptions options = options_of(scratch / "in", scratch / "out");
  options.order = "tlk";
  const Imported imported = import_trace("npz", options);
  EXPECT_THAT(warnings_of(imported),
              HasSubstr("no array of sequence lengths: all tokens are taken as one sequence"));
  EXPECT_THAT(RoutingTrace::open(options.output).step(0).sequence_lengths(), ElementsAre(9));
  options.order = "";
  options.output = scratch / "by-model";
  import_trace("npz", options);
  EXPECT_THAT(RoutingTrace::open(options.output).step(0).sequence_lengths(), ElementsAre(9))
      << "only its layers are two";
  options.moe_layers.clear();
  options.output = scratch / "again";
  EXPECT_THAT(error_of([&] { import_trace("npz", options); }),
              HasSubstr("which axis is the tokens?"));
}

}  // namespace
}  // namespace moesim
