// SPDX-License-Identifier: Apache-2.0
// The traces of even exchanges, in a folder that goes with them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/base/temporary_folder.h"
#include "sim/evidence/published.h"

namespace moesim {

class PaperTraces {
 public:
  /// Draws what the settings ask for, each trace once, in worker processes.
  PaperTraces(const std::vector<PaperTable>& tables, int workers);

  /// The flags of the setting with its trace.
  std::vector<Override> flags(const PaperSetting& setting) const;

 private:
  TemporaryFolder folder_;
};

/// An even all-to-all as routing: as many tokens of equal size from every rank to every other.
struct EvenExchange {
  std::int64_t tokens = 0;  // of a rank
  std::int64_t hidden = 0;  // of a token, 4 bytes each
};
EvenExchange even_exchange(Bytes bytes, int ranks);

}  // namespace moesim
