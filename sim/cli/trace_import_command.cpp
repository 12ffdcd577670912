// SPDX-License-Identifier: Apache-2.0
// moesim trace import: makes a trace from another format.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/cli/long_work.h"
#include "sim/cli/trace_command.h"
#include "sim/import/importer.h"
#include "sim/model/layer_numbers.h"
#include "sim/model/moe_model.h"
#include "sim/trace/trace_json.h"

namespace moesim {
namespace {

struct ImportFlags {
  std::string kind, model, phase, passes;
  std::vector<std::string> layers;
  ImportOptions options;
};

Phase phase_of(const std::string& text) {
  const auto& names = phase_names();
  const auto at = std::find(names.begin(), names.end(), text);
  if (at == names.end())
    throw Error(fmt::format("'{}' is not a phase", text), did_you_mean(text, names));
  return static_cast<Phase>(at - names.begin());
}

/// Throws Error without inputs. Whoever forgets KIND has given the input in its place.
void check_inputs(const ImportFlags& flags) {
  if (!flags.options.inputs.empty()) return;
  if (!is_there(flags.kind)) throw Error("INPUT is missing", "a file or a folder");
  throw Error(
      fmt::format("'{}' is a file, and its kind must come before it", flags.kind),
      fmt::format("moesim trace import table {} -o NAME, if it is a log with rows per token; "
                  "moesim list importers has all kinds",
                  flags.kind));
}

void run_import(ImportFlags flags) {
  ImportOptions& options = flags.options;
  check_inputs(flags);
  if (!flags.model.empty()) {
    const MoeModel model = read_moe_model(data_file("models", flags.model));
    if (model.experts == 0) {
      throw Error("--model: " + dense_layers_text({}, model), "name the model that was recorded");
    }
    options.model = model.name;
    options.moe_layers = model.moe_layers;
    options.model_layers = model.layers;
    options.mtp_layers = model.mtp;
    options.selects_otherwise =
        model.gate_score == GateScore::sigmoid || model.gate_kept_groups < model.gate_groups;
    if (options.experts == 0) options.experts = model.experts;
    if (options.top_k == 0) options.top_k = model.top_k;
  }
  if (!flags.phase.empty()) options.phase = phase_of(flags.phase);
  if (!flags.passes.empty()) options.passes = phase_of(flags.passes);
  options.layers = layers_of(flags.layers);
  LongWork work("importing", "interrupted; the same command continues where it stopped");
  const Imported imported = import_trace(flags.kind, options, work.progress());
  for (const Diagnostic& warning : imported.warnings) fmt::print(stderr, "{}", warning.str());
  fmt::print("{}", imported.report);
}

}  // namespace

void add_trace_import(CommandLine& trace) {
  const auto flags = std::make_shared<ImportFlags>();
  ImportOptions& options = flags->options;
  CommandLine command = trace.add_subcommand("import", "Makes a trace from another format");
  command.add_option("KIND", flags->kind, "a format of `moesim list importers`").required();
  command.add_option("INPUT", options.inputs, "files, or folders of them");
  command.add_option("-o,--output", options.output, "the new trace folder").required();
  command.add_option("--name", options.name, "name of the trace (default: the folder's)");
  command.add_option("--model", flags->model, "model whose experts, top-k and layers these are");
  command.add_option("--experts", options.experts, "experts per layer");
  command.add_option("--top-k", options.top_k, "experts per token");
  command
      .add_option("--layers", flags->layers, "model layer numbers: FIRST:COUNT, or a list 0,7,15")
      .separated_by(',');
  command.add_option("--phase", flags->phase, "training, prefill, decode or mixed");
  command
      .add_option("--passes", flags->passes, "takes only passes of one kind, if the files say it")
      .one_of({"prefill", "decode"});
  command.add_option("--step-tokens", options.step_tokens,
                     "tokens that fill a step (default: one pass, or 131072 of requests)");
  command.add_option("--ids", options.ids, "npz: the array of expert ids");
  command.add_option("--lengths", options.lengths, "npz: the array of sequence lengths");
  command.add_option("--weights", options.weights, "npz: the array of gate weights");
  command
      .add_option("--order", options.order,
                  "npz: tlk (token, layer, choice) or ltk (layer, token, choice)")
      .one_of({"tlk", "ltk"});
  command
      .add_option("--map", options.map,
                  "table: names of fields, as token=token_idx,experts=topk_ids; for request, "
                  "step, rank, token, layer, slot, experts, weights, count, phase (default: "
                  "usual names)")
      .separated_by(',');
  command
      .add_option("--numbering", options.numbering,
                  "table, npz, megatron-trace, flame: layers are counted from-0 (hooks), from-1 "
                  "(replay recorder) or "
                  "moe (only MoE layers, from 0)")
      .one_of({"from-0", "from-1", "moe"});
  command
      .add_option("--micro-batch", options.micro_batch,
                  "router-lists, megatron-trace, trace-v1, flame: sequences whose tokens "
                  "alternate in a microbatch (default: guessed from choices)")
      .range(1, 1 << 20);
  command.add_option("--weight-scale", options.weight_scale, "npz: value of one unit of weight");
  command.callback([flags] { run_import(*flags); });
}

}  // namespace moesim
