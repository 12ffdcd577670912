// SPDX-License-Identifier: Apache-2.0
// Fitted exchanges as the files that topologies read, and as tables for people.
#pragma once

#include <string>

#include "realhw/calibrate/exchange_fit.h"
#include "realhw/calibrate/provenance.h"

namespace moesim {

/// PREFIX-CLASS.calib.yaml, which read_calibration reads.
std::string link_yaml(const std::string& name, const ClassFit& fit, const Provenance& provenance);

/// Overheads, tables with residuals and confidence.
std::string exchange_report(const ExchangeFit& fit);

/// One row per plan: how far simulated times are from those measured.
std::string check_report(const std::vector<ExchangeCheck>& checks);

}  // namespace moesim
