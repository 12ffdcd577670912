// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/read/other_outputs.h"

#include <fmt/format.h>

#include <array>
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

}  // namespace moesim
