// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "sim/base/container_log.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/pasted_text.h"
#include "sim/topology/import/import.h"
#include "sim/topology/import/text_forms.h"
#include "sim/topology/import/xml_forms.h"
#include "sim/topology/import/yaml_forms.h"
#include "sim/topology/read/foreign.h"
#include "sim/topology/read/other_outputs.h"

namespace moesim {
namespace {

constexpr std::size_t most_bytes = 1 << 28;

void check_one_machine(const std::string& text, const std::string& name) {
  const std::vector<std::string> machines = names_before_lines(text);
  if (machines.size() < 2) return;
  throw error_in(name, fmt::format("has lines of {} machines", machines.size()),
                 fmt::format("those of one: grep '^{}' {}", machines.front(), name));
}

}  // namespace

ClusterFacts read_facts(const std::string& path) { return parse_facts(read_file(path), path); }

ClusterFacts parse_facts(const std::string& text, const std::string& name) {
  if (text.size() > most_bytes) throw error_in(name, "more than 256 MiB", "is it the right file?");
  if (text.find(" NCCL INFO ") != std::string::npos) {
    throw error_in(name, "is a log of NCCL, which does not describe a cluster",
                   "NCCL_TOPO_DUMP_FILE=topo.xml makes NCCL write what does");
  }
  if (const auto lines = container_lines(text, name)) return parse_facts(*lines, name);
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

}  // namespace moesim
