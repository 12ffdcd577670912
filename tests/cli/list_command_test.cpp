// SPDX-License-Identifier: Apache-2.0
// moesim list: each section's table over a folder of data with one file of a kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;

class ListCommand : public testing::Test {
 protected:
  /// Links a shipped file or folder into the data.
  void take(const std::string& path) const {
    fs::create_directories((scratch_.path() / path).parent_path());
    fs::create_symlink(fs::path(MOESIM_ROOT) / path, scratch_.path() / path);
  }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((scratch_.path() / path).parent_path());
    std::ofstream(scratch_.path() / path) << text;
  }
  std::string list(const std::string& what, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"list", what, "--wide"};
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(command, {.folder = "/", .data = scratch_.path()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  const Scratch scratch_;
};

TEST_F(ListCommand, ModelsHaveTheirSizesAndParameters) {
  take("models/moe/gpt-oss-20b.yaml");
  EXPECT_EQ(list("models"),
            "# models (models/moe)\n"
            "model        description                                 experts  top-k  layers  "
            "parameters, 1e9  active  hidden  MoE layers  expert ffn\n"
            "gpt-oss-20b  gpt-oss-20b, 20.9B parameters, 3.6B active       32      4      24  "
            "           20.9     4.2    2880          24        2880\n");
  take("models/dense/gpt-3-175b.yaml");
  EXPECT_EQ(list("dense-models"),
            "# dense models (models/dense)\n"
            "model       description                     layers  parameters, 1e9  hidden    ffn  "
            "vocabulary\n"
            "gpt-3-175b  GPT-3 175B, dense, a plain FFN      96            174.6   12288  49152  "
            "     50257\n");
}

TEST_F(ListCommand, PoliciesAreWords) {
  take("models/system/dedup.yaml");
  EXPECT_EQ(list("policies"),
            "# policies (models/system)\n"
            "policy  routing   placement   dispatch  schedule    description\n"
            "dedup   identity  contiguous  dedup     sequential  one copy per token and GPU, "
            "partial sums on the way back, static experts\n");
}

TEST_F(ListCommand, TransportsSayOnWhichLinksTheyWereMeasured) {
  write("transports/mine.yaml", content(MOESIM_ROOT "/transports/deepep-ll.yaml"));
  const std::string listed = list("transports", {"--columns", "transport,links,SMs"});
  EXPECT_EQ(listed,
            "# transports\n"
            "transport  links                                   SMs\n"
            "mine       nvlink, nic (infiniband), nic (efa-v4)    0\n");
  EXPECT_THAT(list("transports"),
              HasSubstr("transport  links                                   SMs  description "));
}

TEST_F(ListCommand, TransportsWithoutLinksHaveADash) {
  take("transports/ideal.yaml");
  EXPECT_EQ(list("transports", {"--columns", "transport,links"}),
            "# transports\ntransport  links\nideal      -\n");
}

TEST_F(ListCommand, SoftwareAndEnginesNameTheirSource) {
  write("models/software/mine.yaml",
        content(MOESIM_ROOT "/tests/cli/data/models/software/megatron-core.yaml"));
  EXPECT_EQ(list("software"),
            "# software (models/software)\n"
            "software  gradients, B  optimizer, B  ZeRO  description           source\n"
            "mine                 2            12     1  nothing but the plan  a test\n");
  take("models/engine/sglang.yaml");
  EXPECT_THAT(list("engines"), HasSubstr("# engines (models/engine)\n"
                                         "engine  version                   description "));
  EXPECT_THAT(list("engines"), HasSubstr("\nsglang  main of 2026 at 004813e1  SGLang "));
}

TEST_F(ListCommand, ScenariosSayTheFirstSentenceOfTheirComment) {
  write("scenarios/a.yaml", "# One line\n# and another. More\n# of it.\ntopology: x\n# none\n");
  write("scenarios/b.yaml", "# One sentence.\n#\n# not of it\n");
  write("scenarios/c.yaml", "topology: x\n");
  EXPECT_EQ(list("scenarios", {"--format", "csv"}),
            "scenario,description\n"
            "a,One line and another\n"
            "b,One sentence\n"
            "c,\n");
}

TEST_F(ListCommand, TracesHaveTheirSizes) {
  take("traces/tiny-moe-train");
  EXPECT_EQ(list("traces"),
            "# traces\n"
            "trace           description           steps  tokens  layers  experts  top-k\n"
            "tiny-moe-train  training of tiny-moe     20   81920       4       32      4\n");
}

TEST_F(ListCommand, TopologiesHaveTheirSizes) {
  write("topologies/pair.yaml", content(MOESIM_ROOT "/tests/cli/data/topologies/pair.yaml"));
  EXPECT_EQ(list("topologies"),
            "# topologies\n"
            "topology  description                             GPUs  hosts  GPU model\n"
            "pair      two nodes of one GPU behind one switch     2      2      round\n");
}

TEST_F(ListCommand, GpusHaveTheirRates) {
  write("models/gpu/round.yaml", content(MOESIM_ROOT "/tests/cli/data/models/gpu/round.yaml"));
  EXPECT_EQ(list("gpus"),
            "# gpus (models/gpu)\n"
            "gpu       kernels  description  memory  bandwidth         bf16\n"
            "round  data sheet                10 GB     1 TB/s  100 TFLOP/s\n");
}

TEST_F(ListCommand, PublishedTablesHaveTheirFigures) {
  const Outcome papers = run_moesim({"list", "papers"}, {.folder = "/", .data = MOESIM_ROOT});
  EXPECT_THAT(papers.out, HasSubstr("# published tables (moesim papers)\n"
                                    "table                 figures  description\n"));
  EXPECT_THAT(papers.out, HasSubstr("\nautomodel                   4  NeMo AutoModel, FSDP2\n"));
}

TEST_F(ListCommand, SectionsStandApart) {
  const Outcome all = run_moesim({"list"}, {.folder = "/", .data = scratch_.path()});
  for (const char* next :
       {"\n\n# mechanisms\nkind ", "\n\n# topologies\n", "\n\n# importers (moesim trace "}) {
    EXPECT_THAT(all.out, HasSubstr(next));
  }
  EXPECT_THAT(all.out, testing::StartsWith("# policies (models/system)\n"));
  const Outcome none = run_moesim({"list", "gpu"}, {.folder = "/", .data = scratch_.path()});
  EXPECT_EQ(none.err, "error: nothing to list under 'gpu'\nhint: did you mean 'gpus'?\n");
}

TEST_F(ListCommand, TopologiesNameTheGpuOfTheFirstRank) {
  write("topologies/two.yaml",
        "description: two kinds\nsource: s\nvertices:\n"
        "  - {name: a.gpu, kind: gpu, host: a, gpu: round}\n"
        "  - {name: b.gpu, kind: gpu, host: b, gpu: square}\n"
        "links:\n  - {from: a.gpu, to: b.gpu, class: nic, bandwidth: 1 GB/s, latency: 1 us}\n");
  EXPECT_THAT(list("topologies", {"--format", "csv"}), HasSubstr("\ntwo,two kinds,2,2,round\n"));
}

TEST_F(ListCommand, MechanismsAreOfFourKinds) {
  const std::string listed = list("mechanisms", {"--format", "csv"});
  EXPECT_THAT(listed, testing::StartsWith("kind,mechanism,description\n"));
  for (const char* row : {"\nrouting,identity,", "\nplacement,contiguous,", "\ndispatch,dedup,",
                          "\nschedule,sequential,", "\nschedule,overlap,"}) {
    EXPECT_THAT(listed, HasSubstr(row));
  }
}

TEST_F(ListCommand, ImportersSayWhatTheyReadAndNeed) {
  EXPECT_THAT(
      list("importers", {"--format", "csv"}),
      testing::AllOf(HasSubstr("kind,description,flags say\n"),
                     HasSubstr("\nesft,expert_weights_<layer>.txt[.gz],\"experts, top-k\"\n")));
}

// Text starts where its column does, and words of a key stay whatever columns are asked for.
TEST_F(ListCommand, SourcesStandToTheLeftAndNamesAlwaysStay) {
  const std::string text =
      content(MOESIM_ROOT "/tests/cli/data/models/software/megatron-core.yaml");
  write("models/software/mine.yaml", text);
  std::string longer = text;
  longer.replace(longer.find("a test"), 6, "another and longer test");
  write("models/software/other.yaml", longer);
  const std::string listed = list("software");
  EXPECT_THAT(listed,
              HasSubstr("\nmine                 2            12     1  nothing but the plan  "
                        "a test"));
  EXPECT_THAT(listed, HasSubstr("  nothing but the plan  another and longer test\n"));
  EXPECT_EQ(list("software", {"--columns", "software,ZeRO"}),
            "# software (models/software)\nsoftware  ZeRO\nmine         1\nother        1\n");
  const std::string transport = content(MOESIM_ROOT "/transports/ideal.yaml");
  write("transports/mine.yaml", transport);
  take("transports/deepep-ll.yaml");
  EXPECT_THAT(list("transports"), testing::ContainsRegex("\nmine +- +0  [^\n]*[^ ]  [^ ][^\n]*\n"));
}

}  // namespace
}  // namespace moesim
