#include "scratch.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstddef>
#include <new>

#include "meshrt/rank_memory.h"
#include "system/map_at_huge_page.h"

namespace meshrt {

namespace {

constexpr size_t page = 4096;

size_t round_to(size_t unit, size_t size) { return (size + unit - 1) / unit * unit; }

// The address sanitizer knows of memory that is mapped no bounds but those it is told of.
void allow(void* at, size_t size, size_t of) {
  ASAN_UNPOISON_MEMORY_REGION(at, size);
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(at) + size, of - size);
}

void unmap(void* at, size_t size) {
  allow(at, size, size);
  munmap(at, size);
}

}  // namespace

Scratch::~Scratch() {
  for (const Block& block : blocks_)
    if (block.at) unmap(block.at, block.size);
}

Scratch& Scratch::mine() {
  static thread_local Scratch scratch;
  return scratch;
}

void* Scratch::bytes(int place, size_t size) {
  Block& block = blocks_[place];
  if (size > block.size) grow(block, size);
  allow(block.at, size, block.size);
  return block.at;
}

void Scratch::grow(Block& block, size_t size) {
  // A little more than some huge pages has small ones at its end: another huge one would be resident as a whole.
  const size_t below = size / huge_page * huge_page,
               rounded = size - below > huge_page / 2 ? below + huge_page : round_to(page, size),
               in_huge = rounded / huge_page * huge_page;
  // Mapped rather than taken from the heap, which would keep for itself what a larger piece gives back.
  std::byte* const at = map_at_huge_page(rounded, PROT_READ | PROT_WRITE);
  if (!at) throw std::bad_alloc();
  if (in_huge > 0) madvise(at, in_huge, MADV_HUGEPAGE);
  if (rounded > in_huge) madvise(at + in_huge, rounded - in_huge, MADV_NOHUGEPAGE);
  if (block.at) unmap(block.at, block.size);
  block = {at, rounded};
}

}  // namespace meshrt
