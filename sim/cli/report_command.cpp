// SPDX-License-Identifier: Apache-2.0
// moesim report: results as one page that opens without a network.
#include <fmt/format.h>

#include <memory>

#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/flags/output_file.h"
#include "sim/flags/shared_flags.h"
#include "sim/html/report_page.h"
#include "sim/sweep/document.h"

namespace moesim {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  OutputFile output;
  LossyFlag lossy;
};

std::string document_of_sweep(const std::string& file) {
  const SweepReader reader(file);
  reader.require_figures();
  return sweep_document(reader);
}

void write_report(const ReportOptions& options) {
  std::vector<ReportedResult> results;
  for (const std::string& file : options.files) {
    results.push_back({file, is_sqlite_file(file) ? document_of_sweep(file) : read_file(file)});
  }
  options.output.write(report_page(results, MOESIM_VERSION, options.lossy.allowed()));
  if (!report_has_charts()) {
    fmt::print(stderr,
               "note: the report has only tables, because this moesim was built without D3\n");
  }
}

}  // namespace

void add_report_command(CommandLine& app) {
  const auto options = std::make_shared<ReportOptions>();
  CommandLine command =
      app.add_subcommand("report", "Draws results as one HTML file that opens without a network");
  command
      .add_option("RESULT", options->files,
                  "files of moesim run, compare or validate --json, or of moesim sweep")
      .required();
  options->output.add_to(command, "-o,--output", "where the report goes").required();
  options->lossy.add_to(command);
  command.callback([options] { write_report(*options); });
}

}  // namespace moesim
