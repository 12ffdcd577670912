// SPDX-License-Identifier: Apache-2.0
// What bash would run, against words that one can tell by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/launched/batch_lines.h"
#include "sim/launched/shell_evaluation.h"
#include "sim/launched/shell_script.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// The words of the last command.
std::vector<std::string> last_words(const std::string& script) {
  const ShellScript read = read_shell_script(script, "a.sh");
  std::vector<std::string> words;
  if (read.commands.empty()) return words;
  for (const LinedText& word : read.commands.back().words) words.push_back(word.text);
  return words;
}

TEST(Shell, QuotesCommentsAndContinuations) {
  EXPECT_THAT(last_words("run 'a b' \"c d\" e\\ f \\\n  g # it's no word\n"),
              ElementsAre("run", "a b", "c d", "e f", "g"));
  EXPECT_THAT(last_words("run a#b \"#c\"; # d"), ElementsAre("run", "a#b", "#c"));
  EXPECT_THAT(last_words("run a\\\r\n b\r\n"), ElementsAre("run", "a", "b"));
}

TEST(Shell, BlanksBehindABackslashAreDoubted) {
  EXPECT_THAT(last_words("run a \\ \n b\\\t\n c\n"), ElementsAre("run", "a", "b", "c"));
  EXPECT_THAT(read_shell_script("run a \\ \n b\n", "a.sh").doubts,
              ElementsAre(HasSubstr("line 1 continues in the next one")));
  EXPECT_THAT(read_shell_script("run \\\n# -a \\\n --b 1\n", "a.sh").doubts,
              ElementsAre(HasSubstr("line 3 begins with --b, which belongs to no command")));
  EXPECT_TRUE(read_shell_script("run a \\\r\n b\\\n c\n", "a.sh").doubts.empty());
}

TEST(Shell, Variables) {
  EXPECT_THAT(last_words("A=1; B=\"x $A\"; run $A ${A} \"$B\" $B '$A'"),
              ElementsAre("run", "1", "1", "x 1", "x", "1", "$A"));
  EXPECT_THAT(last_words("run ${A:-2} ${A-3} ${A:=4}"), ElementsAre("run", "2", "3", "4"));
  EXPECT_THAT(last_words("A=; run ${A:-2} x${A-3} ${A:+4}"), ElementsAre("run", "2", "x"));
  EXPECT_THAT(last_words("A=1; run ${A:+5} ${B+6}"), ElementsAre("run", "5"));
  EXPECT_THAT(last_words(": ${A:=8}; run $A"), ElementsAre("run", "8"));
  EXPECT_THAT(last_words("export A=7 B=8\nrun $A $B"), ElementsAre("run", "7", "8"));
  EXPECT_THAT(last_words("A=1\nA+=2\nrun $A"), ElementsAre("run", "12"));
}

TEST(Shell, Arrays) {
  const std::string array = "A=(\n  --x 1  # it's one\n  \"y z\"\n)\n";
  EXPECT_THAT(last_words(array + "run ${A[@]}"), ElementsAre("run", "--x", "1", "y", "z"));
  EXPECT_THAT(last_words(array + "run \"${A[@]}\""), ElementsAre("run", "--x", "1", "y z"));
  EXPECT_THAT(last_words(array + "run \"${A[*]}\" ${#A[@]} ${A[1]}"),
              ElementsAre("run", "--x 1 y z", "3", "1"));
  EXPECT_THAT(last_words("A=()\nA+=(b)\nrun \"${A[@]}\" c"), ElementsAre("run", "b", "c"));
  EXPECT_THAT(last_words("A=()\nrun \"${A[@]}\" c"), ElementsAre("run", "c"));
}

TEST(Shell, Arithmetic) {
  EXPECT_THAT(last_words("A=4; B=$((A * 2 + $A)); run $B"), ElementsAre("run", "12"));
  EXPECT_EQ(shell_arithmetic("2 * (3 + 4) % 5"), 4);
  EXPECT_EQ(shell_arithmetic("7 / 2 - 1"), 2);
  for (const char* text : {"1 / 0", "x", "1 +", "(1", "9223372036854775807 + 1", ""}) {
    EXPECT_EQ(shell_arithmetic(text), std::nullopt) << text;
  }
}

TEST(Shell, WhatIsNotKnownStays) {
  EXPECT_THAT(last_words("run $A \"${B}\" $(nproc --all) `date +x`"),
              ElementsAre("run", "$A", "${B}", "$(nproc --all)", "`date +x`"));
  EXPECT_THAT(last_words("A=$(cat x)\nrun $A"), ElementsAre("run", "$(cat x)"));
  EXPECT_THAT(last_words("A=a/b\nrun ${A##*/}"), ElementsAre("run", "${A##*/}"));
}

TEST(Shell, Conditions) {
  const auto in_if = [](const std::string& test) {
    return last_words("A=1\nif " + test + "; then\n B=yes\nelse\n B=no\nfi\nrun $B");
  };
  EXPECT_THAT(in_if("[ $A = 1 ]"), ElementsAre("run", "yes"));
  EXPECT_THAT(in_if("[[ $A -gt 1 ]]"), ElementsAre("run", "no"));
  EXPECT_THAT(in_if("[ -z \"$A\" ]"), ElementsAre("run", "no"));
  EXPECT_THAT(in_if("[ $C = 1 ]"), ElementsAre("run", "$B"));
  EXPECT_THAT(in_if("[ $A = 1 ] && [ $C = 1 ]"), ElementsAre("run", "$B"));
  EXPECT_THAT(
      last_words("A=2\nif [ $A = 1 ]; then B=1\nelif [ $A = 2 ]; then B=2\nelse B=3\nfi\nrun "
                 "$B"),
      ElementsAre("run", "2"));
  EXPECT_THAT(last_words("A=1\n[ $A = 1 ] && B=2\n[ $A = 2 ] && B=3\nrun $B"),
              ElementsAre("run", "2"));
  EXPECT_THAT(last_words("A=1\nwhile true; do A=2; done\nrun $A"), ElementsAre("run", "$A"));
  EXPECT_EQ(shell_test({"[", "!", "-n", "", "]"}), true);
  EXPECT_EQ(shell_test({"[", "-f", "x", "]"}), std::nullopt);
}

TEST(Shell, WhatIsAddedUnderAConditionIsMarked) {
  const ShellScript read =
      read_shell_script("A=(--x)\nif [ $C = 1 ]; then A+=(--y); fi\nrun ${A[@]}", "a.sh");
  const auto& words = read.commands.back().words;
  ASSERT_EQ(words.size(), 3U);
  EXPECT_FALSE(words[1].maybe);
  EXPECT_TRUE(words[2].maybe);
}

TEST(Shell, CommandsInStringsAndDocuments) {
  EXPECT_THAT(last_words("A=\"run b\"\nsrun -l sh -c \"$A c\""), ElementsAre("run", "b", "c"));
  EXPECT_THAT(last_words("A='run b'\neval $A c"), ElementsAre("run", "b", "c"));
  const ShellScript read = read_shell_script("cat > ./a.yml <<'EOF'\nb: 1\nEOF\nrun\n", "a.sh");
  EXPECT_EQ(read.documents.at("a.yml").text, "b: 1\n");
  EXPECT_EQ(read.documents.at("a.yml").line(), 2);
  EXPECT_EQ(read.commands.back().words.front().text, "run");
}

TEST(Shell, StringsThatRunThemselvesEnd) {
  const std::string command = "A='bash -c \"$A\"; bash -c \"$A\"; eval $A; eval $A'\n";
  EXPECT_FALSE(last_words(command + "eval $A\n").empty());
}

TEST(Shell, BatchLines) {
  EXPECT_THAT(last_words("#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nrun $SLURM_NNODES "
                         "$SLURM_GPUS_ON_NODE"),
              ElementsAre("run", "4", "8"));
  EXPECT_THAT(last_words("#SBATCH -N 2\nrun $((SLURM_NNODES * 8))"), ElementsAre("run", "16"));
  EXPECT_THAT(last_words("#SBATCH\t-N2\nrun $SLURM_NNODES"), ElementsAre("run", "2"));
  EXPECT_THAT(last_words("#SBATCH --nodes=2 --gpus-per-node=h100:8 # all\n"
                         "run $SLURM_NNODES $SLURM_GPUS_ON_NODE"),
              ElementsAre("run", "2", "8"));
  EXPECT_THAT(last_words("#SBATCH --nodes=2\n#SBATCH --nodes=4\nrun $SLURM_NNODES"),
              ElementsAre("run", "4"))
      << "Slurm takes the last";
  EXPECT_THAT(last_words("#SBATCH --gpus=16\nrun $SLURM_GPUS"), ElementsAre("run", "16"));
}

TEST(Shell, GpusOfGenericResources) {
  const auto count = [](const std::string& value) {
    const TextPart part = gpu_count_in(value);
    return value.substr(part.begin, part.end - part.begin);
  };
  EXPECT_EQ(count("gpu:h100:8,nvme:1"), "8");
  EXPECT_EQ(count("nvme:1,gpu:4"), "4");
  EXPECT_EQ(count("gpu:8(S:0-1)"), "8");
  EXPECT_EQ(count("h100:2"), "2");
  EXPECT_EQ(count("16"), "16");
  EXPECT_THAT(last_words("#SBATCH --gres=nvme:1\nrun $SLURM_GPUS_ON_NODE"),
              ElementsAre("run", "$SLURM_GPUS_ON_NODE"))
      << "not known";
}

TEST(Shell, WordsKnowTheirLines) {
  const ShellScript read = read_shell_script("A=(\n  b\n  c\n)\nrun \\\n  ${A[@]}\n", "a.sh");
  const auto& words = read.commands.back().words;
  ASSERT_EQ(words.size(), 3U);
  EXPECT_EQ(words[0].line(), 5);
  EXPECT_EQ(words[2].line(), 3);
}

TEST(Shell, WhatNothingCloses) {
  const auto error = [](const std::string& script) {
    return error_of([&] { read_shell_script(script, "a.sh"); });
  };
  EXPECT_THAT(error("run\nrun \"b"), HasSubstr("a.sh:2: error: nothing closes this \""));
  EXPECT_THAT(error("A=(1"), HasSubstr("a.sh:1: error: nothing closes this ("));
  EXPECT_THAT(error("run ${A"), HasSubstr("nothing closes"));
  std::string doubling = "A=xxxxxxxxxxxxxxxx\n";
  for (int i = 0; i < 30; ++i) doubling += "A=$A$A\n";
  EXPECT_THAT(error(doubling), HasSubstr("longer than 1 MiB"));
  std::string nested = "run ";
  for (int i = 0; i < 10'000; ++i) nested += "\"$(";
  EXPECT_THAT(error(nested), HasSubstr("nothing closes"));
}

}  // namespace
}  // namespace moesim
