// SPDX-License-Identifier: Apache-2.0
#include "sim/base/processes.h"

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

namespace moesim {

pid_t fork_bound() {
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it ended before the kernel knew
  return 0;
}

}  // namespace moesim
