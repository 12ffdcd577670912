// SPDX-License-Identifier: Apache-2.0
// Finds data by name: `h100-rail` -> .../topologies/h100-rail.yaml. See docs/scenarios.md.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// The folders that hold models, topologies, scenarios and traces, in the order in which a name is
/// looked for: only $MOESIM_DATA if it is set; else the working directory, ../share/moesim from the
/// program's folder, the share folder of the installation and, while the program is in its build
/// folder, the source tree. Throws Error when $MOESIM_DATA names no folder.
std::vector<std::string> data_roots();

/// The path of a data file. A `name` that is a path (contains '/' or ends in .yaml) is looked for
/// as it is, then next to the file `from` that names it, then below the roots; any other as
/// <kind>/<name>.yaml next to `from` and below the roots ($MOESIM_DATA before both), and at last as
/// a file of exactly that name next to `from` or in the working directory. kind is
/// "topologies", "models" (moe or dense), "models/gpu", "models/system" or "scenarios".
/// Throws Error with a suggestion when there is none.
std::string data_file(const std::string& kind, const std::string& name,
                      const std::string& from = "");

/// The path of a trace's folder: `name` as it is, next to the file `from`, below the roots as it is
/// and as traces/<name>; `name` itself when it is nowhere.
std::string trace_folder(const std::string& name, const std::string& from = "");

/// How to mend the name of a trace that is nowhere: the nearest one, or where it was looked for.
std::string hint_for_trace(const std::string& name);

/// What `name` in the file `from` is to a reader who does not know that file: the path of what is
/// next to it, else `name` itself.
std::string as_named_in(const std::string& from, const std::string& kind, const std::string& name);

/// The names that data_file(kind, name) knows, sorted; of "traces" those of trace_folder(name).
std::vector<std::string> data_names(const std::string& kind);

}  // namespace moesim
