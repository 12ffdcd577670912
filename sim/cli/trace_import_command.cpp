// SPDX-License-Identifier: Apache-2.0
// moesim trace import: makes a trace from another format.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/cli/long_work.h"
#include "sim/cli/trace_command.h"
#include "sim/model/moe_model.h"
#include "sim/trace/import/importer.h"
#include "sim/trace/trace_json.h"

namespace moesim {
namespace {

struct ImportFlags {
  std::string kind, model, phase;
  std::vector<std::string> layers;
  ImportOptions options;
};

void run_import(ImportFlags flags) {
  ImportOptions& options = flags.options;
  if (!flags.model.empty()) {
    const MoeModel model = read_moe_model(data_file("models/moe", flags.model));
    options.model = model.name;
    options.moe_layers = model.moe_layers;
    if (options.experts == 0) options.experts = model.experts;
    if (options.top_k == 0) options.top_k = model.top_k;
  }
  if (!flags.phase.empty()) {
    const auto& names = phase_names();
    const auto at = std::find(names.begin(), names.end(), flags.phase);
    if (at == names.end())
      throw Error(fmt::format("'{}' is no phase", flags.phase), did_you_mean(flags.phase, names));
    options.phase = static_cast<Phase>(at - names.begin());
  }
  options.layers = layers_of(flags.layers);
  LongWork work("importing");
  const Imported imported = import_trace(flags.kind, options, work.progress());
  for (const Diagnostic& warning : imported.warnings) fmt::print(stderr, "{}", warning.str());
  fmt::print("{}", imported.report);
}

}  // namespace

void add_trace_import(CommandLine& trace) {
  const auto flags = std::make_shared<ImportFlags>();
  ImportOptions& options = flags->options;
  CommandLine command = trace.add_subcommand("import", "Makes a trace from another format");
  command.add_option("KIND", flags->kind, "esft, npz, npy or gpt-oss").required();
  command.add_option("INPUT", options.inputs, "files (esft: or a folder)").required();
  command.add_option("-o,--output", options.output, "the new trace folder").required();
  command.add_option("--name", options.name, "name of the trace (default: the folder's)");
  command.add_option("--model", flags->model, "model whose experts, top-k and layers these are");
  command.add_option("--experts", options.experts, "experts per layer");
  command.add_option("--top-k", options.top_k, "experts per token");
  command
      .add_option("--layers", flags->layers, "model layer numbers: FIRST:COUNT, or a list 0,7,15")
      .separated_by(',');
  command.add_option("--phase", flags->phase, "training, prefill, decode or mixed");
  command.add_option("--ids", options.ids, "npz: the array of expert ids");
  command.add_option("--lengths", options.lengths, "npz: the array of sequence lengths");
  command.add_option("--weights", options.weights, "npz: the array of gate weights");
  command
      .add_option("--order", options.order,
                  "npz: tlk (token, layer, choice) or ltk (layer, token, choice)")
      .one_of({"tlk", "ltk"});
  command.add_option("--weight-scale", options.weight_scale, "npz: one unit of the weights");
  command.callback([flags] { run_import(*flags); });
}

}  // namespace moesim
