// SPDX-License-Identifier: Apache-2.0
// moesim model: model files of what others write.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <sstream>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/flags/output_file.h"
#include "sim/model/hf_config.h"
#include "sim/model/moe_model.h"

namespace moesim {
namespace {

struct ModelImport {
  std::string file;
  OutputFile out{"-"};
};

/// Every line with the source of its value.
std::string with_sources(const std::string& model) {
  std::istringstream lines(model);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool exempt = line.starts_with("name:") || line.starts_with("description:") ||
                        line.starts_with("source:") ||
                        line.find("  # assumed") != std::string::npos;
    text += line + (exempt ? "\n" : "  # config.json\n");
  }
  return text;
}

/// The same that --model reads of a config.json.
void import_model(const ModelImport& options) {
  // Without a slash it would be a name of those in models.
  const bool name = options.file.find('/') == std::string::npos && is_there(options.file);
  const std::string file =
      data_file("models", name ? std::filesystem::canonical(options.file).string() : options.file);
  const std::string text = read_file(file);
  if (!is_hf_config(file, text)) {
    throw error_in(file, "is not a config.json of Hugging Face",
                   "model files need no import: --model reads them");
  }
  const MoeModel read = read_moe_model(file);
  options.out.write(with_sources(model_text_of_hf_config(file, text)));
  fmt::print(options.out.beside(), "{}: {}, {}\n", read.name, counted(read.layers, "layer"),
             read.experts == 0
                 ? "dense"
                 : fmt::format("{} of them with {} experts", read.moe_layers.size(), read.experts));
}

}  // namespace

void add_model_command(CommandLine& app) {
  CommandLine model = app.add_subcommand("model", "Writes model files");
  model.require_subcommand();
  const auto options = std::make_shared<ModelImport>();
  CommandLine command = model.add_subcommand(
      "import", "Writes the model file of a Hugging Face config.json, as --model reads it");
  command.add_option("FILE", options->file, "a config.json or params.json, or a folder with one")
      .required();
  options->out.add_to(command, "-o,--out", "the file to write (default: prints it)");
  command.callback([options] { import_model(*options); });
}

}  // namespace moesim
