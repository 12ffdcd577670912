// SPDX-License-Identifier: Apache-2.0
// Counts of a server's metrics: rows of the samples name{layer="1",expert="0"} 7.
#pragma once

#include <string>

#include "sim/import/json_items.h"
#include "sim/import/prometheus_counters.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_rows.h"

namespace moesim {

/// Uses a row for each sample that has the label of an expert; returns whether there are any. Rows
/// of a counter hold what it counted since the scrape before, in this file or an earlier one; the
/// scrape is their step. Counters hold those of a first scrape back. Throws Error if samples are of
/// several metrics, of which nobody can say which counts tokens, and for a page without such
/// samples or with one that cannot be read.
bool read_metrics_page(const std::string& path, const TableFields& fields,
                       PrometheusCounters& counters, const TableReader::Use& use);

/// The same of a file that holds_expert_samples. Returns whether its last line is cut short.
bool read_metrics_json(const std::string& path, const TableFields& fields,
                       PrometheusCounters& counters, const TableReader::Use& use);

/// Whether an item of JSON holds samples with the label of an expert, as use_json_samples knows
/// them.
bool holds_expert_samples(const JsonElement& item, const TableFields& fields);

}  // namespace moesim
