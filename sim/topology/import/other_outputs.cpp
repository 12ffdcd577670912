// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/import/other_outputs.h"

#include <fmt/format.h>

#include <array>

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
constexpr std::array<OtherOutput, 19> other_outputs = {
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
     {"NodeName=", "Gres", "Slurm about its nodes", "scontrol show topology"}}};

}  // namespace

void refuse_other_outputs(const std::string& text, const std::string& name) {
  const std::string head = text.substr(0, 1 << 16);
  const auto has = [&](const char* part) { return head.find(part) != std::string::npos; };
  for (const OtherOutput& output : other_outputs) {
    if (!has(output.first) || !has(output.second)) continue;
    throw error_in(name, fmt::format("is the output of {}, which is not read", output.what),
                   fmt::format("give that of {}", output.instead));
  }
}

}  // namespace moesim
