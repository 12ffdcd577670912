// SPDX-License-Identifier: Apache-2.0
// Subcommands and flags: the help names them, mistakes are reported with what was probably meant.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

const std::string scenario_flags =
    " SCENARIO --topology --model --trace --policy --fidelity --ep --tokens-per-rank --repeat "
    "--steps --layers --pass --set";

struct Help {
  std::string command, names;
};

void PrintTo(const Help& help, std::ostream* out) { *out << help.command; }

class HelpText : public testing::TestWithParam<Help> {};

TEST_P(HelpText, NamesEveryFlag) {
  std::vector<std::string> command = words(GetParam().command);
  command.push_back("--help");
  const Outcome help = run_moesim(command);
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const std::string& name : words(GetParam().names)) EXPECT_THAT(help.out, HasSubstr(name));
}

INSTANTIATE_TEST_SUITE_P(
    Commands, HelpText,
    testing::Values(
        Help{"", "run compare plan explain list topology trace --version"},
        Help{"run", scenario_flags +
                        " --json --workers --bounds --elasticities --synth --transport "
                        "--p2p-order --warmup --attention --memory --accumulate "
                        "--gradient-bytes --optimizer-bytes --tp --cp --pp --vpp --etp "
                        "--global-batch --micro-batch --sequence --pipeline --recompute "
                        "--software --zero --routing --format --columns --wide --sort --quiet "
                        "--report --pictures --every-gpu --every-microbatch --timeline "
                        "--timeline-ranks --timeline-steps --allow-commands"},
        Help{"compare", scenario_flags + " --json --workers --bounds --elasticities --lossy "
                                         "--intervals --expect --tolerance"},
        Help{"plan", scenario_flags + " --out --rows --check --save --nccl-tests"},
        Help{"explain", scenario_flags + " --layer --flow --elasticities --json --allow-commands"},
        Help{"whatif", scenario_flags + " --scale --slow --fail --json --workers --allow-commands"},
        Help{"failures", scenario_flags +
                             " --node-mtbf --together --write --pause --restart --replace "
                             "--interval --workers --allow-commands --format"},
        Help{"sweep", scenario_flags + " --output --workers --shard --merge --slurm --again"},
        Help{"query",
             "FILE --where --by --top --pareto --group --pivot --baseline --not-run --report "
             "--lossy --format"},
        Help{"list", "WHAT policies mechanisms topologies models gpus software engines"},
        Help{"topology", "show check import draw"}, Help{"topology check", "name --set"},
        Help{"topology show", "name --set --json"}, Help{"topology draw", "name --set --out"},
        Help{"trace", "info verify import synth slice"},
        Help{"trace info", "TRACE --ranks --pairs --json"},
        Help{"trace check", "TRACE --model --interval"},
        Help{"trace slice", "TRACE --output --steps --layers --sequences --tokens --name"},
        Help{"trace serve", "TRACE --output --batch --arrivals --rate --seed --least --name"},
        Help{"trace synth",
             "--output --name --tokens --sequences --steps --drift --seed "
             "--workload --fit --experts --top-k --model --layers --skew "
             "--affinity --communities --stickiness --groups --kept-groups"},
        Help{"trace import",
             "KIND INPUT --output --name --model --experts --top-k --layers "
             "--phase --passes --step-tokens --ids --lengths --weights --order "
             "--map --numbering --micro-batch --weight-scale importers"},
        Help{"advise", scenario_flags + " --ask --sla --budget --top --finals --part --workers "
                                        "--lossy --format"},
        Help{"calibrate",
             "LOG --out --name --collective --ranks --hosts --domain --topology "
             "--test --beside --hold-out --reach --in-place --exchange-overhead "
             "--nominal --source --date profile steps"},
        Help{"calibrate profile",
             "TRACE --out --gpu --software --kernels --hold-out "
             "--gpus-per-host --exchange-overhead --format"},
        Help{"calibrate steps", scenario_flags + " --measured --fit --out --format"},
        Help{"explore", scenario_flags + " --port --workers"},
        Help{"export", "placement goal chakra rank-costs"},
        Help{"export placement", scenario_flags + " --out --format --allow-commands"},
        Help{"export goal", scenario_flags + " --out"},
        Help{"export chakra", scenario_flags + " --out"},
        Help{"export rank-costs", "TOPOLOGY --set --size --out"},
        Help{"model import", "FILE --out"}, Help{"new", "FILE --topology --model --trace --for"},
        Help{"papers",
             "TABLE --only --headlines --iterations --serving --engines --traces "
             "--whole --set --fast --leave-out --workers --check --slack --keep "
             "--freeze --score --page --json --format"},
        Help{"place", "--policy --loads"},
        Help{"profile import",
             "TRACE --kernels --unknown "
             "--json --format"},
        Help{"report", "RESULT --output --lossy"}, Help{"topology import", "FILE --gpu --out"},
        Help{"validate", "MEASURED --tolerance --fidelity --topology --set --json profile"},
        Help{"validate profile", "TRACE --scenario --set --steps --kernels --timeline --json"}),
    [](const auto& help) {
      std::string name = help.param.command.empty() ? "moesim" : help.param.command;
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
      return name;
    });

/// The commands with flags: their help ends in two examples, whose flags it names.
TEST(HelpText, ShowsTwoExamples) {
  for (const std::string& command : std::vector<std::string>{"run",
                                                             "compare",
                                                             "plan",
                                                             "explain",
                                                             "whatif",
                                                             "failures",
                                                             "sweep",
                                                             "query",
                                                             "advise",
                                                             "list",
                                                             "model import",
                                                             "report",
                                                             "validate",
                                                             "calibrate",
                                                             "papers",
                                                             "place",
                                                             "topology show",
                                                             "topology check",
                                                             "topology draw",
                                                             "topology import",
                                                             "trace info",
                                                             "trace check",
                                                             "trace verify",
                                                             "trace slice",
                                                             "trace import",
                                                             "trace serve",
                                                             "trace synth",
                                                             "export placement",
                                                             "export goal",
                                                             "export chakra",
                                                             "export rank-costs"}) {
    std::vector<std::string> line = words(command);
    line.push_back("--help");
    const std::string help = run_moesim(line).out;
    const auto at = help.find("Examples:\n");
    ASSERT_NE(at, std::string::npos) << command;
    const std::string flags = help.substr(0, at);
    std::istringstream lines(help.substr(at));
    std::string example;
    std::getline(lines, example);
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(std::getline(lines, example)) << command;
      EXPECT_THAT(example, StartsWith("  moesim " + command + " "));
      EXPECT_LE(example.size(), 80U) << example;
      for (const std::string& word : words(example)) {
        if (!word.starts_with('-') || word.size() == 1) continue;
        EXPECT_THAT(flags, HasSubstr(word));
      }
    }
  }
}

TEST(HelpText, HasGroups) {
  const std::string help = run_moesim({"compare", "--help"}).out;
  std::size_t last = 0;
  for (const char* title : {"\nInputs:\n", "\nSteps:\n", "\nIterations:\n", "\nOutput:\n"}) {
    EXPECT_NE(help.find(title), std::string::npos) << title;
    last = std::max(last, help.find(title));
  }
  EXPECT_LT(help.find("--topology"), help.find("\nSteps:\n"));
  EXPECT_LT(help.find("\nIterations:\n"), help.find("--tp"));
}

struct Mistake {
  std::string arguments, error;
};

void PrintTo(const Mistake& mistake, std::ostream* out) { *out << mistake.arguments; }

class WrongCommandLine : public testing::TestWithParam<Mistake> {};

TEST_P(WrongCommandLine, IsTold) {
  const Outcome outcome = run_moesim(words(GetParam().arguments));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err, GetParam().error);
}

const std::string grid =
    "--topology two-by-two --model hand --trace tests/fixtures/traces/hand --policy megatron "
    "--policy dedup --fidelity analytic";

INSTANTIATE_TEST_SUITE_P(
    All, WrongCommandLine,
    testing::Values(
        Mistake{"comapre x.yaml",
                "error: moesim has no command 'comapre'\nhint: did you mean 'compare'?\n"},
        Mistake{"topology shwo h100",
                "error: moesim topology has no command 'shwo'\nhint: did you mean 'show'?\n"},
        Mistake{"compare --topolgy two-by-two",
                "error: moesim compare has no flag '--topolgy'\n"
                "hint: did you mean '--topology'?\n"},
        Mistake{"run --fidelty=port",
                "error: moesim run has no flag '--fidelty'\nhint: did you mean '--fidelity'?\n"},
        Mistake{"plan --zzz",
                "error: moesim plan has no flag '--zzz'\nhint: moesim plan --help tells more\n"},
        Mistake{"run it.yaml --tensor-model-parallel-size 4",
                "error: moesim run has no flag '--tensor-model-parallel-size'\n"
                "hint: did you mean '--tp'?\n"},
        Mistake{"compare --micro-batch-size=1",
                "error: moesim compare has no flag '--micro-batch-size'\n"
                "hint: did you mean '--micro-batch'?\n"},
        Mistake{"list --context-parallel-size 2",
                "error: moesim list has no flag '--context-parallel-size'\n"
                "hint: moesim list --help tells more\n"},
        Mistake{"compare quickstart --nodes 2",
                "error: moesim compare has no flag '--nodes'\n"
                "hint: --set topology.nodes=N changes it\n"},
        Mistake{"plan --parallel.ep 4 s.yaml",
                "error: moesim plan has no flag '--parallel.ep'\n"
                "hint: keys of files are changed by --set parallel.ep=VALUE\n"},
        Mistake{"list --parallel.ep 4",
                "error: moesim list has no flag '--parallel.ep'\n"
                "hint: moesim list --help tells more\n"},
        Mistake{"compare a.yaml b.yaml",
                "error: moesim compare: 'b.yaml' is one argument too many\n"
                "hint: moesim compare --help tells more\n"},
        Mistake{"run --topology",
                "error: moesim run: --topology needs a value\n"
                "hint: moesim run --help tells more\n"},
        Mistake{"--set topology.nodes=1 compare",
                "error: '--set' stands before the command\n"
                "hint: flags follow it: moesim compare --flag value\n"},
        Mistake{"compare --layers 1,x " + grid,
                "command line: --layers 1,x: error: 'layers.1' must be a whole number, not 'x'\n"},
        Mistake{"run --model hand --model hand",
                "error: moesim run: --model is there more than once\n"
                "hint: moesim run --help tells more\n"},
        Mistake{"compare --workers many",
                "error: moesim compare: --workers: Value many not in range 1 to 1024\n"
                "hint: moesim compare --help tells more\n"},
        Mistake{"compare --model hand --policy dedup",
                "error: no scenario file, and no --topology, --trace\n"
                "hint: name a scenario file, or give these flags; --synth draws a trace\n"},
        Mistake{"topology show two-by-two --set gpu.memory=1",
                "--set gpu.memory=1: error: only a topology is read here, not a gpu\n"
                "hint: topology.PATH=VALUE changes it\n"},
        Mistake{"compare nosuch.yaml", "nosuch.yaml: error: no such file\n"},
        Mistake{"list modles",
                "error: nothing to list under 'modles'\nhint: did you mean 'models'?\n"},
        Mistake{"run " + grid,
                "error: 'run' takes one topology, policy and fidelity; these make 2 cases\n"
                "hint: moesim compare shows several side by side\n"},
        Mistake{"plan " + grid,
                "error: 'plan' takes one topology and one policy; here are 1 topology and 2 "
                "policies\nhint: choose with --policy megatron\n"},
        Mistake{"explain " + grid,
                "error: 'explain' takes one topology and one policy; here are 1 topology and 2 "
                "policies\nhint: choose with --policy megatron\n"},
        Mistake{"explain --flwo",
                "error: moesim explain has no flag '--flwo'\nhint: did you mean '--flow'?\n"},
        Mistake{"compare --ep x " + grid,
                "command line: --ep x: error: 'ep' must be a whole number, not 'x'\n"},
        Mistake{"compare --set topolgy.nodes=1 " + grid,
                "--set topolgy.nodes=1: error: 'set' cannot change 'topolgy.nodes'\n"
                "hint: did you mean 'topology.nodes'?\n"},
        Mistake{"topology check two-by-two --set nodes",
                "error: --set nodes: expected path=value\n"
                "hint: for example --set topology.nodes=8\n"}));

TEST(CommandLine, EmptyValuesAreNotTakenForAbsentOnes) {
  const std::vector<std::string> good = words("compare --topology two-by-two --policy megatron");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--trace", "t", "--model", ""}, "--model : error: 'model' is empty"},
      {{"--model", "m", "--trace", ""}, "--trace : error: 'trace' is empty"},
      {{"--model", "m", "--trace", "t", "--ep", ""},
       "--ep : error: 'ep' must be a whole number, not an empty text"},
      {{"--model", "m", "--trace", "t", "--steps", ""}, "--steps : error: 'steps' cannot be ''"},
      {{"--model", "m", "--trace", "t", "--set", ""},
       "--set : error: 'set' needs input.path=value, not ''"},
      {{"--json", ""}, "'--json' needs the name of a file"},
      {{""}, "the name of the scenario file is empty"}};
  for (const auto& [more, message] : cases) {
    std::vector<std::string> command = good;
    command.insert(command.end(), more.begin(), more.end());
    const Outcome outcome = run_moesim(command);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(more);
    EXPECT_THAT(outcome.err, HasSubstr(message)) << testing::PrintToString(more);
  }
}

// C reads what begins with a zero as octal.
TEST(CommandLine, WholeNumbersAreDecimal) {
  for (const char* number : {"10", "010", "00010", "+010"}) {
    const Outcome shown =
        run_moesim({"trace", "synth", "-o", Scratch().file("t"), "--experts", number, "--top-k",
                    "02", "--layers", "1", "--tokens", "0100"});
    EXPECT_EQ(shown.code, 0) << shown.err;
    EXPECT_THAT(shown.out, HasSubstr("1 step, 100 tokens, 1 layer")) << number;
  }
  EXPECT_THAT(
      run_moesim({"trace", "synth", "--experts", "008", "--top-k", "0", "--layers", "1"}).err,
      testing::Not(HasSubstr("Could not convert")));
}

TEST(CommandLine, NamesThatNoFileCanHaveAreBadInput) {
  const std::string name(300, 'x');  // the file system refuses to look
  const std::vector<std::vector<std::string>> commands = {
      {"compare", name},
      {"run", "--topology", name, "--model", "hand", "--trace", name, "--policy", name},
      on_hand_trace("run", name, {"dedup"}),
      on_hand_trace("compare", "pair", {name + "," + name + "y"}),
      on_hand_trace("run", "pair", {"dedup"}, {"--json", name}),
      {"trace", "info", name}};
  for (const std::vector<std::string>& command : commands) {
    const Outcome outcome = run_moesim(command);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, testing::HasSubstr(name));
  }
}

TEST(CommandLine, TracesAreFoundBesideTheScenarioAndAmongShippedData) {
  const Scratch scratch;
  std::filesystem::create_directory_symlink(MOESIM_ROOT "/tests/fixtures/traces/hand",
                                            scratch.path() / "mine");
  const auto scenario = [&](const std::string& trace) {
    std::ofstream(scratch.file("s.yaml")) << "topology: two-by-two\nmodel: hand\npolicy: dedup\n"
                                          << "trace: " << trace << "\n";
    return std::vector<std::string>{"run", scratch.file("s.yaml")};
  };
  EXPECT_EQ(run_moesim(scenario("mine")).code, 0);
  EXPECT_EQ(run_moesim(scenario("mine"), {.folder = scratch.path()}).code, 0);
  const Outcome absent = run_moesim(scenario("mien"), {.folder = scratch.path()});
  EXPECT_EQ(absent.code, 2);
  EXPECT_THAT(absent.err, HasSubstr("did you mean 'mine'?"));
  const Surroundings shipped{.folder = scratch.path(), .data = MOESIM_ROOT};
  for (const char* name : {"traces/tiny-moe-train", "tiny-moe-train"}) {
    const Outcome outcome =
        run_moesim(words(std::string("run --topology h100-rail --model tiny-moe "
                                     "--policy dedup --steps 0 --trace ") +
                         name),
                   shipped);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
}

TEST(CommandLine, ListShowsEverySection) {
  const Outcome all = run_moesim({"list"});
  EXPECT_EQ(all.code, 0);
  for (const char* title : {"# policies (", "# mechanisms\n", "# topologies\n", "# models (",
                            "# gpus (", "# published tables ("}) {
    EXPECT_THAT(all.out, HasSubstr(title));
  }
  const Outcome gpus = run_moesim({"list", "gpus"});
  EXPECT_EQ(gpus.out,
            "# gpus (models/gpu)\n"
            "gpu       kernels  description  memory  bandwidth         bf16\n"
            "round  data sheet                10 GB     1 TB/s  100 TFLOP/s\n");
  EXPECT_THAT(all.out, HasSubstr(gpus.out));
}

TEST(CommandLine, VersionIsPrinted) {
  const Outcome outcome = run_moesim({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, StartsWith("moesim "));
}

TEST(CommandLine, OutputThatCannotBeWrittenIsAFailure) {
  const Outcome outcome = run_moesim({"list"}, {.output = "/dev/full"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("cannot write"), HasSubstr("No space left on device")));
}

}  // namespace
}  // namespace moesim
