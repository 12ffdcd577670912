// SPDX-License-Identifier: Apache-2.0
// What the help of each command shows below its flags.
#include <fmt/format.h>

#include <map>
#include <string>

#include "sim/cli/commands.h"

namespace moesim {
namespace {

struct Examples {
  const char *first, *second;
};

/// Two of each command that has flags.
const std::map<std::string, Examples> examples = {
    {"advise",
     {"--topology h100-rail --model gpt-oss-20b --trace tiny-moe-train",
      "iteration --policy llep --ask pp,recompute"}},
    {"calibrate",
     {"nccl.log -o nvlink.calib.yaml --nominal \"450 GB/s\"", "nccl.log --hold-out 2"}},
    {"calibrate profile",
     {"rank0.json.gz --gpu h100-measured -o mine", "step.json --gpu h100-measured -o mine"}},
    {"compare",
     {"quickstart --topology h100-rail --report quickstart.html",
      "iteration --set topology.nodes=4 --set 'topology.price=2.5 $/h'"}},
    {"explain", {"quickstart --topology h100-rail --policy dedup", "iteration --policy llep"}},
    {"explore", {"quickstart", "iteration --set topology.nodes=4 --port 9000"}},
    {"export chakra",
     {"quickstart --topology h100-rail --policy dedup -o rank", "iteration --policy llep -o rank"}},
    {"export goal",
     {"quickstart --topology h100-rail --policy dedup -o step.goal",
      "iteration --policy llep -o iteration.goal"}},
    {"export placement",
     {"my-run.yaml --policy eplb --format trtllm -o eplb.yaml",
      "my-run.yaml --policy eplb --format sglang -o eplb.json"}},
    {"export rank-costs", {"h100-rail", "h100-rail --set topology.nodes=8 --size \"64 kB\""}},
    {"failures",
     {"quickstart --policy dedup,lazarus --node-mtbf 2000h",
      "iteration --policy llep --node-mtbf 500h --replace 10min"}},
    {"list", {"policies", "topologies --format markdown"}},
    {"model import", {"config.json -o my-model.yaml", "config.json"}},
    {"new", {"my-run.yaml", "my-run.yaml --from train.sh --topology h100-rail --trace drawn"}},
    {"papers", {"--headlines", "--only deepep-*"}},
    {"place", {"--policy eplb --loads loads.json", "--policy llep --loads - < loads.json"}},
    {"plan",
     {"quickstart --topology h100-rail --policy dedup --steps 0 --check",
      "iteration --policy llep -o step.plan"}},
    {"validate profile",
     {"rank0.json.gz --scenario my-run.yaml",
      "rank0.json.gz --scenario my-run.yaml --timeline both.json"}},
    {"profile import",
     {"rank0.json.gz rank1.json.gz", "trace.json --kernels mine.yaml --json profile.json"}},
    {"query",
     {"nics.sqlite --top 3", "nics.sqlite --pivot policy,topology.nodes --where \"ep = 8\""}},
    {"report", {"results.json -o report.html", "sweep.sqlite -o sweep.html"}},
    {"run",
     {"quickstart --topology h100-rail --policy dedup",
      "iteration --policy llep --routing recorded --timeline llep.json"}},
    {"sweep", {"nics.yaml -j 8", "nics.yaml --slurm \"--partition=cpu --array=0-15%4\""}},
    {"topology check", {"my-cluster.yaml", "h100-rail --set topology.nodes=64"}},
    {"topology draw",
     {"hiermoe-a6000 -o cluster.svg", "h100-rail --set topology.nodes=2 -o cluster.dot"}},
    {"topology import",
     {"topo_m.txt topology.conf -o cluster.yaml", "system.xml --gpu h200-measured"}},
    {"topology show", {"h100-rail", "h100-rail --set topology.nodes=64"}},
    {"trace check", {"my-trace --model gpt-oss-20b", "tiny-moe-train --interval 100"}},
    {"trace import",
     {"npz mine.npz -o my-trace --model gpt-oss-20b --layers 0:2",
      "sglang-recorder ranks.pt -o my-trace --model deepseek-v3"}},
    {"trace info", {"tiny-moe-train", "tiny-moe-train --ranks 8,16 --pairs 20"}},
    {"trace serve", {"requests -o served --batch 64", "requests -o served --batch 64 --rate 2"}},
    {"trace slice",
     {"tiny-moe-train -o half --steps 0:10", "tiny-moe-train -o small --tokens 1024"}},
    {"trace synth",
     {"-o drawn --model gpt-oss-20b --tokens 8192 --skew 0.5",
      "-o fitted --fit tiny-moe-train --steps 50"}},
    {"trace verify", {"tiny-moe-train", "my-trace"}},
    {"validate", {"measured.json", "measured.json --topology my-cluster --report fit.html"}},
    {"whatif",
     {"quickstart --topology h100-rail --scale nic.bandwidth=1.5",
      "quickstart --topology h100-rail --slow gpu:3=0.8"}},
};

void add_to(CommandLine command, const std::string& name) {
  for (const CommandLine& below : command.subcommands()) {
    add_to(below, (name.empty() ? "" : name + " ") + below.name());
  }
  const auto found = examples.find(name);
  if (found == examples.end()) return;
  command.footer(fmt::format("Examples:\n  moesim {0} {1}\n  moesim {0} {2}", name,
                             found->second.first, found->second.second));
}

}  // namespace

void add_examples(CommandLine& app) { add_to(app, ""); }

}  // namespace moesim
