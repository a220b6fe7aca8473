#include "meshrt/gemm.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>

#include "meshrt/poll.h"
#include "meshrt/profile.h"
#include "meshrt/threads.h"
#include "own_kernels.h"
#include "product_cut.h"
#include "product_libraries.h"
#include "product_onednn.h"
#include "scratch.h"
#include "scratch_places.h"

namespace meshrt {
namespace {

/// With c, and what lies like it, and the bias moved on.
template <class T, class A, class B>
Product<T, A, B> moved(Product<T, A, B> p, int64_t c, int64_t bias) {
  p.c += c;
  if (p.epilogue.bias) p.epilogue.bias += bias;
  if (p.epilogue.slope) p.epilogue.slope += c;
  if (p.epilogue.times) p.epilogue.times += c;
  if (p.epilogue.plus) p.epilogue.plus += c;
  if (p.epilogue.rounded) p.epilogue.rounded += c;
  return p;
}

/// Rows [begin, end) of c.
template <class T, class A, class B>
Product<T, A, B> rows_of(Product<T, A, B> p, int64_t begin, int64_t end) {
  p.rows = end - begin;
  p.a += begin * p.a_row;
  return moved(p, begin * p.c_row, 0);
}

/// Columns [begin, end) of c.
template <class T, class A, class B>
Product<T, A, B> columns_of(Product<T, A, B> p, int64_t begin, int64_t end) {
  p.cols = end - begin;
  p.b += begin * p.b_col;
  if (p.column_sum) p.column_sum += begin;
  return moved(p, begin, begin);
}

template <class T, class A, class B>
Product<T, A, B> turn_of(Product<T, A, B> p, const Batch& loop, int64_t turn) {
  p.a += turn * loop.a_stride;
  p.b += turn * loop.b_stride;
  if (p.column_sum) p.column_sum += turn * loop.sum_stride;
  return moved(p, turn * loop.c_stride, turn * loop.bias_stride);
}

/// By our own kernels, on all threads of the rank, or what follows a product.
template <class T, class A, class B>
void multiply_shared(const Product<T, A, B>& p, Kernel<T, A, B> multiply) {
  constexpr int64_t least = int64_t{1} << 20;  // multiplications
  Threads* const threads = Threads::mine();
  if (threads == nullptr || p.rows * p.cols < least / std::max<int64_t>(p.inner, 1)) return multiply(p);
  const ProductCut cut = cut_product(p.rows, p.cols, p.a_col != 1, threads->count());
  if (cut.pieces() == 1) return multiply(p);
  threads->run(cut.pieces(), [&](int64_t i) {
    const TileRange rows = stretch_of_rows(p.rows, i / cut.cols, cut.rows);
    const TileRange cols = stretch_of_columns(p.cols, i % cut.cols, cut.cols);
    Product<T, A, B> piece = columns_of(rows_of(p, rows.begin, rows.end), cols.begin, cols.end);
    if (rows.begin > 0) piece.column_sum = nullptr;  // of all of b's rows: those above have it
    multiply(piece);
  });
}

template <class A, class B>
inline constexpr bool is_of_bf16 = std::is_same_v<A, Bfloat16>&& std::is_same_v<B, Bfloat16>;
template <class T, class A, class B>
inline constexpr bool libraries_know = is_of_bf16<A, B> || (std::is_same_v<T, A> && std::is_same_v<T, B>);

/// Has a library make the sums of the product, where one is to.
template <class T, class A, class B>
bool library_multiplies(const Product<T, A, B>& p) {
  if constexpr (is_of_bf16<A, B>) {
    const OneDnn* library = library_for(p);
    return library && multiply_onednn(*library, p);
  } else {
    const Blas* library = library_for(p);
    return library && library->multiply(p);
  }
}

/// By a library, or by our own kernels.
template <class T, class A, class B>
void multiply_by_any(const Product<T, A, B>& p) {
  if constexpr (libraries_know<T, A, B>)
    if (library_multiplies(p)) {
      static const Kernel<T, A, B> complete = own_complete<T, A, B>();
      return multiply_shared(p, complete);
    }
  static const Kernel<T, A, B> multiply = own_multiply<T, A, B>();
  multiply_shared(p, multiply);
}

/// b in bf16, row after row or column after column as it lies, where a library multiplies such numbers: that is as much
/// memory beside what a program has planned as the largest b takes.
template <class T, class A>
std::optional<Product<T, A>> rounded_for_library(const Product<T, A, AsBfloat16>& p) {
  Product<T, A> q{p.rows,  p.cols,  p.inner, p.a,     p.a_row,      p.a_col,    nullptr,
                  p.b_row, p.b_col, p.c,     p.c_row, p.accumulate, p.epilogue, p.column_sum};
  if (!library_for(q)) return std::nullopt;
  const bool by_rows = p.b_col == 1;
  const int64_t lines = by_rows ? p.inner : p.cols, length = by_rows ? p.cols : p.inner;
  const int64_t line = by_rows ? p.b_row : p.b_col, step = by_rows ? p.b_col : p.b_row;
  auto* const copy = static_cast<Bfloat16*>(
      Scratch::mine().bytes(rounded_scratch, static_cast<size_t>(lines * length) * sizeof(Bfloat16)));
  share(lines, std::max<int64_t>(1, 16384 / std::max<int64_t>(length, 1)), [&](int64_t begin, int64_t end) {
    poll();
    for (int64_t i = begin; i < end; ++i)
      for (int64_t j = 0; j < length; ++j) copy[i * length + j] = static_cast<Bfloat16>(p.b[i * line + j * step]);
  });
  q.b = copy;
  q.b_row = by_rows ? length : 1, q.b_col = by_rows ? 1 : length;
  return q;
}

template <class T, class A>
void multiply_by_any(const Product<T, A, AsBfloat16>& p) {
  if (const auto rounded = rounded_for_library(p)) return multiply_by_any(*rounded);
  static const Kernel<T, A, AsBfloat16> multiply = own_multiply<T, A, AsBfloat16>();
  multiply_shared(p, multiply);
}

}  // namespace

template <class T, class A, class B>
void multiply(const Product<T, A, B>& p) {
  const Timed timed(&StepProfile::products, [&] {
    return TraceLabel{"product " + std::to_string(p.rows) + " x " + std::to_string(p.inner) + " x " +
                      std::to_string(p.cols)};
  });
  multiply_by_any(p);
}

template <class T, class A, class B>
void multiply_batch(const Product<T, A, B>& product, std::span<const Batch> loops) {
  if (loops.empty()) return multiply(product);
  if constexpr (std::is_same_v<B, AsBfloat16>)  // one b of all turns is rounded once
    if (std::ranges::all_of(loops, [](const Batch& loop) { return loop.b_stride == 0; }))
      if (const auto rounded = rounded_for_library(product)) return multiply_batch(*rounded, loops);
  const Batch& loop = loops.front();
  const auto turns = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) multiply_batch(turn_of(product, loop, i), loops.subspan(1));
  };
  const Threads* const threads = Threads::mine();
  const bool apart = loop.c_stride != 0 && (!product.column_sum || loop.sum_stride != 0);
  if (apart && threads != nullptr && loop.count >= threads->count()) share(loop.count, 1, turns);
  else turns(0, loop.count);
}

template void multiply(const Product<float>&);
template void multiply(const Product<double>&);
template void multiply(const Product<float, Bfloat16>&);
template void multiply(const Product<float, Bfloat16, AsBfloat16>&);
template void multiply(const Product<float, float, Bfloat16>&);
template void multiply(const Product<float, Bfloat16, float>&);
template void multiply(const Product<float, Float16>&);
template void multiply(const Product<float, float, Float16>&);
template void multiply(const Product<float, Float16, float>&);
template void multiply_batch(const Product<float>&, std::span<const Batch>);
template void multiply_batch(const Product<double>&, std::span<const Batch>);
template void multiply_batch(const Product<float, Bfloat16>&, std::span<const Batch>);
template void multiply_batch(const Product<float, Bfloat16, AsBfloat16>&, std::span<const Batch>);
template void multiply_batch(const Product<float, float, Bfloat16>&, std::span<const Batch>);
template void multiply_batch(const Product<float, Bfloat16, float>&, std::span<const Batch>);
template void multiply_batch(const Product<float, Float16>&, std::span<const Batch>);
template void multiply_batch(const Product<float, float, Float16>&, std::span<const Batch>);
template void multiply_batch(const Product<float, Float16, float>&, std::span<const Batch>);

}  // namespace meshrt
