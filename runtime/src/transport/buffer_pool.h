// buffer_pool.h: memory that calls use for a while, kept for the calls after them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace meshrt {

class BufferPool {
 public:
  /// Goes back to the pool at its end.
  class Buffer {
   public:
    Buffer() = default;
    Buffer(Buffer&& other) noexcept { *this = std::move(other); }
    Buffer& operator=(Buffer&& other) noexcept {
      std::swap(pool_, other.pool_);
      std::swap(data_, other.data_);
      std::swap(bytes_, other.bytes_);
      return *this;
    }
    ~Buffer() {
      if (BufferPool* const pool = std::exchange(pool_, nullptr)) pool->free_.push_back(std::move(*this));
    }
    std::byte* data() const { return data_.get(); }
    int64_t bytes() const { return bytes_; }

   private:
    friend class BufferPool;
    BufferPool* pool_ = nullptr;  // null: nobody uses it
    std::unique_ptr<std::byte[]> data_;
    int64_t bytes_ = 0;
  };

  /// At least so many bytes: the smallest that is free, or a new one.
  Buffer take(int64_t bytes) {
    auto best = free_.end();
    for (auto at = free_.begin(); at != free_.end(); ++at)
      if (at->bytes_ >= bytes && (best == free_.end() || at->bytes_ < best->bytes_)) best = at;
    Buffer buffer;
    if (best == free_.end()) {
      buffer.data_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
      buffer.bytes_ = bytes;
    } else {
      std::swap(*best, free_.back());
      std::swap(buffer.data_, free_.back().data_);
      std::swap(buffer.bytes_, free_.back().bytes_);
      free_.pop_back();
    }
    buffer.pool_ = this;
    return buffer;
  }

 private:
  std::vector<Buffer> free_;
};

}  // namespace meshrt
