// scratch.h: memory that a kernel needs while it runs: it belongs to the calling thread, grows to the largest request,
// and stays, so that a training step allocates nothing.
#pragma once
#include <cstddef>
#include <cstdint>

namespace meshrt {

class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// At least `size` bytes, on 2 MiB, and in huge pages where the size allows them; contents undefined. A later call
  /// with the same `place` gives the same memory, or moves it to make it larger. Throws std::bad_alloc.
  void* bytes(int place, size_t size);

  /// The calling thread's.
  static Scratch& mine();

  static constexpr int places = 16;

 private:
  struct Block {
    void* at = nullptr;
    size_t size = 0;
  };
  static void grow(Block& block, size_t size);

  Block blocks_[places];
};

}  // namespace meshrt
