// SPDX-License-Identifier: Apache-2.0
// What shells and man read, widths of the help, and files that are standard output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string printed(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_moesim(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return outcome.out;
}

TEST(Completion, OfBashAndZshOffersWhatMayComeNext) {
  for (const std::string shell : {"bash", "zsh"}) {
    const std::string script = printed({"completion", shell});
    EXPECT_THAT(script, HasSubstr("case \"$route $word\" in ' run'|' compare'|"));
    EXPECT_THAT(script, HasSubstr("|' topology'|' topology show'|"));
    EXPECT_THAT(script,
                HasSubstr("\n    ' completion') words_there=\"--help bash zsh fish\" ;;\n"));
    EXPECT_THAT(script, HasSubstr("\n    ' man') words_there=\"--help\" ;;\n"));
    EXPECT_THAT(script, HasSubstr("\n    ' trace') words_there=\"info verify check import "));
    EXPECT_THAT(
        script,
        HasSubstr("\n    --fidelity) words_there=\"port flow simgrid analytic\"; return ;;\n"));
    EXPECT_THAT(script, HasSubstr("\n    --workers) words_there=\"\"; return ;;\n"));
    EXPECT_THAT(script, HasSubstr("\n    --topology) words_there=\"$(moesim completion names "
                                  "topologies 2>/dev/null)\"; return ;;\n"));
    EXPECT_THAT(script, Not(HasSubstr("\n    SHELL) ")));
    EXPECT_THAT(script, Not(HasSubstr("\n    --quiet) "))) << "it takes no value";
  }
  EXPECT_THAT(printed({"completion", "bash"}),
              HasSubstr("complete -o default -F _moesim moesim\n"));
  EXPECT_THAT(printed({"completion", "zsh"}), StartsWith("#compdef moesim\n"));
}

TEST(Completion, OfFishIsALinePerWord) {
  const std::string script = printed({"completion", "fish"});
  const auto line = [](const std::string& seen, const std::string& what) {
    return HasSubstr("\ncomplete -c moesim -n '" + seen + "' " + what + "\n");
  };
  EXPECT_THAT(script, line("__fish_use_subcommand",
                           "-f -a run -d 'Simulates one policy on one cluster, layer by layer'"));
  EXPECT_THAT(script, line("__fish_seen_subcommand_from completion", "-a 'bash zsh fish'"));
  EXPECT_THAT(script, line("__fish_seen_subcommand_from completion",
                           "-l help -d 'Print this help message and exit'"));
  EXPECT_THAT(script, HasSubstr("-n '__fish_seen_subcommand_from topology; and not "
                                "__fish_seen_subcommand_from show check draw import' -f -a show "));
  EXPECT_THAT(script, line("__fish_seen_subcommand_from run",
                           "-l workers -r -d 'processes to use (default: all cores)'"));
  EXPECT_THAT(script, line("__fish_seen_subcommand_from run",
                           "-a '(moesim completion names scenarios 2>/dev/null)'"));
  EXPECT_THAT(script, HasSubstr("-l fidelity -r -a 'port flow simgrid analytic' -d 'port "));
}

TEST(Completion, NamesAreThoseOfADataFolder) {
  EXPECT_EQ(printed({"completion", "names", "topologies"}), "pair\ntwo-by-two\n");
  EXPECT_EQ(printed({"completion", "names", "policies"}), "dedup\nmegatron\n");
  EXPECT_EQ(printed({"completion", "names", "scenarios"}), "");
  EXPECT_EQ(printed({"completion", "names", "nonsense"}), "");
}

TEST(ManPage, HasSectionsAndNoCommandsOfRoffInItsText) {
  const std::string page = printed({"man"});
  EXPECT_THAT(page, StartsWith(".TH MOESIM 1 \"\" \"moesim "));
  EXPECT_THAT(page, HasSubstr("\n.SH NAME\nmoesim \\- Simulates mixture\\-of\\-experts "));
  EXPECT_THAT(page, HasSubstr("\n.SH OPTIONS\n.TP\n\\fB\\-h, \\-\\-help\\fR\nPrint this help"));
  EXPECT_THAT(page, HasSubstr("\n.SH COMMANDS\n.SS moesim run\nSimulates one policy"));
  EXPECT_THAT(page, HasSubstr("\n.SS moesim topology show\n"));
  EXPECT_THAT(page, HasSubstr("\n\\fB\\-\\-workers\\fR \\fIVALUE\\fR\nprocesses to use"));
  EXPECT_THAT(page, HasSubstr("\n\\fBSHELL\\fR\nbash, zsh or fish\n.SS moesim man\n"));
  EXPECT_THAT(page, HasSubstr("\n.SH EXIT STATUS\nmoesim help COMMAND tells more.\n"));
}

TEST(HelpText, IsWrappedAtAHundredColumns) {
  const std::string help = printed({"run", "--help"}), column(30, ' ');
  EXPECT_THAT(help, HasSubstr("\n  --workers INT:INT in [1 - 1024]\n" + column +
                              "processes to use (default: all cores)\n"));
  EXPECT_THAT(help,
              HasSubstr("\n  --bounds                    adds tables of lower bounds: of the whole "
                        "step, and of its token\n" +
                        column + "exchanges\n"));
  EXPECT_THAT(help, HasSubstr("\nOutput:\n"));
  std::istringstream lines(help);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  EXPECT_EQ(widest, 100U);
  EXPECT_THAT(printed({"completion", "--help"}),
              HasSubstr("\n  -h,--help                   Print this help message and exit\n"));
}

std::string refused(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_moesim(arguments);
  EXPECT_EQ(outcome.code, 2);
  return outcome.err;
}

TEST(Usage, IsToldInOurWords) {
  EXPECT_EQ(refused({"trace"}),
            "error: moesim trace needs a command\n"
            "hint: one of info, verify, check, import, slice, serve, synth\n");
  EXPECT_EQ(refused({"--json", "x", "run"}),
            "error: '--json' stands before the command\n"
            "hint: flags follow it: moesim run --flag value\n");
  EXPECT_EQ(refused({"x", "run"}),
            "error: 'x' stands before the command\n"
            "hint: flags follow it: moesim run --flag value\n");
  EXPECT_EQ(
      refused({"man", "x"}),
      "error: moesim man: 'x' is one argument too many\nhint: moesim man --help tells more\n");
  EXPECT_EQ(refused({"list", "--format"}),
            "error: moesim list: --format needs a value\nhint: moesim list --help tells more\n");
  EXPECT_EQ(refused({"list", "policies", "--sort", "a", "--sort", "b"}),
            "error: moesim list: --sort is there more than once\n"
            "hint: moesim list --help tells more\n");
  EXPECT_EQ(refused({"completion", "csh"}),
            "error: completion: 'csh' is not a known shell\nhint: did you mean 'zsh'?\n");
  EXPECT_EQ(refused({"completion"}),
            "error: moesim completion: SHELL is required\n"
            "hint: moesim completion --help tells more\n");
  for (const char* const time : {"5", "0 s", "2 parsecs"}) {
    EXPECT_EQ(refused(on_hand_trace("failures", "pair", {"megatron"}, {"--node-mtbf", time})),
              std::string("error: --node-mtbf: '") + time +
                  "' is not a time\nhint: for example 10min or 90s\n");
  }
  for (const char* const drawn : {"3", "=3"}) {
    EXPECT_EQ(refused({"run", "--synth", drawn}),
              std::string("error: --synth ") + drawn +
                  ": expected KEY=VALUE\nhint: for example --synth skew=0.5,tokens=32768\n");
  }
  EXPECT_EQ(refused({"compare", "--lossy", "perhaps"}),
            "error: moesim compare: --lossy: perhaps not in {never,allow}\n"
            "hint: moesim compare --help tells more\n");
  EXPECT_EQ(refused({"man", "--sort"}),
            "error: moesim man has no flag '--sort'\nhint: moesim man --help tells more\n");
}

TEST(Output, IsNotLostOverAMisspeltColumn) {
  const Outcome outcome = run_moesim(on_hand_trace("run", "pair", {"dedup"}, {"--columns", "x"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.out, HasSubstr("dedup"));
  EXPECT_THAT(outcome.err, HasSubstr("'x'"));
}

TEST(Output, IntoTheFileThatStandardOutputIsStandsAlone) {
  const Scratch scratch;
  Surroundings here;
  here.output = scratch.file("out");
  const auto run = on_hand_trace("run", "pair", {"dedup"}, {"--json", scratch.file("out")});
  const Outcome outcome = run_moesim(run, here);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(content(here.output), StartsWith("{"));
  EXPECT_THAT(outcome.err, HasSubstr("dedup")) << "the table is beside it";
  here.output = scratch.file("other");
  EXPECT_EQ(run_moesim(run, here).code, 0);
  EXPECT_THAT(content(here.output), HasSubstr("dedup"));
  EXPECT_THAT(content(here.output), Not(StartsWith("{")));
  EXPECT_THAT(content(scratch.file("out")), StartsWith("{"));
}

}  // namespace
}  // namespace moesim
