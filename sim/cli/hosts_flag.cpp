// SPDX-License-Identifier: Apache-2.0
#include "sim/cli/hosts_flag.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/plain_line.h"
#include "sim/base/read_number.h"
#include "sim/topology/import/host_list.h"

namespace moesim {
namespace {

constexpr int largest_count = 1 << 20;

/// Hosts and the slots that are said of them.
class NamedHosts {
 public:
  /// "gpu[001-008]" or "n1:8"; `slots` of each are said apart. False for other words.
  bool add(const std::string& list, std::optional<int> slots = {}) {
    for (const std::string& host : expand_hosts(list)) {
      const std::size_t colon = host.find(':');
      const bool counted = colon != std::string::npos;
      const auto own = counted ? parse_integer<int>(host.substr(colon + 1)) : slots;
      if (colon == 0 || (counted && !own)) return false;
      if (own && (*own < 0 || *own > largest_count)) return false;
      names_.insert(host.substr(0, colon));
      slots_ += own.value_or(0);
      all_say_ = all_say_ && own;
    }
    return true;
  }

  void take(LogChoice& choice) const {
    choice.hosts = static_cast<int>(names_.size());
    if (slots_ > 0 && all_say_)
      choice.slots = static_cast<int>(std::min<long long>(slots_, largest_count));
  }
  bool empty() const { return names_.empty(); }

 private:
  std::set<std::string> names_;
  long long slots_ = 0;
  bool all_say_ = true;
};

/// Whether a word may name a host: "n1", "n1:8", "gpu[1-4]", "10.0.0.1".
bool is_host(const std::string& word) {
  constexpr const char* parts =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_[],:";
  return word.front() != '[' && word.front() != '-' &&
         word.find_first_not_of(parts) == std::string::npos;
}

/// The slots of "slots=8"; nothing for other words.
std::optional<int> slots_in(const std::string& word) {
  for (const std::string_view key : {"slots=", "cpu=", "ngpus="}) {
    if (word.starts_with(key)) return parse_integer<int>(word.substr(key.size()));
  }
  return std::nullopt;
}

/// Whether the line is the name of a column, as squeue and sinfo print it above hosts.
bool is_heading(const std::string& line) {
  constexpr std::array<std::string_view, 6> names = {
      "NODELIST", "NODELIST(REASON)", "HOSTNAMES", "HOSTNAME", "HOSTS", "NODES"};
  const std::size_t last = line.find_last_not_of(" \t\r");
  return std::ranges::find(names, line.substr(0, last + 1)) != names.end();
}

/// What is behind "rank 0=", as Open MPI's files of ranks name hosts; else the line.
std::string without_rank(const std::string& line) {
  std::istringstream words(line);
  std::string first, second;
  words >> first >> second;
  const std::size_t equals = second.find('=');
  const bool rank = first == "rank" && equals != std::string::npos && equals > 0 &&
                    second.find_first_not_of("0123456789") == equals;
  return rank ? line.substr(line.find('=') + 1) : line;
}

/// Lines of a file of hosts of mpirun, Slurm, PBS or MPICH; '#' begins a comment.
NamedHosts hosts_in_file(const std::string& path) {
  constexpr const char* hint = "a line per host, as mpirun takes them: n1 slots=8, or n1:8";
  std::istringstream in(read_file(path));
  NamedHosts hosts;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    line = plain_line(line.substr(0, line.find('#')));
    if (hosts.empty() && is_heading(line)) continue;
    std::istringstream words(without_rank(line));
    std::string host;
    if (!(words >> host)) continue;
    const std::size_t user = host.find('@');
    if (user != std::string::npos) host.erase(0, user + 1);
    std::optional<int> slots;
    bool sound = !host.empty() && is_host(host);
    for (std::string word; words >> word;) {
      sound = sound && word.find('=') != std::string::npos && word.front() != '=';
      if (const auto said = slots_in(word)) slots = said;
    }
    if (!sound || !hosts.add(host, slots)) {
      throw error_in(path, fmt::format("'{}' does not name a host and its slots", line), hint,
                     number);
    }
  }
  if (hosts.empty()) throw error_in(path, "names no hosts", hint);
  return hosts;
}

/// Whether the text can only be a file: names of hosts have neither '/' nor such an end.
bool looks_like_file(const std::string& text) {
  constexpr std::array<const char*, 8> ends = {".txt",  ".cfg",   ".conf", ".ini",
                                               ".list", ".hosts", ".log",  "hostfile"};
  if (text.find('/') != std::string::npos) return true;
  constexpr std::array<std::string_view, 9> names = {"hosts",     "nodes",      "machines",
                                                     "nodelist",  "hostlist",   "node_list",
                                                     "host_list", "hosts_file", "PBS_NODEFILE"};
  constexpr std::array<const char*, 4> kinds = {"file", "_hosts", "_nodes", "_machines"};
  const auto ends_so = [&](const char* end) { return text.ends_with(end); };
  return std::ranges::any_of(ends, ends_so) || std::ranges::any_of(kinds, ends_so) ||
         std::ranges::find(names, text) != names.end();
}

}  // namespace

void take_hosts(const std::string& text, LogChoice& choice) {
  const auto count = parse_integer<int>(text);
  if (count && *count > 0 && *count <= largest_count) {
    choice.hosts = *count;
    return;
  }
  std::error_code unreadable;
  const auto kind = std::filesystem::status(text, unreadable).type();
  if (kind == std::filesystem::file_type::regular || kind == std::filesystem::file_type::fifo ||
      text == "/dev/stdin") {
    return hosts_in_file(text).take(choice);
  }
  const char* hint = "--hosts 8, --hosts n1,n2, --hosts 'gpu[001-008]' or a file of hosts";
  if (text.find('/') != std::string::npos && std::filesystem::exists(text, unreadable)) {
    throw Error("--hosts: '" + text + "' is not a file of hosts", hint);
  }
  if (looks_like_file(text)) throw Error("--hosts: no file '" + text + "'", hint);
  const Error unknown(
      "--hosts: '" + text + "' is neither a number of hosts nor a list of their names", hint);
  if (text.find_first_not_of("+-0123456789") == std::string::npos || text.front() == ',' ||
      text.back() == ',' || text.find(",,") != std::string::npos) {
    throw unknown;
  }
  NamedHosts hosts;
  if (!hosts.add(text)) throw unknown;
  hosts.take(choice);
  if (choice.hosts == 1 && !choice.slots) choice.only_host = text;
}

}  // namespace moesim
