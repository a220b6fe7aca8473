#include "scratch.h"

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "meshrt/rank_memory.h"

namespace meshrt {

namespace {

constexpr size_t page = 4096;

size_t round_to(size_t unit, size_t size) { return (size + unit - 1) / unit * unit; }

// Mapped rather than taken from the heap, which would keep for itself what a larger piece gives back.
void* map(size_t size) {
  void* const room = mmap(nullptr, size + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  char* const start = static_cast<char*>(room);
  const size_t before = -reinterpret_cast<uintptr_t>(start) % huge_page;
  if (before > 0) munmap(start, before);
  munmap(start + before + size, huge_page - before);
  return start + before;
}

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
  void* const at = map(rounded);
  if (in_huge > 0) madvise(at, in_huge, MADV_HUGEPAGE);
  if (rounded > in_huge) madvise(static_cast<char*>(at) + in_huge, rounded - in_huge, MADV_NOHUGEPAGE);
  if (block.at) unmap(block.at, block.size);
  block = {at, rounded};
}

}  // namespace meshrt
