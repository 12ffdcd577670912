// SPDX-License-Identifier: Apache-2.0
// moesim trace serve: lays a log of decoded requests out as an engine serves them.
#include <fmt/format.h>

#include <memory>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/cli/long_work.h"
#include "sim/cli/trace_command.h"
#include "sim/trace/serve.h"
#include "sim/trace/writer.h"

namespace moesim {
namespace {

struct ServeFlags {
  std::string directory, output, arrivals;
  double rate = 0;
  std::uint64_t seed = 1;
  ServeOptions options;
};

std::int64_t requests_of(const RoutingTrace& trace) {
  std::int64_t requests = 0;
  for (int s = 0; s < trace.step_count(); ++s) {
    requests += static_cast<std::int64_t>(trace.step(s).sequence_lengths().size());
  }
  return requests;
}

void serve(const ServeFlags& flags, bool at_rate) {
  const RoutingTrace log = RoutingTrace::open(find_trace(flags.directory));
  ServeOptions options = flags.options;
  if (!flags.arrivals.empty()) {
    options.arrivals = parse_arrivals(read_file(flags.arrivals), flags.arrivals);
  }
  if (at_rate) options.arrivals = poisson_arrivals(requests_of(log), flags.rate, flags.seed);
  DecodeServer server(log, options);
  LongWork work("serving");
  const auto progress = work.progress();
  auto writer = TraceWriter::create(flags.output, server.info(), TraceWriter::Publish::at_end);
  bool any = false;
  while (const auto step = server.next_step()) {
    writer.append_step(*step);
    progress(server.progress());
    any = true;
  }
  if (!any) {
    throw Error(fmt::format("never do {} of {} requests run at once",
                            options.least > 0 ? options.least : options.batch, server.requests()),
                "a smaller --batch, or --least");
  }
  writer.finish();
  report_written(flags.output);
  fmt::print("{}, {} at once at most; left out: {} in {} with fewer than {}\n",
             counted(server.requests(), "request"), options.batch,
             counted(server.tokens_left_out(), "token"), counted(server.steps_left_out(), "step"),
             options.least > 0 ? options.least : options.batch);
}

}  // namespace

void add_trace_serve(CommandLine& trace) {
  const auto flags = std::make_shared<ServeFlags>();
  CommandLine command = trace.add_subcommand(
      "serve", "Lays decoded requests out over the steps of an engine that runs many at once");
  command.add_option("TRACE", flags->directory, "a trace folder, or the name of one among the data")
      .required();
  command.add_option("-o,--output", flags->output, "the new trace folder").required();
  command.add_option("--batch", flags->options.batch, "requests that run at once, at most")
      .required();
  Flag arrivals = command.add_option(
      "--arrivals", flags->arrivals,
      "file of one number per request: the decode step it comes at (default: all at the start)");
  Flag rate = command.add_option("--rate", flags->rate,
                                 "requests come at random, so many per decode step on the mean");
  command.add_option("--seed", flags->seed, "of --rate (default 1)");
  command.add_option("--least", flags->options.least,
                     "leaves out steps in which fewer requests run (default: those of --batch)");
  command.add_option("--name", flags->options.name, "name of the new trace");
  arrivals.excludes(rate);
  command.callback([flags, rate] { serve(*flags, rate.given()); });
}

}  // namespace moesim
