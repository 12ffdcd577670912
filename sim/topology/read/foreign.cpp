// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/foreign.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <sstream>

#include "sim/base/error.h"

namespace moesim {
namespace {

/// An output by two texts that are in it.
struct OtherOutput {
  const char* first;
  const char* second;
  const char* what;
  const char* instead;
};
constexpr std::array<OtherOutput, 25> other_outputs = {
    {{"CA type:", "Link layer:", "ibstat", "ibnetdiscover"},
     {"CA '", "Port 1:", "ibstat", "ibnetdiscover"},
     {"Infiniband device '", "base lid:", "ibstatus", "ibnetdiscover"},
     {"hca_id:", "transport:", "ibv_devinfo", "ibnetdiscover"},
     {" - CA ", "4x ", "ibnetdiscover -p", "ibnetdiscover without -p"},
     {"Block Name", "Nodes", "azslurm topology as a table", "scontrol show topology"},
     {" ports ", " devid 0x", "ibnetdiscover -l", "ibnetdiscover without -l"},
     {"Package L#", "PU L#", "lstopo as text", "lstopo --of xml"},
     {"Package L#", "PCI", "lstopo as text", "lstopo --of xml"},
     {"NVIDIA-SMI ", "Driver Version", "nvidia-smi", "nvidia-smi topo -m"},
     {"Attached GPUs", "Driver Version", "nvidia-smi -q", "nvidia-smi topo -m"},
     {"GPU 0: ", "(UUID: ", "nvidia-smi -L or nvlink", "nvidia-smi topo -m"},
     {" controller: ", " [", "lspci", "nvidia-smi topo -m or lstopo --of xml"},
     {" controller: ", "(rev ", "lspci", "nvidia-smi topo -m or lstopo --of xml"},
     {"Labels:", "Capacity:", "kubectl describe", "kubectl get nodes -o yaml"},
     {"STATUS", "ROLES", "kubectl get nodes", "kubectl get nodes -o yaml"},
     {"PARTITION", "NODELIST", "sinfo", "scontrol show topology"},
     {"NodeName=", "CPU", "Slurm about its nodes", "scontrol show topology"},
     {"NodeName=", "Gres", "Slurm about its nodes", "scontrol show topology"},
     {" port ", " ==> ", "ibdev2netdev", "ibnetdiscover"},
     {"device", "node GUID", "ibv_devices", "ibnetdiscover"},
     {"index, name", " [MiB]", "nvidia-smi --query-gpu", "nvidia-smi topo -m"},
     {"Autoscaler status", "Node status", "ray status", "nvidia-smi topo -m"},
     {"children:", "hosts:", "ansible-inventory", "nvidia-smi topo -m"},
     {"\n[", "ansible_", "ansible-inventory", "nvidia-smi topo -m"}}};

/// Whether a line is a section of an INI file, "[gpu]" or "[gpu:vars]".
bool is_section(const std::string& line) {
  return line.size() > 2 && line.front() == '[' && line.back() == ']' &&
         line.find_first_of(" ,\"'", 1) == std::string::npos;
}

/// Whether a line is of a host file: "node01:8" or "node01 slots=8".
bool is_host(const std::string& line) {
  const std::size_t end = line.find_first_of(": ");
  if (end == std::string::npos || end == 0) return false;
  const std::string rest = line.substr(end);
  const std::size_t digits = rest.starts_with(" slots=") ? 7 : rest.starts_with(":") ? 1 : 0;
  return digits > 0 && digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9';
}

/// What lists hosts, by its lines; empty for others.
std::string list_of_hosts(const std::string& head) {
  std::istringstream lines(head);
  bool hosts = false, others = false;
  for (std::string line; std::getline(lines, line);) {
    line.resize(line.find_last_not_of(" \t\r") + 1);
    if (line.empty() || line.front() == '#') continue;
    if (is_section(line)) return "an inventory of hosts";
    (is_host(line) ? hosts : others) = true;
  }
  return hosts && !others ? "a host file of mpirun" : "";
}

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

void refuse_other_outputs(const std::string& text, const std::string& name) {
  const std::string head = text.substr(0, 1 << 16);
  const auto has = [&](const char* part) { return head.find(part) != std::string::npos; };
  for (const OtherOutput& output : other_outputs) {
    if (!has(output.first) || !has(output.second)) continue;
    throw error_in(name, fmt::format("is the output of {}, which is not read", output.what),
                   fmt::format("moesim topology import reads that of {}", output.instead));
  }
  if (const std::string list = list_of_hosts(head); !list.empty()) {
    throw error_in(name, fmt::format("is {}, which does not say how they are joined", list),
                   "moesim topology import reads nvidia-smi topo -m and others: "
                   "docs/topology-import.md");
  }
}

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
