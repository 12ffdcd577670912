// SPDX-License-Identifier: Apache-2.0
// moesim trace synth: draws a synthetic trace.
#include <memory>
#include <numeric>

#include "sim/cli/long_work.h"
#include "sim/cli/trace_command.h"
#include "sim/trace/synth/synth.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

struct SynthFlags {
  std::string output, fit;
  int layers = 1;
  SynthOptions options;
};

void run_synth(const SynthFlags& flags) {
  SynthOptions options = flags.options;
  options.layers.resize(static_cast<std::size_t>(flags.layers));
  std::iota(options.layers.begin(), options.layers.end(), 0);
  LongWork work("drawing");
  const auto progress = work.progress();
  Synthesis synthesis = flags.fit.empty()
                            ? Synthesis(options)
                            : Synthesis(options, RoutingTrace::open(flags.fit), progress);
  auto writer = TraceWriter::create(flags.output, synthesis.info(), TraceWriter::Publish::at_end);
  for (int s = 0; s < options.steps; ++s) writer.append_step(*synthesis.next_step(progress));
  progress(1);
  writer.finish();
  report_written(flags.output);
}

}  // namespace

void add_trace_synth(CommandLine& trace) {
  const auto flags = std::make_shared<SynthFlags>();
  SynthOptions& o = flags->options;
  CommandLine command = trace.add_subcommand("synth", "Draws a synthetic trace");
  command.show_defaults();
  command.add_option("-o,--output", flags->output, "The new trace folder").required();
  command.add_option("--name", o.name, "Name of the trace");
  command.add_option("--tokens", o.tokens, "Tokens per step");
  command.add_option("--sequences", o.sequences, "Sequences per step");
  command.add_option("--steps", o.steps, "Steps");
  command.add_option("--drift", o.drift, "Change of popularity per step, 0 to 1");
  command.add_option("--seed", o.seed, "The same seed gives the same trace");
  Flag fit = command.add_option("--fit", flags->fit,
                                "A trace whose loads, pairs and overlap to reproduce");
  const std::vector<Flag> invented = {
      command.add_option("--experts", o.experts, "Experts per layer"),
      command.add_option("--top-k", o.top_k, "Experts per token"),
      command.add_option("--layers", flags->layers, "MoE layers").range(1, 100000),
      command.add_option("--skew", o.skew, "Zipf exponent of expert popularity"),
      command.add_option("--affinity", o.affinity,
                         "Share of choices from the community of the first one, 0 to 1"),
      command.add_option("--communities", o.communities, "Communities (0: of 8 experts)"),
      command.add_option("--stickiness", o.stickiness,
                         "Probability to keep an expert of the token before, 0 to 1"),
      command.add_option("--groups", o.groups, "Group-limited gate: expert groups"),
      command.add_option("--kept-groups", o.kept_groups, "Groups that a token may use")};
  for (Flag option : invented) fit.excludes(option);
  command.callback([flags] { run_synth(*flags); });
}

}  // namespace moesim
