// SPDX-License-Identifier: Apache-2.0
#include "sim/import/pickle.h"

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "sim/import/pickle_machine.h"

namespace moesim {

/// One operation; false at the end. Their names are those of Python's pickletools.
bool PickleMachine::step() {
  switch (const char code = take(1)[0]; code) {
    case '.':  // STOP
      return false;
    case '\x80':  // PROTO
      take(1);
      break;
    case '\x95':  // FRAME
      take(8);
      break;
    case '(':  // MARK
      push_integer(0, Kind::mark);
      break;
    case 'q':  // BINPUT
      remember(number<std::uint8_t>());
      break;
    case 'r':  // LONG_BINPUT
      remember(number<std::uint32_t>());
      break;
    case '\x94':  // MEMOIZE
      remember(memo_.size());
      break;
    case 'h':  // BINGET
      recall(number<std::uint8_t>());
      break;
    case 'j':  // LONG_BINGET
      recall(number<std::uint32_t>());
      break;
    case 'a':  // APPEND
    {
      const PickleValue item = pop();
      append({item}, Kind::list);
      break;
    }
    case 'e':  // APPENDS
      append(pop_marked(), Kind::list);
      break;
    case 's':  // SETITEM
    {
      const PickleValue value = pop(), key = pop();
      append({key, value}, Kind::dict);
      break;
    }
    case 'u':  // SETITEMS
      append(pop_marked(), Kind::dict);
      break;
    case 'Q':  // BINPERSID
      push_storage();
      break;
    case 'R':  // REDUCE
      call();
      break;
    default:
      if (!build(code)) {
        throw damaged(fmt::format("operation 0x{:02x} is not one that torch.save needs",
                                  static_cast<unsigned char>(code)));
      }
  }
  return true;
}

/// Operations that push a value. Returns false for others.
bool PickleMachine::build(char code) {
  switch (code) {
    case 'N':  // NONE
      return push_integer(0, Kind::none), true;
    case '\x88':  // NEWTRUE
      return push_integer(1, Kind::boolean), true;
    case '\x89':  // NEWFALSE
      return push_integer(0, Kind::boolean), true;
    case 'J':  // BININT
      return push_integer(number<std::int32_t>()), true;
    case 'K':  // BININT1
      return push_integer(number<std::uint8_t>()), true;
    case 'M':  // BININT2
      return push_integer(number<std::uint16_t>()), true;
    case '\x8a':  // LONG1
      return push_long(number<std::uint8_t>()), true;
    case 'G':  // BINFLOAT, the only number with its high byte first
    {
      std::uint64_t bits = 0;
      for (const char c : take(8)) bits = bits << 8 | static_cast<unsigned char>(c);
      PickleValue value;
      value.kind = Kind::real;
      value.real = std::bit_cast<double>(bits);
      return stack_.push_back(value), true;
    }
    case 'X':  // BINUNICODE
      return push_text(number<std::uint32_t>()), true;
    case '\x8c':  // SHORT_BINUNICODE
    case 'U':     // SHORT_BINSTRING
      return push_text(number<std::uint8_t>()), true;
    case ']':  // EMPTY_LIST
      return new_node(Kind::list), true;
    case '}':  // EMPTY_DICT
      return new_node(Kind::dict), true;
    case ')':  // EMPTY_TUPLE
      return push_tuple({}), true;
    case 't':  // TUPLE
      return push_tuple(pop_marked()), true;
    case '\x85':  // TUPLE1
    case '\x86':
    case '\x87':
      return push_tuple_of(code - '\x84'), true;
    case 'c':  // GLOBAL
    {
      const auto module = line();
      return push_global(module, line()), true;
    }
    case '\x93':  // STACK_GLOBAL
    {
      const PickleValue name = pop(), module = pop();
      return push_global(node_of(module, Kind::text, "a global has no name").text,
                         node_of(name, Kind::text, "a global has no name").text),
             true;
    }
    default:
      return false;
  }
}

Pickle::Pickle(std::span<const std::byte> bytes, const std::string& file) {
  PickleMachine(bytes, file, *this).run();
}

const PickleValue* pickle_get(const PickleValue& dict, const std::string& key) {
  if (!dict.is(PickleValue::Kind::dict)) return nullptr;
  const PickleValue* found = nullptr;
  for (std::size_t i = 0; i + 1 < dict.node->items.size(); i += 2) {
    const PickleValue& name = dict.node->items[i];
    if (name.is(PickleValue::Kind::text) && name.node->text == key)
      found = &dict.node->items[i + 1];
  }
  return found;
}

std::optional<NpyType> torch_type(std::string_view name) {
  static const std::map<std::string_view, NpyType> types = {
      {"FloatStorage", {'f', 4}},    {"float32", {'f', 4}},
      {"DoubleStorage", {'f', 8}},   {"float64", {'f', 8}},
      {"HalfStorage", {'f', 2}},     {"float16", {'f', 2}},
      {"BFloat16Storage", {'b', 2}}, {"bfloat16", {'b', 2}},
      {"LongStorage", {'i', 8}},     {"int64", {'i', 8}},
      {"IntStorage", {'i', 4}},      {"int32", {'i', 4}},
      {"ShortStorage", {'i', 2}},    {"int16", {'i', 2}},
      {"CharStorage", {'i', 1}},     {"int8", {'i', 1}},
      {"ByteStorage", {'u', 1}},     {"uint8", {'u', 1}},
      {"BoolStorage", {'u', 1}},     {"bool", {'u', 1}},
      {"uint16", {'u', 2}},          {"uint32", {'u', 4}},
      {"UntypedStorage", {'u', 1}}};
  const auto at = types.find(name);
  return at == types.end() ? std::nullopt : std::optional(at->second);
}

bool is_harmless(std::string_view global) {
  static const std::vector<std::string_view> known = {
      "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor_v3",
      "torch._utils._rebuild_parameter", "collections.OrderedDict", "torch.storage.UntypedStorage"};
  if (std::ranges::find(known, global) != known.end()) return true;
  return global.starts_with("torch.") && torch_type(global.substr(6));
}

}  // namespace moesim
