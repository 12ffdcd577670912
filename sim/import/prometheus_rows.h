// SPDX-License-Identifier: Apache-2.0
// Counts in the text that a server's /metrics page has: name{layer="1",expert="0"} 7.
#pragma once

#include <string>

#include "sim/import/prometheus_counters.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_rows.h"

namespace moesim {

/// Uses a row for each sample that has the label of an expert; returns how many there are. Rows of
/// a counter hold what it counted since the scrape before, in this file or an earlier one, and the
/// scrape is their step. Throws Error if samples are of several metrics, of which nobody can say
/// which counts tokens.
std::int64_t read_prometheus_rows(const std::string& path, const TableFields& fields,
                                  PrometheusCounters& counters, const TableReader::Use& use);

}  // namespace moesim
