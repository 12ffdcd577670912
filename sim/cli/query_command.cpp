// SPDX-License-Identifier: Apache-2.0
// moesim query: what a sweep has found.
#include <memory>

#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/flags/print_flags.h"
#include "sim/flags/shared_flags.h"
#include "sim/html/report_page.h"
#include "sim/sweep/document.h"
#include "sim/sweep/query.h"

namespace moesim {

void add_query_command(CommandLine& app) {
  struct QueryFlags {
    std::string file;
    SweepQuery query;
    PrintFlags print;
    OutputFile report;
    LossyFlag lossy;
  };
  const auto flags = std::make_shared<QueryFlags>();
  SweepQuery& q = flags->query;
  CommandLine command =
      app.add_subcommand("query", "Filters, groups and ranks the results of moesim sweep");
  command.add_option("FILE", flags->file, "what moesim sweep wrote").required();
  command.add_option("--where", q.where,
                     "SQL condition: \"policy <> 'alltoall' and topology.nodes >= 4\"");
  command.add_option("--by", q.by,
                     "figure of --top, --group and --pivot (default: the time); -FIGURE: more is "
                     "better");
  command.add_option("--top", q.top, "only the best N, the best first").range(1, 1 << 30);
  command
      .add_option("--pareto", q.pareto,
                  "only the Pareto-optimal ones in these figures: step_s,peak_memory_bytes")
      .separated_by(',')
      .one_value_each();
  command
      .add_option("--group", q.group,
                  "one row per value of these columns, with the least, mean and largest figure")
      .separated_by(',')
      .one_value_each();
  command
      .add_option("--pivot", q.pivot,
                  "two columns: a table of the best figure by the first (down) and the second")
      .separated_by(',')
      .one_value_each();
  command.add_option("--baseline", q.baseline,
                     "adds the speedup over scenarios that differ only in this: policy=megatron");
  command.add_flag("--not-run", q.not_run, "scenarios without figures instead, and why");
  flags->report.add_to(
      command, "--report",
      "draws the scenarios of --where as a page: curves, Pareto front, what was not run");
  flags->lossy.add_to(command);
  flags->print.add_to(command);
  command.callback([flags] {
    const SweepReader reader(flags->file);
    flags->query.lossy = flags->lossy.allowed();
    const Printout printout = answer(reader, flags->query);
    if (flags->report.asked()) {
      const std::string document = sweep_document(reader, flags->query.where);
      flags->report.write(
          report_page({{flags->file, document}}, MOESIM_VERSION, flags->query.lossy));
    }
    flags->print.print(printout, flags->report.beside());
  });
}

}  // namespace moesim
