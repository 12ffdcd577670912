// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/xml_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/topology/import/xml_tree.h"
#include "sim/topology/read/foreign.h"

namespace moesim {

double leading_number(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  return number >= 0 && number < 1e15 ? number : 0;
}

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

}  // namespace moesim
