// SPDX-License-Identifier: Apache-2.0
#include "sim/html/shown_document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "sim/base/error.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// What is at a path: an object of objects is "total.traffic".
struct Part {
  const char* path;
  Json::value_t kind;
};

constexpr auto number = Json::value_t::number_float, text = Json::value_t::string,
               object = Json::value_t::object, list = Json::value_t::array;

/// A form of document: what it has, and the list whose items are drawn, if it has one.
struct Form {
  const char* name;
  const char* step;  // what its steps are, if that makes a difference
  int version;
  std::vector<Part> parts;
  const char* items;
  std::vector<Part> of_item, of_item_that_ran;
};

const std::vector<Part> of_result = {
    {"moesim", text}, {"step", text}, {"trace", object}, {"model", object}, {"policies", list}};
const std::vector<Part> of_case = {{"topology", text}, {"policy", text}, {"fidelity", text}};

/// Iterations and passes of serving.
const std::vector<Part> of_whole_step = {{"step_s", number},
                                         {"gpus", number},
                                         {"steps", number},
                                         {"parts_s", object},
                                         {"peak_memory.bytes", number},
                                         {"peak_memory.gpu_memory_bytes", number}};

/// Runs of engines.
const std::vector<Part> of_engine = {{"ttft", object},
                                     {"tpot", object},
                                     {"gap", object},
                                     {"latency", object},
                                     {"tokens_per_s_per_gpu", number},
                                     {"tokens_per_s_per_user", number},
                                     {"kv", object},
                                     {"waiting", object},
                                     {"busy", number},
                                     {"parts", object},
                                     {"samples", list}};

/// Of one step that was profiled or simulated.
const std::vector<Part> of_profile_validation = {{"moesim", text},
                                                 {"groups", object},
                                                 {"measured.wall_s", number},
                                                 {"measured.both_s", number},
                                                 {"measured.idle_s", number},
                                                 {"measured.kinds_s", object},
                                                 {"measured.exposed_s", object},
                                                 {"simulated.wall_s", number},
                                                 {"simulated.both_s", number},
                                                 {"simulated.idle_s", number},
                                                 {"simulated.kinds_s", object},
                                                 {"simulated.exposed_s", object}};

const std::vector<Form> forms = {
    {"moesim-result",
     "layers",
     2,
     of_result,
     "cases",
     of_case,
     {{"step_s", number},
      {"gpus", number},
      {"steps", number},
      {"breakdown", object},
      {"peak_memory_bytes", number},
      {"total.migrated_bytes", number},
      {"total.traffic.other_host_bytes", number},
      {"total.parameter_traffic.same_host_bytes", number},
      {"total.parameter_traffic.other_host_bytes", number}}},
    {"moesim-result", "iteration", 2, of_result, "cases", of_case, of_whole_step},
    {"moesim-result", "serving", 2, of_result, "cases", of_case, of_whole_step},
    {"moesim-result", "engine", 2, of_result, "cases", of_case, of_engine},
    {"moesim-validation",
     "",
     1,
     {{"moesim", text}, {"tolerance", number}},
     "results",
     {{"policies", list}},
     {}},
    {"moesim-profile-validation", "", 1, of_profile_validation, "", {}, {}},
    {"moesim-sweep",
     "",
     1,
     {{"file", text},
      {"grid", text},
      {"scenarios", number},
      {"axes", list},
      {"columns", list},
      {"versions", list},
      {"inputs", object}},
     "rows",
     {},
     {}}};

std::string noun_of(Json::value_t kind) {
  switch (kind) {
    case Json::value_t::string:
      return "a text";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    default:
      return "a number";
  }
}

bool is_of(const Json& value, Json::value_t kind) {
  return kind == number ? value.is_number() : value.type() == kind;
}

class Check {
 public:
  Check(const Json& document, const std::string& file) : document_(document), file_(file) {}

  void all() const {
    const Form& form = form_of();
    check_version(form);
    for (const Part& part : form.parts) require(document_, "", part);
    if (*form.items == '\0') return;
    require(document_, "", {form.items, list});
    const Json& items = document_[form.items];
    if (items.empty()) refuse(fmt::format("'{}' is empty: there is nothing to draw", form.items));
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string at = fmt::format("{}[{}]", form.items, i);
      if (form.of_item.empty()) {
        check_row(items[i], at);
        continue;
      }
      if (!items[i].is_object()) refuse(fmt::format("'{}' is not an object", at));
      for (const Part& part : form.of_item) require(items[i], at + ".", part);
      if (items[i].contains("unsuitable") || items[i].contains("not_run")) continue;
      for (const Part& part : form.of_item_that_ran) require(items[i], at + ".", part);
    }
  }

 private:
  const Form& form_of() const {
    const auto found = document_.is_object() ? document_.find("format") : document_.end();
    const bool named = document_.is_object() && found != document_.end() && found->is_string();
    std::vector<std::string> names;
    for (const Form& form : forms) {
      if (named && *found == form.name && is_of_step(form)) return form;
      if (names.empty() || names.back() != form.name) names.emplace_back(form.name);
    }
    throw error_in(
        file_,
        named ? fmt::format("a report cannot show '{}'", found->get<std::string>())
              : "this is not a result of moesim",
        fmt::format("reports show what 'run', 'compare' and 'validate' write with --json, and "
                    "files of sweeps: {}",
                    fmt::join(names, ", ")));
  }

  /// A document that does not say what its steps are is refused later.
  bool is_of_step(const Form& form) const {
    const auto step = document_.find("step");
    return *form.step == '\0' || step == document_.end() || *step == form.step;
  }

  void check_version(const Form& form) const {
    require(document_, "", {"format_version", number});
    const Json& version = document_["format_version"];
    if (version.is_number_integer() && version == form.version) return;
    throw error_in(file_,
                   fmt::format("'{}' of version {} cannot be shown: this moesim knows version {}",
                               form.name, version.dump(), form.version),
                   "simulate again with --json, or draw it with the moesim that wrote it");
  }

  /// A row of a sweep has a value for each column.
  void check_row(const Json& row, const std::string& at) const {
    const std::size_t columns = document_["columns"].size();
    if (row.is_array() && row.size() == columns) return;
    refuse(fmt::format("'{}' is not a list of {} values, one for each column", at, columns));
  }

  void require(const Json& in, const std::string& before, const Part& part) const {
    const Json* value = &in;
    std::istringstream keys(part.path);
    for (std::string key; std::getline(keys, key, '.');) {
      if (!value->is_object() || !value->contains(key)) {
        refuse(fmt::format("'{}{}' is missing", before, part.path));
      }
      value = &(*value)[key];
    }
    if (is_of(*value, part.kind)) return;
    refuse(fmt::format("'{}{}' is not {}", before, part.path, noun_of(part.kind)));
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw error_in(file_, what, "write the result anew: a report draws what --json wrote");
  }

  const Json& document_;
  const std::string& file_;
};

}  // namespace

void check_shown(const Json& document, const std::string& file) { Check(document, file).all(); }

}  // namespace moesim
