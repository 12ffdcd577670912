// SPDX-License-Identifier: Apache-2.0
// What others wrote, made into models, topologies and traces; and traces that are drawn.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string fixtures = MOESIM_ROOT "/tests/fixtures/";

TEST(ImportCommands, ModelsSayWhatTheyHaveAndWhereItIsFrom) {
  const Scratch scratch;
  const Outcome sparse = run_moesim({"model", "import", fixtures + "hf/latent.json"});
  EXPECT_EQ(sparse.err, "latent: 3 layers, 2 of them with 8 experts\n");
  EXPECT_THAT(sparse.out, AllOf(StartsWith("name: 'latent'\ndescription: 'deepseek_v3 of "
                                           "latent.json'\nsource: config.json of Hugging Face\n"),
                                HasSubstr("\nhidden: 64  # config.json\n"),
                                HasSubstr("\nmtp: 1  # config.json\n")));
  std::ofstream(scratch.file("one.json"))
      << R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "vocab_size": 100,
             "num_hidden_layers": 1, "num_attention_heads": 4})";
  const Outcome dense =
      run_moesim({"model", "import", scratch.file("one.json"), "-o", scratch.file("one.yaml")});
  EXPECT_EQ(dense.out, "one: 1 layer, dense\n") << dense.err;
  EXPECT_THAT(content(scratch.file("one.yaml")), StartsWith("name: 'one'\n"));
  EXPECT_THAT(run_moesim({"model", "import", fixtures + "clusters/matrix.txt"}).err,
              HasSubstr("matrix.txt: error: is not a config.json of Hugging Face\n"));
}

TEST(ImportCommands, TopologiesSayHowMuchIsAssumed) {
  const Scratch scratch;
  const auto imported = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"topology", "import", fixtures + "clusters/matrix.txt"};
    line.insert(line.end(), more.begin(), more.end());
    return run_moesim(line, {.data = MOESIM_ROOT});
  };
  const Outcome printed = imported({"--gpu", "h100-measured"});
  EXPECT_THAT(printed.out, HasSubstr("\n  gpus: 2  # read: matrix.txt\n"));
  EXPECT_EQ(printed.err, "2 GPUs on 1 host, 7 values assumed\n");
  const Outcome written = imported({"--gpu", "h100-measured", "-o", scratch.file("mine.yaml")});
  EXPECT_EQ(written.out, "2 GPUs on 1 host, 7 values assumed\n");
  EXPECT_EQ(written.err, "");
  EXPECT_EQ(content(scratch.file("mine.yaml")), printed.out);
}

TEST(ImportCommands, TopologiesOfGpusWithoutAModelSaySo) {
  const Scratch scratch;
  std::ofstream(scratch.file("t4.txt"))
      << "GPU 0: Tesla T4 (UUID: GPU-1)\n\tGPU0\tGPU1\nGPU0\t X \tSYS\nGPU1\tSYS\t X \n";
  const auto said = [&](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"topology", "import", scratch.file("t4.txt"), "-o",
                                     scratch.file("t4.yaml")};
    line.insert(line.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(line, {.data = MOESIM_ROOT});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_EQ(said({}), scratch.file("t4.yaml") +
                          ": warning: no 'tesla-t4' in models/gpu: nothing runs on this cluster "
                          "yet\nhint: --gpu takes a name of moesim list gpus; or write a file of "
                          "models/gpu\n");
  EXPECT_EQ(said({"--gpu", "a100-measured"}), "");
}

TEST(ImportCommands, ADashIsNoFile) {
  const Scratch scratch;
  const std::string hint =
      "-: error: standard input is not read here\nhint: give the name of a file\n";
  for (const std::vector<std::string>& line :
       std::vector<std::vector<std::string>>{{"model", "import", "-"},
                                             {"calibrate", "-"},
                                             {"report", "-", "-o", scratch.file("r.html")},
                                             {"topology", "show", "-"}}) {
    EXPECT_EQ(run_moesim(line).err, hint) << line[0];
  }
}

/// What an import of a trace says is wrong, with models of moesim or with the hand-sized one.
std::string refused_import(const std::vector<std::string>& more, bool shipped) {
  const Scratch scratch;
  std::ofstream(scratch.file("r.json")) << R"({"routed_experts": "AAAA"})";
  std::vector<std::string> line = {"trace", "import",           more[0], scratch.file("r.json"),
                                   "-o",    scratch.file("new")};
  line.insert(line.end(), more.begin() + 1, more.end());
  Surroundings here;
  if (shipped) here.data = MOESIM_ROOT;
  return run_moesim(line, here).err;
}

TEST(ImportCommands, TracesTakeLayersAndChoicesOfTheModelUnlessTold) {
  const auto row = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"vllm-routes", "--model", "hand"};
    words.insert(words.end(), more.begin(), more.end());
    return refused_import(words, false);
  };
  EXPECT_THAT(row({}), HasSubstr("a token of 2 layers has 2 choices of int32 each, 16 bytes\n"));
  EXPECT_THAT(row({"--top-k", "3"}), HasSubstr("2 layers has 3 choices of int32 each, 24 bytes\n"));
  EXPECT_THAT(row({"--layers", "0:3"}),
              HasSubstr("3 layers has 2 choices of int32 each, 24 bytes\n"));
  EXPECT_THAT(row({"--top-k", "5"}), HasSubstr("top-k 5 exceeds the 4 experts\n"));
  EXPECT_THAT(row({"--top-k", "5", "--experts", "6"}), HasSubstr("has 5 choices of int32 each"));
  EXPECT_THAT(refused_import({"vllm-routes", "--experts", "4"}, false),
              HasSubstr("give --model, or --layers FIRST:COUNT and --top-k\n"));
  EXPECT_THAT(refused_import({"vllm-routes"}, false),
              HasSubstr("the number of experts is not known"));
}

TEST(ImportCommands, LogitsOfGatesWithBiasOrGroupsDoNotTellChoices) {
  const auto told = HasSubstr("the model's gate does not choose the largest logits");
  for (const char* model : {"deepseek-v3", "deepseek-v2"}) {
    EXPECT_THAT(refused_import({"hf-logits", "--model", model}, true), told) << model;
  }
  for (const char* model : {"gpt-oss-20b", "deepseek-v2-lite"}) {
    EXPECT_THAT(refused_import({"hf-logits", "--model", model}, true),
                HasSubstr("is JSON with the keys routed_experts, not a .pt or .npz"))
        << model;
  }
}

TEST(ImportCommands, DrawnLayersHaveNumbersThatALayerMayHave) {
  const Scratch scratch;
  const auto drawn = [&](const std::string& layers) {
    const Outcome outcome =
        run_moesim({"trace", "synth", "-o", scratch.file("t"), "--layers", layers, "--tokens", "8",
                    "--experts", "4", "--top-k", "2", "--steps", "1"});
    std::filesystem::remove_all(scratch.file("t"));
    return outcome.code == 0 ? "drawn" : outcome.err;
  };
  EXPECT_EQ(drawn("99997:3"), "drawn");
  EXPECT_EQ(drawn("99997:4"), "error: --layers: 4 layers; there are from 1 to 3\n");
  EXPECT_EQ(drawn("100000:1"), "error: --layers: from layer 100000 on; the last is 99999\n");
  EXPECT_EQ(drawn("100001:1"), "error: --layers: from layer 100001 on; the last is 99999\n");
  EXPECT_EQ(drawn("0"), "error: --layers: 0 layers; there are from 1 to 100000\n");
}

TEST(ImportCommands, DrawnTracesHaveWhatTheModelHasUnlessTold) {
  const Scratch scratch;
  const auto drawn = [&](std::vector<std::string> more) {
    const std::string folder = scratch.file("t");
    std::filesystem::remove_all(folder);
    more.insert(more.begin(), {"trace", "synth", "-o", folder, "--tokens", "64", "--steps", "2"});
    const Outcome made = run_moesim(more);
    if (made.code != 0) return made.err;
    EXPECT_THAT(made.out, StartsWith("wrote " + folder + ": 2 steps, 128 tokens, "));
    const std::string info = run_moesim({"trace", "info", folder}).out;
    std::string facts;
    for (const std::string name : {"model ", "experts ", "layers "}) {
      const auto at = info.find("\n" + name) + 25;
      facts += info.substr(at, info.find('\n', at) - at) + "; ";
    }
    return facts;
  };
  EXPECT_EQ(drawn({"--model", "hand"}), "hand; 4, top-2, logical ids; 1 (model layers 0); ");
  EXPECT_EQ(drawn({"--model", "hand", "--experts", "8", "--layers", "2"}),
            "hand; 8, top-2, logical ids; 2 (model layers 0, 1); ");
  EXPECT_EQ(drawn({"--model", "hand", "--top-k", "3", "--layers", "1:1"}),
            "hand; 4, top-3, logical ids; 1 (model layers 1); ");
  EXPECT_EQ(drawn({"--model", "hand", "--layers", "3"}),
            "error: --layers: 3 layers; there are from 1 to 2\n");
  EXPECT_EQ(drawn({"--experts", "6", "--top-k", "1", "--layers", "7:2"}),
            "synthetic; 6, top-1, logical ids; 2 (model layers 7, 8); ");
  EXPECT_EQ(drawn({"--workload", "W1"}), "synthetic; 64, top-8, logical ids; 1 (model layers 0); ");
  EXPECT_EQ(drawn({"--fit", fixtures + "traces/hand"}),
            "hand; 4, top-2, logical ids; 2 (model layers 0, 1); ");
}

}  // namespace
}  // namespace moesim
