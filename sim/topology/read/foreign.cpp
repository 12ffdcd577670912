// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/foreign.h"

#include <algorithm>
#include <initializer_list>
#include <sstream>

namespace moesim {
namespace {

/// Bytes in which a form shows.
constexpr std::size_t looked_at = 1 << 16;

bool is_xml(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  return first != std::string::npos && (text[first] == '<' || xml_begins(text) > 0);
}

bool has_line_of(const std::string& text, std::initializer_list<const char*> beginnings) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    for (const char* beginning : beginnings) {
      if (line.starts_with(beginning)) return true;
    }
  }
  return false;
}

/// GPU0 somewhere (the header may be underlined), and an X of the diagonal.
bool is_smi(const std::string& text) {
  return text.find("GPU0") != std::string::npos &&
         (text.find(" X ") != std::string::npos || text.find("\tX") != std::string::npos);
}

/// A table of AMD's tools, or a line of their JSON.
bool is_amd_smi(const std::string& text) {
  for (const char* const words : {" between two GPUs", "LINK TYPE TABLE:", "HOPS TABLE:",
                                  "(Topology) Link type between", "\"link_type\""}) {
    if (text.find(words) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::size_t xml_begins(const std::string& text) {
  std::size_t first = text.size();
  for (const char* const root : {"\n<?xml ", "\n<system ", "\n<graphs ", "\n<topology "}) {
    first = std::min(first, text.find(root));
  }
  return first < text.size() ? first + 1 : 0;
}

ForeignForm foreign_form(const std::string& text) {
  const std::string head = text.substr(0, looked_at);
  if (is_xml(head)) return ForeignForm::xml;
  if (has_line_of(head, {"SwitchName=", "switchname=", "SWITCHNAME=", "BlockName=", "blockname=",
                         "BLOCKNAME="})) {
    return ForeignForm::slurm_conf;
  }
  if (has_line_of(head, {"switchguid=", "caguid="}) && has_line_of(head, {"Switch\t", "Ca\t"})) {
    return ForeignForm::ibnetdiscover;
  }
  if (head.find("==(") != std::string::npos && head.find(")==>") != std::string::npos) {
    return ForeignForm::iblinkinfo;
  }
  if (is_amd_smi(head)) return ForeignForm::amd_smi;
  if (is_smi(head)) return ForeignForm::smi;
  if (head.find("\"kind\":\"List\"") != head.npos || head.find("\"kind\":\"Node") != head.npos) {
    return ForeignForm::yaml;  // JSON in one line
  }
  if (has_line_of(head, {"- topology:", "capacity_blocks:", "kind: Node", "kind: List",
                         "\"kind\": \"Node", "\"kind\": \"List"})) {
    return ForeignForm::yaml;
  }
  return ForeignForm::none;
}

std::string name_of(ForeignForm form) {
  switch (form) {
    case ForeignForm::none:
      return "";
    case ForeignForm::xml:
      return "XML";
    case ForeignForm::slurm_conf:
      return "Slurm's topology.conf";
    case ForeignForm::ibnetdiscover:
      return "ibnetdiscover's output";
    case ForeignForm::iblinkinfo:
      return "iblinkinfo's output";
    case ForeignForm::amd_smi:
      return "what AMD's tools say of links";
    case ForeignForm::smi:
      return "the matrix of nvidia-smi topo -m";
    case ForeignForm::yaml:
      return "a list of switches or nodes by others";
  }
  return "";
}

}  // namespace moesim
