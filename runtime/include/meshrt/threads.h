// threads.h: the threads of a rank. Work of a step is cut into pieces, each of which writes its own part of the result
// and is computed as it would be alone, so that the bits are the same for every number of threads. Turns that add to
// the same sums: ordered_sums.h; sums to one number: shared_reduction.h.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "meshrt/poll.h"

namespace meshrt {

/// The thread that has them, and `count - 1` helpers, which sleep where nothing is to do.
class Threads {
 public:
  /// Where this thread may run on just so many CPUs, each helper keeps to one of them. Who waits for the others looks
  /// for `spin` before it sleeps, which only helps where each thread has a CPU: to be woken takes some 50 us, in
  /// virtual machines more, as much as many a loop. Throws Failure (Cause::environment) where the system starts no more
  /// threads.
  explicit Threads(int count, std::chrono::microseconds spin = {});
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  int count() const;
  /// piece(i) for each i below `pieces`, once; returns when all are done. Each thread begins with its share of them,
  /// the same in every call of so many, and then takes what others have left. Throws what a piece has thrown first. A
  /// piece that cuts its own work into pieces does these alone.
  void run(int64_t pieces, const std::function<void(int64_t)>& piece);

  /// Those that compute for the calling thread; null: it is alone.
  static Threads* mine();

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

constexpr int most_threads = 1024;  ///< of a rank

/// How many threads a rank has: MESHRT_THREADS, else 1. Throws Failure (Cause::usage) for what is no number from 1 to
/// most_threads.
int threads_of_rank();

namespace detail {
using Stretch = void (*)(const void* piece, int64_t begin, int64_t end);
void share(int64_t extent, int64_t least, Stretch, const void* piece);
}  // namespace detail

/// piece(begin, end) for stretches that make up 0 to `extent`, on all threads of the rank: at once where the calling
/// thread is alone, or where a stretch would be shorter than `least`.
template <class Piece>
void share(int64_t extent, int64_t least, const Piece& piece) {
  // Called from one place, so that its code is there once.
  const auto stretch = [](const void* of, int64_t begin, int64_t end) { (*static_cast<const Piece*>(of))(begin, end); };
  detail::share(extent, least, stretch, &piece);
}

/// piece(o, begin, end) for stretches that make up 0 to `inner` for each o below `outer`; shared as above, `least` of
/// the outer * inner to a thread.
template <class Piece>
void share_each(int64_t outer, int64_t inner, int64_t least, const Piece& piece) {
  share(outer * inner, least, [&](int64_t begin, int64_t end) {
    for (int64_t next; begin < end; begin = next) {
      const int64_t o = begin / inner;
      next = end < (o + 1) * inner ? end : (o + 1) * inner;
      piece(o, begin - o * inner, next - o * inner);
    }
  });
}

/// What a thread that is woken takes as long as, in elements that are read and written.
constexpr int64_t elements_of_a_thread = 1 << 14;

/// Elements that are moved, or added, with nothing else done to them: so many take as long as one that is computed.
constexpr int64_t moved_elements = 4;

/// Elements that take as long as to draw a random number.
constexpr int64_t elements_of_a_number = 8;

/// How many pieces of so many elements are enough for a thread.
constexpr int64_t enough(int64_t elements_of_a_piece) {
  return elements_of_a_thread / (elements_of_a_piece > 1 ? elements_of_a_piece : 1) + 1;
}

/// `count` elements from `to` on become `value`.
template <class T>
void fill(T* to, int64_t count, T value) {
  share(count, moved_elements * elements_of_a_thread, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = value;
  });
}

/// turn(i) for each i below `extent`, none of which touches what another one writes; shared as above, `least` turns and
/// more to a thread.
template <class Turn>
void each(int64_t extent, int64_t least, const Turn& turn) {
  constexpr int64_t together = 16'384;  // turns, before collectives that are under way are moved along
  share(extent, least, [&](int64_t begin, int64_t end) {
    for (int64_t next; begin < end; begin = next) {
      next = end - begin < together ? end : begin + together;
#pragma GCC ivdep
      for (int64_t i = begin; i < next; ++i) turn(i);
      poll();
    }
  });
}

}  // namespace meshrt
