// SPDX-License-Identifier: Apache-2.0
// A library that is loaded when it is needed, from wherever a GPU's software was installed.
#pragma once

#include <string>
#include <vector>

namespace moesim {

class SharedLibrary {
 public:
  struct Names {
    std::string file;      // "libnccl.so.2"
    std::string variable;  // of the environment, names the file itself: "MOESIM_NCCL"
    std::string home;      // of the environment, a folder with lib or lib64: "NCCL_HOME"
    std::string package;   // of a Python environment, below nvidia: "nccl"
  };
  /// Looks at, in this order: $variable, which then is the only place; $home; $CUDA_HOME; the
  /// loader's own path (LD_LIBRARY_PATH); the Python environments $VIRTUAL_ENV and $CONDA_PREFIX;
  /// /usr/local/cuda. Throws std::runtime_error naming the places when it is in none.
  explicit SharedLibrary(const Names& names);
  ~SharedLibrary();
  SharedLibrary(const SharedLibrary&) = delete;
  SharedLibrary& operator=(const SharedLibrary&) = delete;

  /// Throws std::runtime_error when the library lacks it.
  template <class Function>
  void find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name, true));
  }
  /// Null when the library lacks it.
  template <class Function>
  void find_optional(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name, false));
  }
  const std::string& path() const { return path_; }

 private:
  void* symbol(const char* name, bool required) const;

  std::string path_;
  void* handle_ = nullptr;
};

}  // namespace moesim
