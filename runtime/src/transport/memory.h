// memory.h: large blocks for the arena and for a rank's own tensors, at 2 MiB boundaries, of huge pages where the
// system gives them. Huge pages of shared memory have to be asked for after the pages are touched (MADV_COLLAPSE,
// Linux 6.1): MADV_HUGEPAGE alone succeeds and does nothing while shmem_enabled is `never`, the kernel's default.
#pragma once
#include <cstddef>
#include <span>

#include "meshrt/rank_memory.h"

namespace meshrt {

constexpr size_t round_to_huge(size_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

/// A mapping at a 2 MiB boundary, unmapped with the object.
class Mapping {
 public:
  Mapping() = default;
  /// `bytes` of the file `fd` from its beginning, shared; or, with fd -1, zeroed memory of this process.
  /// Throws Failure (Cause::memory) naming the bytes.
  Mapping(size_t bytes, int fd);
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

/// The bytes of the huge pages in which the ranges lie.
size_t huge_bytes(std::span<const MemoryRange>);

/// Writes a zero to every page, so that it exists, near the core that runs this.
void touch(std::byte* data, size_t bytes);
/// The same of the huge pages in which the ranges lie.
void touch_ranges(std::byte* data, std::span<const MemoryRange>);

/// Asks for huge pages under touched memory, where there is so much of it that they help. Without them everything
/// works, slower. Who maps it later, or has not touched it yet, gets the huge pages too.
void make_huge(std::byte* data, std::span<const MemoryRange>);

/// Throws Failure (Cause::memory) with both numbers when memory_limit.h tells fewer bytes.
void require_memory(size_t bytes, const char* what);

}  // namespace meshrt
