// SPDX-License-Identifier: Apache-2.0
#include "sim/base/data_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/lower_case.h"
#include "sim/base/model_aliases.h"
#include "sim/base/permitted_files.h"
#include "sim/base/program_folder.h"
#include "sim/base/regular_file.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

/// $MOESIM_DATA, empty when it is not set.
std::string given_root() {
  const char* root = std::getenv("MOESIM_DATA");
  if (root == nullptr || *root == '\0') return "";
  std::error_code unreadable;
  if (!fs::is_directory(root, unreadable)) {
    throw Error(fmt::format("MOESIM_DATA is '{}', which is not a folder", root),
                "the folder that holds models/ and topologies/");
  }
  return root;
}

bool is_path_name(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml") ||
         name.ends_with(".json");
}

fs::path folder_of(const std::string& file) { return fs::path(file).parent_path(); }

/// What is next to the file `from`; empty when nothing does.
std::string beside(const std::string& from, const fs::path& name) {
  if (from.empty()) return "";
  const fs::path path = folder_of(from) / name;
  return is_there(path) ? path.lexically_normal().string() : "";
}

std::string below_roots(const fs::path& name) {
  for (const std::string& root : data_roots()) {
    const fs::path path = fs::path(root) / name;
    if (is_there(path)) return path.lexically_normal().string();
  }
  return "";
}

/// The folders of a kind.
std::vector<std::string> folders_of(const std::string& kind) {
  if (kind == "models") return {"models/moe", "models/dense"};
  return {kind};
}

/// Where a name may be, below a root.
std::vector<fs::path> relative_files(const std::string& kind, const std::string& name) {
  if (is_path_name(name)) return {name};
  std::vector<fs::path> files;
  for (const std::string& folder : folders_of(kind)) {
    files.push_back(fs::path(folder) / (name + ".yaml"));
  }
  return files;
}

/// The digits of a name, which tell one version or size of a model from another.
std::string digits_of(std::string_view name) {
  std::string digits;
  for (const char c : name) {
    if (c >= '0' && c <= '9') digits += c;
  }
  return digits;
}

/// Names that one may be a slip of, or the beginning of.
std::vector<std::string> alike_but_for_slips(const std::string& name,
                                             std::vector<std::string> names) {
  std::erase_if(names, [&](const std::string& known) {
    return digits_of(known) != digits_of(name) && !known.starts_with(name + '-') &&
           !name.starts_with(known + '-');
  });
  return names;
}

bool holds_models(const std::string& kind) {
  return kind == "models" || kind == "models/moe" || kind == "models/dense";
}

/// What a name of nothing here may mean; empty: nothing is like it.
std::string meant_by(const std::string& kind, const std::string& given) {
  const std::string name = lower_case(given);
  std::vector<std::string> names = data_names(kind);
  if (holds_models(kind)) {
    for (const auto& [alias, of] : model_aliases) {
      if (alias == name) return fmt::format("'{}' has the sizes of {}", of, given);
    }
    names = alike_but_for_slips(name, std::move(names));
  }
  return nearest(given, names).empty() ? "" : did_you_mean(given, names);
}

/// What to do if nothing is like a name.
std::string known_of(const std::string& kind) {
  const auto names = data_names(kind);
  if (names.empty()) return "";
  const std::string known = fmt::format("known: {}", fmt::join(names, ", "));
  return holds_models(kind) ? std::string(model_import_hint) + known : known;
}

/// Whether `name` comes before all that could be next to a file.
bool comes_first(const std::string& name, const fs::path& relative) {
  if (is_path_name(name)) return is_there(name);
  const std::string root = given_root();
  return !root.empty() && is_there(fs::path(root) / relative);
}

}  // namespace

std::vector<std::string> data_roots() {
  if (const std::string root = given_root(); !root.empty()) return {root};
  const fs::path program = program_folder();
  std::vector<std::string> roots = {".", (program / "../share/moesim").lexically_normal().string(),
                                    MOESIM_INSTALLED_DATA};
  if (lies_in(program, MOESIM_BUILD_FOLDER)) roots.emplace_back(MOESIM_SOURCE_DATA);
  return roots;
}

std::string as_named_in(const std::string& from, const std::string& kind, const std::string& name) {
  if (name.empty()) return name;
  for (const fs::path& relative : relative_files(kind, name)) {
    if (comes_first(name, relative)) return name;
    const std::string found = beside(from, relative);
    if (!found.empty()) return found;
  }
  return name;
}

namespace {

/// The file that describes a model in a clone of its repository; else the path itself.
std::string described_in(const std::string& kind, const std::string& path) {
  for (const char* file : {"config.json", "params.json"}) {
    const fs::path inside = fs::path(path) / file;
    if (kind == "models" && is_there(inside)) return inside.string();
  }
  return path;
}

}  // namespace

std::string data_file(const std::string& kind, const std::string& name, const std::string& from) {
  const std::string named = as_named_in(from, kind, name);
  if (is_path_name(named) && is_there(named)) return described_in(kind, named);
  for (const fs::path& relative : relative_files(kind, name)) {
    const std::string found = below_roots(relative);
    if (!found.empty()) return found;
  }
  if (name == "-") throw no_input_here();
  // A name of no data may be that of a file, such as "topology.conf" in the working directory.
  for (const std::string& file : {beside(from, name), name}) {
    if (is_regular_file(described_in(kind, file))) return described_in(kind, file);
  }
  if (is_path_name(name)) {
    throw error_in(name, "no such file", meant_by(kind, fs::path(name).stem().string()));
  }
  const std::string meant = meant_by(kind, name);
  throw Error(fmt::format("no '{}' in {}", name, fmt::join(folders_of(kind), " and ")),
              meant.empty() ? known_of(kind) : meant);
}

std::string trace_folder(const std::string& name, const std::string& from) {
  if (name.empty() || is_there(name)) return name;
  for (const std::string& found :
       {beside(from, name), below_roots(name), below_roots(fs::path("traces") / name)}) {
    if (!found.empty()) return found;
  }
  return name;
}

std::string hint_for_trace(const std::string& name) {
  const fs::path given(name);
  const fs::path whole = given.has_filename() ? given : given.parent_path();
  const fs::path parent = whole.parent_path();
  std::vector<std::string> others =
      parent.empty() ? data_names("traces") : std::vector<std::string>{};
  std::error_code unreadable;
  const fs::path folder = parent.empty() ? "." : parent;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    if (entry.is_directory(unreadable) && is_permitted(folder.string()))
      others.push_back((parent / entry.path().filename()).string());
  }
  std::sort(others.begin(), others.end());
  const std::string close = nearest(whole.string(), others);
  if (!close.empty()) return fmt::format("did you mean '{}'?", close);
  return given.is_relative()
             ? fmt::format("looked for in '{}' and among the data of {}",
                           fs::current_path().string(), fmt::join(data_roots(), ", "))
             : "";
}

namespace {

void add_names(const fs::path& folder, bool traces, std::set<std::string>& names) {
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    const fs::path& path = entry.path();
    // Tables of links are read by the clusters that name them.
    const bool file = path.extension() == ".yaml" && path.stem().extension() != ".calib";
    if (traces ? fs::exists(path / "trace.json", unreadable) : file) {
      names.insert(traces ? path.filename().string() : path.stem().string());
    }
  }
}

}  // namespace

std::vector<std::string> data_names(const std::string& kind) {
  std::set<std::string> names;
  for (const std::string& root : data_roots()) {
    for (const std::string& folder : folders_of(kind)) {
      add_names(fs::path(root) / folder, kind == "traces", names);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace moesim
