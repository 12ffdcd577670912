// SPDX-License-Identifier: Apache-2.0
// moesim report: results as one page that opens without a network.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/flags/lossy_flag.h"
#include "sim/flags/output_file.h"
#include "sim/html/report_page.h"
#include "sim/sweep/document.h"

namespace moesim {
namespace {

struct ReportOptions {
  std::vector<std::string> files;
  OutputFile output;
  LossyFlag lossy;
};

/// Throws Error if the sweep has nothing to draw.
std::string document_of_sweep(const std::string& file) {
  std::string document = sweep_document(SweepReader(file));
  const auto json = nlohmann::json::parse(document);
  const auto& columns = json["columns"];
  const auto state = std::ranges::find(columns, "state") - columns.begin();
  const auto is_ok = [&](const nlohmann::json& row) {
    return row[static_cast<std::size_t>(state)] == sweep_ok;
  };
  if (std::ranges::none_of(json["rows"], is_ok)) {
    throw error_in(file, "no scenario of the sweep has figures",
                   fmt::format("moesim query {} --not-run says why", file));
  }
  return document;
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
