// SPDX-License-Identifier: Apache-2.0
// Work on traces that takes a while.
#pragma once

#include <string>

#include "sim/base/stop_signals.h"
#include "sim/print/progress_line.h"
#include "sim/trace/progress.h"

namespace moesim {

/// While it lives, Ctrl-C ends the work at its next step, so that nothing half-written stays; on a
/// terminal a line tells how far the work is. One at a time.
class LongWork {
 public:
  explicit LongWork(std::string what, std::string interrupted = "interrupted; nothing was written");

  /// To be called now and then; throws Interrupted after Ctrl-C.
  TraceProgress progress() {
    return [this](double done) { show(done); };
  }

  /// Whether Ctrl-C was pressed: for work that ends by itself then.
  static bool stopped();
  /// The signal that it was, 0: none.
  int signal() const { return signals_.caught(); }

 private:
  void show(double done);

  std::string what_, interrupted_;
  StopSignals signals_;
  ProgressLine line_;
};

}  // namespace moesim
