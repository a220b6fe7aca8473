#include "mutate_bytes.h"

#include <algorithm>
#include <cstring>

namespace mesh::fuzz {
namespace {

constexpr size_t largest = 1 << 20;  // bytes of a mutant

void put_number(std::string& bytes, Random& random) {
  static constexpr uint64_t odd[] = {0,
                                     1,
                                     2,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     0x3fffffffffffffff,
                                     0x4000000000000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff,
                                     0xfffffffffffffff8};
  uint64_t number = odd[below(random, std::size(odd))];
  const size_t size = size_t{1} << below(random, 4);
  if (below(random, 2) == 0) number = __builtin_bswap64(number) >> (64 - 8 * size);
  if (bytes.size() < size) return;
  std::memcpy(&bytes[below(random, bytes.size() - size + 1)], &number, size);
}

}  // namespace

size_t below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

void change(std::string& bytes, Random& random, const std::vector<std::string>& others) {
  static constexpr char odd[] = "\0\t\r\n\"'\\(){}[]<>*+-=:;,.&!|%@`#_ 0129aeAEZ\x7f\x80\xc3\xa9\xff";
  static const std::vector<std::string> words = {
      "null",         "true",       "~",         "1e999",     "-1",   "99999999999999999999",
      "{a: &a [*a]}", "!!binary x", "- -",       "? :",       "\n\n", "0x10",
      ".nan",         "1-1-1",      "100.0001%", "<<: *file", "[",    "[[[[[[[[[["};
  const size_t at = below(random, bytes.size() + 1), length = 1 + below(random, 20);
  switch (below(random, 9)) {
    case 0: bytes.insert(at, 1, odd[below(random, sizeof odd - 1)]); break;
    case 1: bytes.erase(std::min(at, bytes.size()), length); break;
    case 2: bytes.insert(at, bytes.substr(below(random, bytes.size()), length)); break;
    case 3: bytes.resize(at); break;
    case 4: put_number(bytes, random); break;
    case 5: bytes.insert(at, words[below(random, words.size())]); break;
    case 6:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
      break;
    case 7: {
      const std::string& other = others[below(random, others.size())];
      bytes.insert(at, other.substr(below(random, other.size()), 10 * length));
      break;
    }
    default:
      if (at < bytes.size()) bytes[at] = odd[below(random, sizeof odd - 1)];
  }
  bytes.resize(std::min(bytes.size(), largest));
}

}  // namespace mesh::fuzz
