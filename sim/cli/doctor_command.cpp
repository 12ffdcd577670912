// SPDX-License-Identifier: Apache-2.0
// moesim doctor: what this installation has, and what it lacks.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>

#include "sim/base/data_files.h"
#include "sim/base/figures.h"
#include "sim/base/processes.h"
#include "sim/cli/commands.h"
#include "sim/cli/version.h"
#include "sim/engine/simulator.h"
#include "sim/explore/http.h"
#include "sim/flags/print_flags.h"
#include "sim/html/report_page.h"
#include "sim/trace/routing_trace.h"

namespace moesim {
namespace {

/// A thing that an installation has or lacks.
struct Finding {
  std::string what, found;
  std::string without = {};  // what cannot be done; empty: nothing is lacking
  bool needed = false;       // nothing works without it
};

/// The findings of some folders of data.
void look_for_data(std::vector<Finding>& findings) {
  const std::pair<const char*, const char*> kinds[] = {
      {"topologies", "clusters by name"}, {"models/moe", "models by name"},
      {"models/system", "policies"},      {"models/gpu", "GPUs"},
      {"transports", "measured rates"},   {"scenarios", "scenarios by name"}};
  for (const auto& [kind, use] : kinds) {
    const auto count = data_names(kind).size();
    findings.push_back({kind, counted(count, "file"), count > 0 ? "" : use, true});
  }
  const auto traces = data_names("traces").size();
  findings.push_back({"traces", fmt::format("{} recordings", traces),
                      traces > 0 ? "" : "scenarios that replay the shipped recording"});
}

/// What `attempt` says is wrong, on one line; empty if nothing is.
std::string why_not(const std::function<void()>& attempt) {
  try {
    attempt();
    return "";
  } catch (const std::exception& e) {
    std::string text = e.what();
    std::ranges::replace(text, '\n', ' ');
    return text;
  }
}

void look_for_parts(std::vector<Finding>& findings) {
  const auto add = [&](const char* what, const std::string& missing, const char* without) {
    findings.push_back({what, missing.empty() ? "yes" : missing, missing.empty() ? "" : without});
  };
  add("SimGrid", why_not(load_simgrid), "--fidelity simgrid (port, flow and analytic work)");
  add("D3", report_has_charts() ? "" : "moesim was built without node-d3",
      "charts in reports and on the page (tables work)");
  add("cpp-httplib", why_no_http(), "moesim explore");
  add("dot (Graphviz)", find_program("dot").empty() ? "not on the PATH" : "",
      "topology draw -o FILE.svg (FILE.dot works)");
  const std::string python = find_program("python3");
  const bool has_package =
      !python.empty() && run_program({python, "-c",
                                      "import importlib.util, sys; "
                                      "sys.exit(importlib.util.find_spec('moesim') is None)"}) == 0;
  add("Python package", has_package ? "" : "python3 does not find moesim",
      "import moesim (pip install ./scripts/python)");
}

void examine(const PrintFlags& print) {
  std::vector<Finding> findings;
  look_for_data(findings);
  look_for_parts(findings);
  Table table("findings", {{"part", TableColumn::Kind::key},
                           {"found", TableColumn::Kind::prose},
                           {"without it there is no", TableColumn::Kind::prose}});
  for (const Finding& f : findings) {
    table.rows.push_back({f.what, f.found, f.without.empty() ? "-" : f.without});
  }
  Printout printout;
  printout
      .add(fmt::format("# moesim {}\n# data: {}\n", MOESIM_VERSION, fmt::join(data_roots(), ", ")))
      .add(std::move(table));
  print.print(printout);
  const auto lacking = std::ranges::count_if(
      findings, [](const Finding& f) { return f.needed && !f.without.empty(); });
  if (lacking > 0) {
    throw std::runtime_error(
        fmt::format("{} of what every simulation needs is not there: is MOESIM_DATA the folder "
                    "that holds models/ and topologies/?",
                    lacking));
  }
}

}  // namespace

void add_doctor_command(CommandLine& app) {
  const auto print = std::make_shared<PrintFlags>();
  CommandLine command =
      app.add_subcommand("doctor", "Says what this installation has and what it lacks");
  print->add_to(command);
  command.callback([print] { examine(*print); });
}

}  // namespace moesim
