// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/nvlink_setting.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/base/read_number.h"
#include "sim/linkfit/logs/nccl_lines.h"

namespace moesim {
namespace {

using Scope = NvlinkSetting::Scope;
using Words = std::vector<std::string>;

constexpr std::string_view quotes = "\"'`\\";

template <std::size_t N>
bool is_of(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

std::string_view trimmed(std::string_view text, std::string_view of = " \t") {
  const std::size_t first = text.find_first_not_of(of);
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(of) + 1 - first);
}

/// "NCCL_DEBUG=INFO".
bool is_assignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0 &&
         word.substr(0, equals).find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
             std::string_view::npos;
}

bool is_program(std::string_view word) {
  constexpr std::array<std::string_view, 36> known = {
      "mpirun",    "mpiexec", "srun",     "orterun", "prterun",       "prun",
      "jsrun",     "flux",    "aprun",    "docker",  "podman",        "nerdctl",
      "sbatch",    "salloc",  "qsub",     "kubectl", "helm",          "singularity",
      "apptainer", "enroot",  "bash",     "sh",      "env",           "sudo",
      "time",      "nohup",   "numactl",  "timeout", "exec",          "taskset",
      "python",    "python3", "torchrun", "nsys",    "mpiexec.hydra", "command"};
  word = trimmed(word, quotes);
  return is_of(known, word) || word.starts_with("./") || word.starts_with("/") ||
         word.starts_with("../") || word.starts_with("~/") || word.starts_with("$") ||
         word.ends_with(".sh") || word.find("_perf") != std::string_view::npos;
}

/// Whether a word may follow in a command: not one of a sentence.
bool goes_on(std::string_view word) {
  return is_program(word) || is_assignment(word) ||
         (word.starts_with("-") && !word.starts_with("->")) || word.starts_with(";") ||
         word.starts_with("&") || word.starts_with("|");
}

/// Whether nothing of the command follows: its end, a comment or the next command.
bool ends(std::string_view tail) {
  tail = trimmed(tail);
  if (tail.empty() || std::string_view(";&|)}#").find(tail[0]) != std::string_view::npos) {
    return true;
  }
  return tail[0] == ',' && (tail.size() == 1 || tail[1] != ' ');
}

bool is_directive(std::string_view word) {
  constexpr std::array<std::string_view, 9> known = {"#SBATCH", "#PBS",   "#BSUB", "#PJM",   "#$",
                                                     "#FLUX:",  "#flux:", "#MSUB", "#COBALT"};
  return is_of(known, word);
}

/// What may be before a command: "n1:", "[1,0]<stdout>:", "12:30:01", "then".
bool is_tag(std::string_view word) {
  constexpr std::array<std::string_view, 3> of_shells = {"then", "do", "else"};
  return (word.size() > 1 && word.ends_with(":")) || is_of(of_shells, word) ||
         (word.starts_with("[") && word.ends_with("]")) ||
         word.find_first_not_of("0123456789-:.,TZ") == std::string_view::npos;
}

/// Where the command begins that a place is in, and whether it is one of a shell's own.
struct Begin {
  std::size_t at = 0;
  bool prompt = false, traced = false, inner = false;
};
Begin command_before(std::string_view line, std::size_t place) {
  constexpr std::array<std::string_view, 14> marks = {"$ ",  "]# ",      "~# ",   "; ",    "&& ",
                                                      "|| ", ";export ", "-c '",  "-c \"", "( ",
                                                      "{ ",  "> ",       "-lc '", "% "};
  Begin begin;
  const std::string_view before = line.substr(0, place);
  begin.traced = before.starts_with("+");
  if (begin.traced) begin.at = before.find_first_not_of("+ ");
  begin.at = std::min(begin.at, place);
  for (const std::string_view mark : marks) {
    const std::size_t at = before.rfind(mark);
    if (at == std::string_view::npos) continue;
    if (mark.starts_with("$")) begin.prompt = true;
    if (mark.find("c ") != std::string_view::npos) begin.inner = true;
    const std::size_t end = mark == ";export " ? at + 1 : at + mark.size();
    if (end > begin.at) begin.at = end;
  }
  return begin;
}

/// A place where the name is, and what is around it in its command.
struct Mention {
  Words words;                        // before it
  std::string glued;                  // to it, before
  char sign = ' ';                    // between it and its value: '=', ':' or ' '
  bool tight = true, quoted = false;  // no blank around the sign; the value is in quotes
  std::optional<int> value;
  std::string_view tail;
  Begin begin;
  bool directive = false, comment = false;
};

/// Reads sign, value and tail.
void read_value(std::string_view after, Mention& found) {
  after.remove_prefix(std::min(after.find_first_not_of("\"'`]"), after.size()));
  const std::size_t sign = after.find_first_not_of(" \t");
  if (sign != std::string_view::npos && std::string_view("=:,").find(after[sign]) <= 2) {
    found.sign = after[sign];
    found.tight = sign == 0;
    after.remove_prefix(sign + 1);
  }
  const std::size_t start = after.find_first_not_of(" \t\"'`\\");
  const std::string_view skipped = after.substr(0, start);
  const std::string_view rest =
      start == std::string_view::npos ? std::string_view() : after.substr(start);
  const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
  found.tight = found.tight && skipped.find_first_of(" \t") == std::string_view::npos;
  found.quoted = skipped.find_first_of(quotes) != std::string_view::npos;
  found.value = parse_integer<int>(std::string(digits));
  found.tail = found.value ? rest.substr(digits.size()) : after;
  found.tail.remove_prefix(std::min(found.tail.find_first_not_of(quotes), found.tail.size()));
}

Mention mention_at(const std::string& line, std::size_t at) {
  Mention found;
  found.begin = command_before(line, at);
  const Words all = words_of(std::string_view(line).substr(0, at));
  found.directive = !all.empty() && is_directive(all.front());
  constexpr std::array<std::string_view, 4> remarks = {"//", ";", ":", "REM"};
  found.comment = !all.empty() && is_of(remarks, all.front());
  for (const std::string& word : all) {
    const bool prompt = line.find("]# ") < at || line.find("~# ") < at;
    found.comment = found.comment || (word[0] == '#' && !found.directive && !prompt);
  }
  const std::string_view before =
      std::string_view(line).substr(found.begin.at, at - found.begin.at);
  const std::size_t blank = before.find_last_of(" \t");
  const std::size_t glued = blank == std::string_view::npos ? 0 : blank + 1;
  found.words = words_of(before.substr(0, glued));
  found.glued = std::string(before.substr(glued));
  const auto traces = [](const std::string& word) { return word == "+" || word == "++"; };
  while (!found.words.empty() && (is_tag(found.words.front()) || traces(found.words.front()))) {
    found.begin.traced = found.begin.traced || traces(found.words.front());
    found.words.erase(found.words.begin());
  }
  read_value(std::string_view(line).substr(at + nvlink_variable.size()), found);
  return found;
}

bool all_assign(const Words& words, std::size_t from) {
  return std::all_of(words.begin() + static_cast<std::ptrdiff_t>(std::min(from, words.size())),
                     words.end(),
                     [](const std::string& w) { return is_assignment(w) || w[0] == '-'; });
}

/// export, setenv and the like.
std::optional<NvlinkSetting> by_keyword(const Mention& found) {
  constexpr std::array<std::string_view, 6> assigning = {"export", "declare", "typeset",
                                                         "ENV",    "setenv",  "set"};
  if (found.words.empty() || !trimmed(found.glued, quotes).empty()) return std::nullopt;
  const Scope scope = found.begin.inner ? Scope::command : Scope::all;
  const std::string_view word = trimmed(found.words.front(), quotes);
  if (word == "unset" || word == "unsetenv") return NvlinkSetting{std::nullopt, scope};
  if (!is_of(assigning, word) || !all_assign(found.words, 1)) return std::nullopt;
  if (word == "export" && found.words.size() > 1 && found.words[1] == "-n") {
    return NvlinkSetting{std::nullopt, scope};
  }
  const bool apart = word == "setenv" || word == "set" || word == "ENV";
  if (found.sign != '=' && !(apart && found.sign == ' ' && found.value)) return std::nullopt;
  const Words next = words_of(found.tail);
  if (!ends(found.tail) && !(found.tail[0] == ' ' && is_assignment(next.front()))) {
    return std::nullopt;
  }
  return NvlinkSetting{found.value, scope};
}

/// "-x NAME=0", "--export=ALL,NAME=0", "-genv NAME 0" of a command.
std::optional<NvlinkSetting> by_option(const Mention& found) {
  const std::string_view glued = trimmed(found.glued, quotes);
  const bool list =
      glued.empty() || glued.ends_with(",") || glued.ends_with(";") || glued.ends_with("=");
  const std::string last = found.words.empty() ? "" : found.words.back();
  const bool option = (last.size() > 1 && last[0] == '-') || last == "mca_base_env_list";
  if (!list || !(option || (glued.size() > 1 && glued[0] == '-'))) return std::nullopt;
  if (last == "-u" && found.words.front() == "env") return NvlinkSetting{{}, Scope::command};
  const bool apart = last == "-genv" || last == "-env";
  if (!found.value || !(found.sign == '=' || (apart && found.sign == ' '))) return std::nullopt;
  const std::string_view first = found.words.empty() ? glued : std::string_view(found.words[0]);
  const Words next = words_of(found.tail);
  const bool follows = !next.empty() && (goes_on(next.front()) || found.tail[0] == ',');
  const bool sound = is_program(first) || is_assignment(first) || first[0] == '-' ||
                     found.directive || (follows && std::ranges::any_of(found.words, is_program));
  if (!sound) return std::nullopt;
  return NvlinkSetting{found.value, found.directive ? Scope::job : Scope::command};
}

/// "NAME=0" at the beginning of a line or command, and of the command behind it if there is one.
std::optional<NvlinkSetting> by_itself(Mention found) {
  if (found.sign != '=') return std::nullopt;
  const bool listed = !found.words.empty() && found.words.front() == "-";
  if (listed) found.words.erase(found.words.begin());
  const std::string_view glued = trimmed(found.glued, quotes);
  const bool unit = glued == "Environment=" || glued == "Environment=\"";
  if (!(glued.empty() || unit)) return std::nullopt;
  const bool led = std::ranges::all_of(
      found.words, [](const std::string& w) { return is_assignment(w) || is_program(w); });
  if (!led) return std::nullopt;
  const bool run = std::ranges::any_of(found.words, is_program);
  Words next = words_of(found.tail);
  std::erase_if(next, is_assignment);
  if (ends(found.tail) || (next.empty() && found.tail[0] == ' ')) {
    if (!found.tight && !found.words.empty()) return std::nullopt;
    // A shell that shows what it does shows such a setting apart from its command.
    if (run || found.begin.traced) return NvlinkSetting{found.value, Scope::command};
    return NvlinkSetting{found.value, listed ? Scope::job : Scope::all};
  }
  if (next.empty()) return std::nullopt;
  const bool command = found.begin.prompt || run || is_program(next.front());
  if (!found.tight || found.tail[0] != ' ' || !command) return std::nullopt;
  return NvlinkSetting{found.value, Scope::command};
}

/// "NAME: 0" of YAML and JSON, and os.environ["NAME"] = "0" of Python.
std::optional<NvlinkSetting> by_map(const Mention& found) {
  if (!found.value) return std::nullopt;
  const std::string& glued = found.glued;
  if (glued.find("env") != std::string::npos && glued.find_first_of("[(") != std::string::npos) {
    return NvlinkSetting{found.value, Scope::all};
  }
  const bool first = found.words.empty() || found.words == Words{"-"} || found.words == Words{"{"};
  const std::string_view tail = trimmed(found.tail);
  const bool whole = ends(tail) || (found.quoted && tail[0] == ',');
  if (found.sign != ':' || !first || !whole || !trimmed(glued, "\"'`{").empty()) {
    return std::nullopt;
  }
  return NvlinkSetting{found.value, Scope::job};
}

/// "### NAME=0 ###" above a test: of this one.
std::optional<NvlinkSetting> by_heading(const std::string& line) {
  const std::string_view whole = trimmed(line);
  const bool heading = whole.size() > 2 && whole[0] == whole[1] &&
                       std::string_view("#=*-").find(whole[0]) != std::string_view::npos;
  const std::string_view inner = trimmed(whole, "#=*-` ");
  if (!heading || !inner.starts_with(nvlink_variable) || inner.size() < nvlink_variable.size() + 2)
    return std::nullopt;
  const auto value = parse_integer<int>(std::string(inner.substr(nvlink_variable.size() + 1)));
  if (inner[nvlink_variable.size()] != '=' || !value) return std::nullopt;
  return NvlinkSetting{value, Scope::command};
}

bool is_part_of_a_name(char c) {
  return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

}  // namespace

std::optional<NvlinkSetting> nvlink_setting_in(const std::string& line) {
  std::optional<NvlinkSetting> last = by_heading(line);
  for (std::size_t at = line.find(nvlink_variable); at != std::string::npos;
       at = line.find(nvlink_variable, at + 1)) {
    if (at > 0 && is_part_of_a_name(line[at - 1])) continue;
    const std::size_t end = at + nvlink_variable.size();
    if (end < line.size() && is_part_of_a_name(line[end])) continue;
    const Mention found = mention_at(line, at);
    if (found.comment) continue;
    for (const auto& set : {by_keyword(found), by_option(found), by_itself(found), by_map(found)}) {
      if (!set) continue;
      last = set;
      break;
    }
  }
  return last;
}

}  // namespace moesim
