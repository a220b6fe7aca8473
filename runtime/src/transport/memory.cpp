#include "transport/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "meshrt/failure.h"
#include "system/map_at_huge_page.h"
#include "system/memory_limit.h"

namespace meshrt {

namespace {

constexpr int madv_collapse = 25;  // not in the headers of Debian 12

[[noreturn]] void refuse(size_t bytes, const char* action) {
  throw Failure(Cause::memory, fmt::format("cannot {} {} bytes: {}", action, bytes, std::strerror(errno)));
}

}  // namespace

Mapping::Mapping(size_t bytes, int fd) : bytes_(round_to_huge(bytes)) {
  if (bytes_ == 0) return;
  data_ = map_at_huge_page(bytes_, PROT_NONE, MAP_NORESERVE);
  if (!data_) refuse(bytes_, "reserve addresses for");
  const int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | MAP_FIXED;
  if (mmap(data_, bytes_, PROT_READ | PROT_WRITE, flags, fd, 0) == MAP_FAILED) {
    munmap(data_, bytes_);
    refuse(bytes_, "map");
  }
  madvise(data_, bytes_, MADV_HUGEPAGE);
}

Mapping::~Mapping() {
  if (data_) munmap(data_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

namespace {

std::vector<MemoryRange> huge_ranges(std::span<const MemoryRange> ranges) {
  std::vector<MemoryRange> huge;
  for (const MemoryRange& range : ranges)
    huge.push_back({range.begin / huge_page * huge_page, round_to_huge(range.end)});
  return joined_ranges(std::move(huge));
}

}  // namespace

void touch(std::byte* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 4096) *reinterpret_cast<volatile std::byte*>(data + at) = std::byte{0};
}

size_t huge_bytes(std::span<const MemoryRange> ranges) { return RankMemory{huge_ranges(ranges), {}}.bytes(); }

void touch_ranges(std::byte* data, std::span<const MemoryRange> ranges) {
  for (const MemoryRange& range : huge_ranges(ranges)) touch(data + range.begin, range.end - range.begin);
}

// Before it does so the kernel has every processor empty its lists of pages, and on a busy host waits seconds for one:
// that is asked for where it is worth it. The second level of a TLB reaches an arena of so many bytes with small pages
// too (1,536 of them from Skylake on, 2,048 from Ice Lake and Zen 2 on).
void make_huge(std::byte* data, std::span<const MemoryRange> ranges) {
  constexpr size_t tlb_reach = size_t{6} << 20;
  constexpr int tries = 3;  // a page may be in use for a moment
  if (huge_bytes(ranges) <= tlb_reach) return;
  for (const MemoryRange& range : huge_ranges(ranges))
    for (int i = 0; i < tries; ++i)
      if (madvise(data + range.begin, range.end - range.begin, madv_collapse) == 0 || errno != EAGAIN) break;
}

void require_memory(size_t bytes, const char* what) {
  const std::optional<MemoryLimit> limit = memory_limit();
  if (!limit || bytes <= static_cast<size_t>(limit->bytes)) return;
  throw Failure(Cause::memory, fmt::format("{} needs {} bytes, but {} {} bytes; use more ranks, a smaller batch or "
                                           "a layout that splits more",
                                           what, bytes, limit->whose, limit->bytes));
}

}  // namespace meshrt
