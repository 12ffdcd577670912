// SPDX-License-Identifier: Apache-2.0
// moesim papers: published figures against simulated ones.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "sim/base/error.h"
#include "sim/base/file_claims.h"
#include "sim/base/files.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/evidence/engine_report.h"
#include "sim/evidence/frozen.h"
#include "sim/evidence/headline_table.h"
#include "sim/evidence/papers_report.h"
#include "sim/evidence/shipped_tables.h"
#include "sim/flags/print_flags.h"
#include "sim/report/tolerance.h"
#include "sim/run/worker_count.h"

namespace moesim {
namespace {

struct PapersOptions {
  std::vector<std::string> files, only, changes;
  bool fast = false, headlines = false, iterations = false, serving = false, left_out = false,
       whole = false;
  int workers = 0;
  std::string traces, engine_rows, page, kept, frozen, scored, stored, slack = "0.5 %";
  ResultOutput output;
};

/// Whether iterations are left out, as they take many minutes, and nobody asked for them.
bool leaves_iterations_out(const PapersOptions& options) {
  return !options.iterations && !options.serving && options.files.empty() && options.only.empty();
}

/// Changes of the user win over what settings say.
void change_settings(const std::vector<std::string>& changes, std::vector<PaperTable>& tables) {
  for (PaperTable& table : tables) {
    for (PaperVariant& variant : table.variants) {
      for (const std::string& change : changes) variant.flags.push_back({"set", change, ""});
    }
  }
}

std::vector<PaperTable> asked_tables(const PapersOptions& options) {
  std::vector<PaperTable> tables;
  for (const std::string& file : options.files) tables.push_back(read_paper_table(file));
  if (options.files.empty()) {
    tables = shipped_paper_tables(options.headlines ? std::vector<std::string>() : options.only);
  }
  if (options.headlines) tables = headlines_of(std::move(tables), options.only);
  if (options.iterations || options.serving || leaves_iterations_out(options)) {
    std::erase_if(tables, [&](const PaperTable& t) {
      const bool wanted = t.serving      ? options.serving
                          : t.iterations ? options.iterations
                                         : leaves_iterations_out(options);
      return !wanted;
    });
  }
  if (options.fast) std::erase_if(tables, [](const PaperTable& t) { return !t.fast; });
  if (tables.empty()) throw Error("no table is left");
  if (options.left_out) leave_out_own_fits(tables);
  change_settings(options.changes, tables);
  return tables;
}

void score(const PapersOptions& options) {
  const FrozenPredictions frozen = read_frozen(options.scored, read_file(options.scored));
  const ScoredPredictions result = scored(asked_tables(options), frozen);
  Printout printout;
  printout.add(fmt::format("# frozen on {} by moesim {} ({})\n", frozen.by.date, frozen.by.moesim,
                           frozen.by.program));
  printout.add(papers_text(result.tables, MOESIM_VERSION));
  printout.add(fmt::format("\n{} of {} measurements are inside their 90 % intervals\n", result.held,
                           result.known));
  options.output.write([&] { return papers_json(result.tables, MOESIM_VERSION); }, printout);
}

/// Runs of engines have rows of their own, which are read from a table that others keep.
void run_engine_rows(const PapersOptions& options) {
  const EngineTable table = read_engine_table(shipped_engine_table);
  std::vector<EngineRow> rows = read_engine_rows(options.engine_rows);
  for (EngineRow& row : rows) row = as_started(std::move(row), table);
  const auto predictions = predict_engines(rows, table, worker_count(options.workers));
  const auto judged = judged_engines(rows, predictions);
  Printout printout = engines_text(table, judged, MOESIM_VERSION);
  options.output.write([&] { return engines_json(table, judged, MOESIM_VERSION); }, printout);
  if (options.page.empty()) return;
  write_file(options.page,
             with_written(options.page, read_file(options.page), engines_page(table, judged)));
}

void run_papers(const PapersOptions& options) {
  if (!options.engine_rows.empty()) return run_engine_rows(options);
  if (!options.scored.empty()) return score(options);
  const double slack = parse_tolerance(options.slack);
  std::vector<PaperTable> tables = asked_tables(options);
  auto predictions =
      predict(tables, {worker_count(options.workers), options.traces, options.whole});
  const auto results = judged(std::move(tables), std::move(predictions));
  Printout printout = papers_text(results, MOESIM_VERSION);
  if (leaves_iterations_out(options) && !options.headlines) {
    printout.add("# whole iterations take four minutes of CPU time: --iterations\n");
    printout.add("# passes of serving engines: --serving\n");
  }
  options.output.write([&] { return papers_json(results, MOESIM_VERSION); }, printout);
  if (!options.page.empty()) {
    write_file(options.page, papers_page(options.page, read_file(options.page), results));
  }
  if (!options.frozen.empty()) {
    write_file(options.frozen,
               frozen_document(results, frozen_by_this(MOESIM_VERSION),
                               {shipped_errors_of_steps(), shipped_errors_of_iterations()}));
  }
  if (!options.kept.empty()) write_file(options.kept, papers_state(results));
  if (options.stored.empty()) return;
  const auto grown = grown_errors(options.stored, read_file(options.stored), results, slack);
  if (grown.empty()) return;
  throw std::runtime_error(fmt::format("{} errors have grown against {}:\n  {}", grown.size(),
                                       options.stored, fmt::join(grown, "\n  ")));
}

using SharedOptions = std::shared_ptr<PapersOptions>;

/// Which tables, and with which changes.
void add_tables(CommandLine& command, const SharedOptions& options) {
  Flag files = command.add_option("TABLE", options->files,
                                  "files of published figures (default: those of moesim)");
  command
      .add_option("--only", options->only,
                  "only these tables, or TABLE/FIGURE, or with --headlines systems or scenarios: a "
                  "name, or "
                  "its beginning and *")
      .separated_by(',')
      .excludes(files);
  Flag headlines = command.add_flag(
      "--headlines", options->headlines,
      "only what systems are known for: claim, scenario, published, simulated, why");
  command
      .add_flag("--iterations", options->iterations,
                "only whole training iterations, which take four minutes of CPU time")
      .excludes(headlines);
  command.add_flag("--serving", options->serving, "only passes of serving engines")
      .excludes(headlines);
  command
      .add_option("--engines", options->engine_rows,
                  "runs of engines of a table of ai-dynamo/aiconfigurator (CSV, plain or gzip): "
                  "TTFT, TPOT, tokens/s/GPU")
      .excludes(headlines);
  const auto keep_traces = [options](const std::string& path) {
    if (!is_folder(path))
      throw error_in(path, "no such folder", "scripts/laer_demand.py makes one");
    options->traces = path;
  };
  command.add_option(
      "--traces", keep_traces,
      "folder of recorded routing that iterations name; without it they run balanced");
  command.add_flag("--whole", options->whole,
                   "simulates all microbatches of iterations, not some and a straight line");
  command
      .add_option("--set", options->changes,
                  "changes all settings: topology.node.gpu=b200-measured")
      .one_value_each();
  command.add_flag("--fast", options->fast, "only the tables that take seconds");
  command.add_flag("--leave-out", options->left_out,
                   "takes back, in every table, what was fitted to its own source");
}

/// Files of errors and of predictions: written, or compared with.
void add_kept(CommandLine& command, const SharedOptions& options) {
  const auto keep_stored = [options](const std::string& path) {
    read_file(path);  // an error is reported before the run, not after it
    options->stored = path;
  };
  command.add_option("--check", keep_stored,
                     "exits with 1 if an error has grown since a file of --keep");
  command.add_option("--slack", options->slack, "by how much it may have grown (default 0.5%)");
  const auto keep_state = [options](const std::string& path) {
    claim_output(path);
    options->kept = path;
  };
  command.add_option("--keep", keep_state, "writes the errors, for --check of later runs");
  const auto freeze = [options](const std::string& path) {
    if (is_there(path)) throw error_in(path, "is there already: what is frozen stays as it is");
    claim_output(path);
    options->frozen = path;
  };
  Flag frozen = command.add_option(
      "--freeze", freeze, "writes predictions with hashes of their inputs, program and date");
  const auto keep_scored = [options](const std::string& path) {
    read_file(path);
    options->scored = path;
  };
  command
      .add_option("--score", keep_scored,
                  "compares frozen predictions with the tables, simulating nothing")
      .excludes(frozen);
  const auto keep_page = [options](const std::string& path) {
    claim_rewritten(path);
    options->page = path;
  };
  command.add_option("--page", keep_page, "writes the tables of this Markdown page anew");
}

}  // namespace

void add_papers_command(CommandLine& app) {
  const auto options = std::make_shared<PapersOptions>();
  CommandLine command = app.add_subcommand(
      "papers", "Compares published figures with simulated ones, table by table");
  add_tables(command, options);
  command.add_option("-j,--workers", options->workers, "processes to use (default: all cores)")
      .range(1, 1024);
  add_kept(command, options);
  options->output.add_to(command, "writes everything printed, and more, to a file");
  command.callback([options] { run_papers(*options); });
}

}  // namespace moesim
