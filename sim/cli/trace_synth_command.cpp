// SPDX-License-Identifier: Apache-2.0
// moesim trace synth: draws a synthetic trace.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/most.h"
#include "sim/cli/long_work.h"
#include "sim/cli/trace_command.h"
#include "sim/model/layer_numbers.h"
#include "sim/trace/synth/synth.h"
#include "sim/trace/synth/workload.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

struct SynthFlags {
  std::string output, fit, workload, model, layers = "1";
  bool experts_given = false, top_k_given = false;
  SynthOptions options;
};

/// COUNT layers from 0 on, or FIRST:COUNT; of a model its first COUNT MoE layers.
std::vector<int> synth_layers(const std::string& text, const std::optional<MoeModel>& model) {
  const bool has_first = text.find(':') != std::string::npos;
  const auto [first, count] = pair_of("--layers", has_first ? text : "0:" + text);
  const auto most = model && !has_first ? static_cast<int>(model->moe_layers.size())
                                        : max_layer_number - std::min(first, max_layer_number);
  if (most < 1) {
    throw Error(
        fmt::format("--layers: from layer {} on; the last is {}", first, max_layer_number - 1));
  }
  if (count < 1 || count > most) {
    throw Error(fmt::format("--layers: {}; there are from 1 to {}", counted(count, "layer"), most));
  }
  if (model && !has_first) return {model->moe_layers.begin(), model->moe_layers.begin() + count};
  std::vector<int> layers(static_cast<std::size_t>(count));
  std::iota(layers.begin(), layers.end(), first);
  const auto dense = model ? dense_layers(layers, *model) : std::vector<int>{};
  if (!dense.empty()) throw Error("--layers: " + dense_layers_text(dense, *model));
  return layers;
}

void run_synth(const SynthFlags& flags) {
  SynthOptions options = flags.options;
  std::optional<MoeModel> model;
  if (!flags.model.empty()) {
    model = read_moe_model(data_file("models", flags.model));
    if (model->experts == 0) {
      throw Error("--model: " + dense_layers_text({}, *model), "name a model with experts");
    }
    options.model = model->name;
    if (!flags.experts_given) options.experts = model->experts;
    if (!flags.top_k_given) options.top_k = model->top_k;
  }
  options.layers = synth_layers(flags.layers, model);
  LongWork work("drawing");
  const auto progress = work.progress();
  const auto write = [&](auto synthesis) {
    auto writer = TraceWriter::create(flags.output, synthesis.info(), TraceWriter::Publish::at_end);
    for (int s = 0; s < options.steps; ++s) writer.append_step(*synthesis.next_step(progress));
    progress(1);
    writer.finish();
    report_written(flags.output);
  };
  if (!flags.workload.empty()) {
    write(WorkloadSynthesis(options, workload_of(flags.workload)));
  } else if (!flags.fit.empty()) {
    write(Synthesis(options, RoutingTrace::open(flags.fit), progress));
  } else {
    write(Synthesis(options));
  }
}

}  // namespace

void add_trace_synth(CommandLine& trace) {
  const auto flags = std::make_shared<SynthFlags>();
  SynthOptions& o = flags->options;
  CommandLine command = trace.add_subcommand("synth", "Draws a synthetic trace");
  command.show_defaults();
  command.add_option("-o,--output", flags->output, "the new trace folder").required();
  command.add_option("--name", o.name, "name of the trace");
  command.add_option("--tokens", o.tokens, "tokens per step");
  command.add_option("--sequences", o.sequences, "sequences per step");
  command.add_option("--steps", o.steps, "steps");
  Flag drift = command.add_option("--drift", o.drift, "change of popularity per step, 0 to 1");
  command.add_option("--seed", o.seed, "the same seed gives the same trace");
  Flag workload = command.add_option("--workload", flags->workload,
                                     "W0 to W7 of the benchmark proposed for Megatron-LM");
  Flag fit =
      command.add_option("--fit", flags->fit, "trace whose loads, pairs and overlap to reproduce");
  Flag experts = command.add_option("--experts", o.experts, "experts per layer");
  Flag top_k = command.add_option("--top-k", o.top_k, "experts per token");
  const std::vector<Flag> shape = {
      command.add_option("--model", flags->model, "model whose experts, top-k and layers to take"),
      experts, top_k,
      command.add_option("--layers", flags->layers,
                         "MoE layers: COUNT, or FIRST:COUNT to number them from FIRST on")};
  const std::vector<Flag> invented = {
      command.add_option("--skew", o.skew, "Zipf exponent of expert popularity"),
      command.add_option("--affinity", o.affinity,
                         "share of choices from the community of the first one, 0 to 1"),
      command.add_option("--communities", o.communities, "communities (0: of 8 experts)"),
      command.add_option("--stickiness", o.stickiness,
                         "probability to keep an expert of the token before, 0 to 1"),
      command.add_option("--groups", o.groups, "group-limited gate: expert groups"),
      command.add_option("--kept-groups", o.kept_groups, "groups that a token may use")};
  for (Flag option : shape) fit.excludes(option);
  for (Flag option : invented) {
    fit.excludes(option);
    workload.excludes(option);
  }
  workload.excludes(fit);
  workload.excludes(drift);
  command.callback([flags, experts, top_k] {
    flags->experts_given = experts.given();
    flags->top_k_given = top_k.given();
    run_synth(*flags);
  });
}

}  // namespace moesim
