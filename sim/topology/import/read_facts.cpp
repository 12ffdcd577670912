// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/topology/import/import.h"
#include "sim/topology/import/text_forms.h"
#include "sim/topology/import/xml_forms.h"
#include "sim/topology/import/yaml_forms.h"
#include "sim/topology/read/foreign.h"

namespace moesim {
namespace {

constexpr std::size_t most_bytes = 1 << 28;

}  // namespace

ClusterFacts read_facts(const std::string& path) { return parse_facts(read_file(path), path); }

ClusterFacts parse_facts(const std::string& text, const std::string& name) {
  if (text.size() > most_bytes) throw error_in(name, "more than 256 MiB", "is it the right file?");
  if (text.find(" NCCL INFO ") != std::string::npos) {
    throw error_in(name, "is a log of NCCL, which does not describe a cluster",
                   "NCCL_TOPO_DUMP_FILE=topo.xml makes NCCL write what does");
  }
  switch (foreign_form(text)) {
    case ForeignForm::xml:
      return xml_facts(text, name);
    case ForeignForm::slurm_conf:
      return slurm_conf_facts(text, name);
    case ForeignForm::ibnetdiscover:
      return ibnetdiscover_facts(text, name);
    case ForeignForm::amd_smi:
      return amd_smi_facts(text, name);
    case ForeignForm::smi:
      return smi_facts(text, name);
    case ForeignForm::yaml:
    case ForeignForm::none:
      break;
  }
  return yaml_facts(text, name);
}

}  // namespace moesim
