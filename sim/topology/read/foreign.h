// SPDX-License-Identifier: Apache-2.0
// Descriptions of clusters by others, told apart by their text from what programs print that
// describes no cluster.
#pragma once

#include <cstddef>
#include <string>

namespace moesim {

/// Throws Error that says what to give instead if a text is of one of them.
void refuse_other_outputs(const std::string& text, const std::string& name);

enum class ForeignForm {
  none,
  xml,            // of NCCL, lstopo
  slurm_conf,     // topology.conf
  ibnetdiscover,  // what it prints
  iblinkinfo,     // the same
  amd_smi,        // rocm-smi --showtopo, amd-smi topology
  smi,            // nvidia-smi topo -m
  yaml            // of Slurm, topograph, Kubernetes
};

/// What a text looks like.
ForeignForm foreign_form(const std::string& text);

/// Where a root of XML that is known follows other lines; 0 if none does.
std::size_t xml_begins(const std::string& text);

/// "Slurm's topology.conf".
std::string name_of(ForeignForm form);

}  // namespace moesim
