#include "scratch.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace meshrt {

Scratch::~Scratch() {
  for (Block& block : blocks_) std::free(block.at);
}

Scratch& Scratch::mine() {
  static thread_local Scratch scratch;
  return scratch;
}

void* Scratch::bytes(int place, size_t size) {
  Block& block = blocks_[place];
  if (size <= block.size) return block.at;
  constexpr size_t page = 4096, huge_page = size_t(2) << 20;
  const size_t alignment = size >= huge_page ? huge_page : page,
               rounded = (size + alignment - 1) / alignment * alignment;
  void* at = std::aligned_alloc(alignment, rounded);
  if (!at) throw std::bad_alloc();
  if (alignment == huge_page) madvise(at, rounded, MADV_HUGEPAGE);
  std::free(block.at);
  block = {at, rounded};
  return at;
}

}  // namespace meshrt
