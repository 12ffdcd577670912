// SPDX-License-Identifier: Apache-2.0
// Linked with the mutants of scripts/mutate: chooses one and notes which ones a run comes to,
// children included.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Mutants {
  int chosen = 0;
  int known = 0;
  unsigned char* reached = nullptr;

  Mutants() {
    if (const char* text = std::getenv("MOESIM_MUTANT")) chosen = std::atoi(text);
    const char* path = std::getenv("MOESIM_REACHED");
    const int file = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || fstat(file, &status) != 0) return;
    void* map = mmap(nullptr, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED) std::abort();
    reached = static_cast<unsigned char*>(map);
    known = static_cast<int>(status.st_size);
    close(file);
  }
};

// Before all that a source initializes.
__attribute__((init_priority(101))) Mutants mutants;

}  // namespace

extern "C" bool moesim_mutant(int number) noexcept {
  if (number < mutants.known) mutants.reached[number] = 1;
  return number == mutants.chosen;
}

#ifdef MODULES
/// Modules of the room are loaded with their mutants.
extern "C" void* dlopen(const char* file, int flags) {
  using Open = void*(const char*, int);
  static const auto open_file = reinterpret_cast<Open*>(dlsym(RTLD_NEXT, "dlopen"));
  const char* slash = file == nullptr ? nullptr : std::strrchr(file, '/');
  const std::string changed = MODULES + std::string(slash == nullptr ? "" : slash + 1);
  return open_file(access(changed.c_str(), R_OK) == 0 ? changed.c_str() : file, flags);
}
#endif
