// SPDX-License-Identifier: Apache-2.0
// Who waits for experts that change their places.
#pragma once

namespace moesim {

enum class Migration {
  blocks,       // the step starts when it has ended
  overlapped,   // only the experts of its layer wait for it
  asynchronous  // nobody waits: its slots are used from the first step after it on
};

}  // namespace moesim
