#include "tests/program/allocated.h"

#include <cstdlib>
#include <new>

namespace {

thread_local uint64_t allocated = 0;

}  // namespace

// In place of those of the library, for all of the program.
void* operator new(std::size_t bytes) {
  allocated += bytes;
  if (void* const memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace mesh::tests {

uint64_t bytes_allocated() { return allocated; }

}  // namespace mesh::tests
