// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>

#include "sim/base/exported_log.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/pasted_text.h"
#include "sim/base/units.h"
#include "sim/topology/import/facts.h"
#include "sim/topology/import/text_forms.h"
#include "sim/topology/import/xml_tree.h"
#include "sim/topology/import/yaml_forms.h"
#include "sim/topology/read/foreign.h"

namespace moesim {
namespace {

/// NCCL's topology (NCCL_TOPO_DUMP_FILE, <system>) and graphs (NCCL_GRAPH_DUMP_FILE, <graphs>), and
/// hwloc's (lstopo --of xml, <topology>). Throws Error for other XML.
ClusterFacts xml_facts(const std::string& text, const std::string& name) {
  pugi::xml_document document;
  const std::size_t begin = xml_begins(text);
  const auto parsed = document.load_buffer(text.data() + begin, text.size() - begin,
                                           pugi::parse_default, pugi::encoding_utf8);
  if (!parsed) {
    const auto end =
        text.begin() + std::clamp<std::ptrdiff_t>(
                           static_cast<std::ptrdiff_t>(begin) + parsed.offset, 0, std::ssize(text));
    throw error_in(name, fmt::format("not XML: {}", parsed.description()), "is it whole?",
                   1 + static_cast<int>(std::count(text.begin(), end, '\n')));
  }
  const pugi::xml_node root = document.document_element();
  const std::string kind = root.name();
  ClusterFacts facts{name, ""};
  if (kind == "system") {
    facts.form = "NCCL's topology dump";
    facts.node = nccl_system_facts(root);
    if (const int slower = facts.node->slower_nics; slower > 0) {
      facts.left_out.push_back(fmt::format("that {} of {} NICs {} slower than {}", slower,
                                           facts.node->nics, slower == 1 ? "is" : "are",
                                           to_string(facts.node->nic_rate)));
    }
  } else if (kind == "graphs") {
    facts.form = "NCCL's graph dump";
    facts.node = nccl_graph_facts(root);
  } else if (kind == "topology") {
    facts.form = "lstopo's XML";
    facts.node = hwloc_facts(root);
  } else {
    throw error_in(name, fmt::format("XML of <{}>, which is not the description of a node", kind),
                   "NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE or lstopo --of xml write one");
  }
  if (facts.node->gpus == 0) throw error_in(name, fmt::format("{} without GPUs", facts.form));
  return facts;
}

constexpr std::size_t most_bytes = 1 << 28;

void check_one_machine(const std::string& text, const std::string& name) {
  const std::vector<std::string> machines = names_before_lines(text);
  if (machines.size() < 2) return;
  throw error_in(name, fmt::format("has lines of {} machines", machines.size()),
                 fmt::format("those of one: grep '^{}' {}", machines.front(), name));
}

std::string trimmed(std::string text) {
  text.erase(0, text.find_first_not_of(" \t-"));
  text.erase(text.find_last_not_of(" \t\r") + 1);
  return text;
}

}  // namespace

double leading_number(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  return number >= 0 && number < 1e15 ? number : 0;
}

ClusterFacts read_facts(const std::string& path) { return parse_facts(read_file(path), path); }

ClusterFacts parse_facts(const std::string& text, const std::string& name) {
  if (text.size() > most_bytes) throw error_in(name, "more than 256 MiB", "is it the right file?");
  if (text.find(" NCCL INFO ") != std::string::npos) {
    throw error_in(name, "is a log of NCCL, which does not describe a cluster",
                   "NCCL_TOPO_DUMP_FILE=topo.xml makes NCCL write what does");
  }
  if (const auto lines = exported_lines(text, name)) return parse_facts(*lines, name);
  const std::string printed = as_printed(text);
  switch (foreign_form(printed)) {
    case ForeignForm::xml:
      return xml_facts(printed, name);
    case ForeignForm::slurm_conf:
      return slurm_conf_facts(printed, name);
    case ForeignForm::ibnetdiscover:
      return ibnetdiscover_facts(printed, name);
    case ForeignForm::iblinkinfo:
      return iblinkinfo_facts(printed, name);
    case ForeignForm::amd_smi:
      return amd_smi_facts(printed, name);
    case ForeignForm::smi:
      return smi_facts(printed, name);
    case ForeignForm::yaml:
    case ForeignForm::none:
      break;
  }
  check_one_machine(printed, name);
  try {
    return yaml_facts(printed, name);
  } catch (const Error& e) {
    refuse_other_outputs(printed, name);
    const bool is_yaml = !e.diagnostics().front().message.starts_with("not YAML");
    if (is_yaml || foreign_form(printed) == ForeignForm::yaml) throw;
    throw error_in(name, "not a description of a cluster that is known",
                   "docs/topology-import.md says which are");
  }
}

std::vector<std::string> assumed_in(const std::string& text) {
  std::vector<std::string> found;
  std::vector<std::pair<std::size_t, std::string>> open;  // indent and key of the blocks around
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::size_t comment = line.find("# ");
    const std::size_t colon = line.find(':');
    if (indent == std::string::npos || indent == comment || colon > comment) continue;
    while (!open.empty() && open.back().first >= indent) open.pop_back();
    const std::string key = trimmed(line.substr(0, colon));
    const std::string value =
        trimmed(line.substr(colon + 1, comment - std::min(comment, colon) - 1));
    if (value.empty()) {
      open.emplace_back(indent, key);
      continue;
    }
    if (comment == std::string::npos || line.find("# assumed") == std::string::npos) continue;
    std::string path;
    for (const auto& [at, outer] : open) path += outer + ".";
    found.push_back(path + key + " " + value);
  }
  return found;
}

}  // namespace moesim
