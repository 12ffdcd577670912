// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/lossy_flag.h"

namespace moesim {

void LossyFlag::add_to(CommandLine& command) {
  command
      .add_option("--lossy", answer,
                  "never (default), or allow: policies that drop, replace, round or compress may "
                  "be the best, too")
      .one_of({"never", "allow"});
}

}  // namespace moesim
