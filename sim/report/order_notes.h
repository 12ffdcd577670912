// SPDX-License-Identifier: Apache-2.0
// Why cases come out in an order that surprises.
#pragma once

#include <string>
#include <vector>

#include "sim/report/case_report.h"

namespace moesim {

/// Lines that start with #, of cases that ran on one topology at one fidelity:
///  - cases that exchange tokens by links at the rates of data sheets, and others by measured ones;
///  - cases whose weights travel in every step and are waited for, a tenth of the step or more;
///  - one that is slower than a static placement whose busiest GPU has less to do;
///  - those whose exchanges of tokens compute hides for a tenth of the step, ahead of others whose
///    exchanges it does not hide;
///  - cases that are too close to have an order.
/// Of iterations only the first: their table says where time goes.
std::string order_notes(const std::vector<CaseResult>& cases);

}  // namespace moesim
