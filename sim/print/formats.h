// SPDX-License-Identifier: Apache-2.0
// Printouts for programs and pages. Columns without anything to say stay, so that the columns do
// not depend on the figures.
#pragma once

#include "sim/print/render.h"

namespace moesim {

/// RFC 4180 with full numbers in SI units ("step [s]"); an empty line between tables.
Rendered as_csv(const Printout& printout);

/// An object of tables by name, each a list of rows by column; full numbers in SI units.
Rendered as_json(const Printout& printout);

/// Tables as on GitHub, lines as lists.
Rendered as_markdown(const Printout& printout);

}  // namespace moesim
