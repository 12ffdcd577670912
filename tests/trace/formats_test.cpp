// SPDX-License-Identifier: Apache-2.0
// Every format of formats.py gives the same routing, every trap its message, and no damaged file
// more than an error.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <random>

#include "sim/trace/import/importer.h"
#include "sim/trace/verify.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

namespace fs = std::filesystem;

/// The files of formats.py, written once.
const std::string& formats() {
  static const ScratchFolder folder;
  static const bool written = std::system(("python3 " + std::string(MOESIM_ROOT) +
                                           "/tests/trace/formats.py " + folder.path())
                                              .c_str()) == 0;
  EXPECT_TRUE(written);
  return folder.path();
}

/// The model that formats.py describes.
ImportOptions options_of(const std::string& input, const std::string& output) {
  ImportOptions options;
  options.inputs = {input};
  options.output = output;
  options.experts = 8;
  options.top_k = 2;
  options.moe_layers = {1, 2};
  options.model_layers = 3;
  return options;
}

/// What formats.py calls choice().
std::vector<int> choice(int token, int layer) {
  const int first = (3 * token + 5 * layer) % 8;
  return {first, (first + 1 + token % 3) % 8};
}

struct Format {
  const char* kind;
  const char* dropped;  // rows that it leaves out
  Phase phase = Phase::mixed;
  bool ranks = false;   // source ranks are recorded
  bool sorted = false;  // by id, not by weight
  int steps = 1;
};

const std::vector<Format> all_formats = {
    {"sglang-recorder", "9 rows: of dense layers\ndropped    15 rows: of idle passes",
     Phase::prefill, true},
    {"sglang-routes", "9 rows: of dense layers"},
    {"vllm-routes", "4 rows: of dense layers\ndropped    2 rows: of padding (-1)"},
    {"megatron-routes", "nothing"},
    {"trtllm", "nothing", Phase::mixed, true},
    {"megatron-trace",
     "9 rows: of multi-token prediction\ndropped    18 rows: that repeat a layer's microbatch "
     "(recomputed activations)",
     Phase::training, true, true},
    {"trace-v1", "nothing", Phase::training, true},
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

std::string test_name(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, FormatTest, testing::ValuesIn(all_formats),
                         [](const auto& format) { return test_name(format.param.kind); });

struct Trap {
  const char* name;
  const char* kind;
  const char* message;
};

const std::vector<Trap> traps = {
    {"slot-beyond-map", "sglang-recorder", "layer 1, token 0: expert 12 of a model with 8 experts"},
    {"dense-layer-chose", "sglang-recorder",
     "layer 0 is dense in the model but token 0 chose expert 1"},
    {"lengths-beyond", "sglang-recorder", "its requests add up to 9 tokens but the ids have 5"},
    {"pass-twice", "sglang-recorder", "pass 7 of rank 0 is recorded twice"},
    {"per-pass", "sglang-recorder", "holds counts of passes (mode per_pass)"},
    {"stat", "sglang-recorder", "holds counts of experts (mode stat)"},
    {"one-layer-recorded", "sglang-recorder",
     "layer 2, token 0: expert -1 of a model with 8 experts"},
    {"map-of-other-layers", "sglang-recorder",
     "has 3 layers but its map of slots is int64 (2, 10)"},
    {"other-model", "sglang-routes", "a token of 3 layers has 2 choices of int32 each, 24 bytes"},
    {"not-base64", "sglang-routes", "holds text that is not base64"},
    {"unknown-dtype", "sglang-routes", "holds routes of the unknown type \"int4\""},
    {"narrow-ids", "sglang-routes", "layer 0 is dense in the model but token 0 chose expert 300"},
    {"shared-expert", "sglang-routes", "layer 1, token 0: expert 8 of a model with 8 experts"},
    {"stale-zeros", "sglang-routes", "layer 1, token 5: expert 0 is chosen twice"},
    {"ragged", "vllm-routes", "holds routes of different lengths"},
    {"wrapped", "vllm-routes", "layer 1, token 0: expert 255 of a model with 8 experts"},
    {"object-npy", "vllm-routes", "holds Python objects"},
    {"slots-in-meta", "trtllm", "has 10 experts but the flags say 8"},
    {"missing-layer", "trtllm", "lacks layer 2 of iteration 30"},
    {"counts-only", "trtllm", "has no rank<r>_raw.safetensors"},
    {"dropped-tokens", "megatron-trace", "layer 2 has 1 microbatches but another layer has 2"},
    {"other-numbering", "megatron-trace", "has layers 5, 6, and does not say how they are counted"},
    {"uneven-rows", "megatron-trace", "has 5 rows of 10 ids in all where 5 x 3 are due"},
    {"version-2", "trace-v1", "is of schema version 2; 1 is read"},
    {"other-shape", "trace-v1", "holds int64 (9, 2) but the manifest says 9 tokens of 3 choices"},
    {"no-mask", "verl", "has no 'attention_mask': its padding is 0, a sound id"},
    {"hole-in-mask", "verl", "row 0 has padding between its tokens"},
    {"r2-beyond-uint8", "verl", "layer 1, token 0: expert 200 of a model with 8 experts"},
    {"logits-of-other-model", "hf-logits", "not logits [token][8 experts]"},
    {"no-number", "hf-logits", "token 0 has a logit that is no number"},
    {"layers-change", "core12345", "lacks layers of the prefill"},
    {"code", "verl", "holds a posix.system, which only its code can load"},
    {"beyond-storage", "nemo-rl", "reaches beyond its storage"},
    {"absurd-shape", "nemo-rl", "is a tensor (1099511627776, 1099511627776, 2) of 8 stored"},
    {"broadcast", "nemo-rl", "is a tensor (1073741824, 2, 2) of 8 stored elements"},
    {"old-torch", "nemo-rl", "is not a sound zip archive"}};

class TrapTest : public testing::TestWithParam<Trap> {};

TEST_P(TrapTest, IsRefusedWithItsMessage) {
  const Trap& trap = GetParam();
  const ScratchFolder scratch;
  const auto options = options_of(formats() + "/wrong/" + trap.name, scratch / "out");
  EXPECT_THAT(error_text([&] { import_trace(trap.kind, options); }),
              testing::HasSubstr(trap.message));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

INSTANTIATE_TEST_SUITE_P(All, TrapTest, testing::ValuesIn(traps),
                         [](const auto& trap) { return test_name(trap.param.name); });

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

TEST(Formats, PassesOfOneKindAlone) {
  const ScratchFolder scratch;
  auto options = options_of(formats() + "/sglang-recorder", scratch / "out");
  options.passes = Phase::decode;
  EXPECT_THAT(error_text([&] { import_trace("sglang-recorder", options); }),
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
  expect_loads("trtllm-counts", "trtllm-counts", 2);
}

/// Damages one file in place: cut, bits turned, bytes repeated.
std::string damaged(std::string bytes, int variant, std::mt19937& random) {
  const auto any = [&] { return random() % bytes.size(); };
  if (variant % 4 == 0) return bytes.substr(0, any());
  if (variant % 4 == 1) {
    bytes[any()] ^= static_cast<char>(1 << random() % 8);
  } else if (variant % 4 == 2) {
    for (int i = 0; i < 8; ++i) bytes[any()] = static_cast<char>(random() % 256);
  } else {
    const std::size_t at = any();
    bytes.insert(at, bytes.substr(at, 1 + random() % 64));
  }
  return bytes;
}

/// Imports a hundred damaged variants; every one is an Error or a sound trace.
int import_damaged(const Format& format, const std::string& folder) {
  std::mt19937 random(1);
  std::vector<std::string> files;
  fs::copy(formats() + "/" + format.kind, folder + "/in", fs::copy_options::recursive);
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/in")) {
    if (entry.is_regular_file()) files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  int errors = 0;
  for (int variant = 0; variant < 100; ++variant) {
    const std::string& file = files[static_cast<std::size_t>(variant) / 4 % files.size()];
    const std::string sound = read_bytes(file);
    write_bytes(file, damaged(sound, variant, random));
    try {
      import_trace(format.kind, options_of(folder + "/in", folder + "/out"));
      if (!verify_trace(folder + "/out").empty()) return -1;
    } catch (const Error&) {
      ++errors;
    }
    if (fs::exists(folder + "/.out.part")) return -2;
    fs::remove_all(folder + "/out");
    write_bytes(file, sound);
  }
  return errors;
}

TEST_P(FormatTest, DamagedFilesAreErrors) {
  formats();
  const ScratchFolder scratch;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // so that nothing but this loop counts
    ::alarm(60);
    int errors = -3;
    try {
      errors = import_damaged(GetParam(), scratch.path());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
    ::_exit(errors < 0 ? 200 - errors : errors);
  }
  int status = 0;
  rusage used{};
  ASSERT_EQ(::wait4(child, &status, 0, &used), child);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_GT(WEXITSTATUS(status), 50);
  EXPECT_LE(WEXITSTATUS(status), 100);
  EXPECT_LT(used.ru_maxrss, 200'000);  // KiB
}

}  // namespace
}  // namespace moesim
