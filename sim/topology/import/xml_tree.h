// SPDX-License-Identifier: Apache-2.0
// Elements of an XML file.
#pragma once

#include <functional>
#include <pugixml.hpp>
#include <string>

#include "sim/topology/import/facts.h"

namespace moesim {

/// Calls visit(element) for all elements below one, in the order of the file, however deep.
inline void for_elements(const pugi::xml_node& top,
                         const std::function<void(const pugi::xml_node&)>& visit) {
  pugi::xml_node at = top.first_child();
  while (at) {
    if (at.type() == pugi::node_element) visit(at);
    if (at.first_child()) {
      at = at.first_child();
      continue;
    }
    while (at && at != top && !at.next_sibling()) at = at.parent();
    at = at == top ? pugi::xml_node() : at.next_sibling();
  }
}

/// Elements of that name below one.
inline int count_elements(const pugi::xml_node& top, const std::string& name) {
  int count = 0;
  for_elements(top, [&](const pugi::xml_node& e) { count += e.name() == name; });
  return count;
}

/// Of <system>, <graphs> and <topology>.
NodeFacts nccl_system_facts(const pugi::xml_node& system);
NodeFacts nccl_graph_facts(const pugi::xml_node& graphs);
NodeFacts hwloc_facts(const pugi::xml_node& topology);

/// The number at the start of a text such as "32.0 GT/s PCIe"; 0 if there is none.
double leading_number(const std::string& text);

}  // namespace moesim
