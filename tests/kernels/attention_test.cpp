// Attention against the formula with whole score matrices in long double: masks, offsets, windows, grouped heads,
// edges.
#include "meshrt/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/attention_kernel.h"
#include "variants.h"

namespace meshrt {
namespace {

using Exact = long double;

/// Of a number that q, k, v or d_out are made of.
template <class In>
Exact exact(In x) {
  if constexpr (std::is_floating_point_v<In>) return x;
  else return static_cast<float>(x);
}

// A tensor [batch, seq, heads, head] in memory of the given order of its first three dims.
template <class T>
struct Tensor4 {
  int64_t batch, seq, heads, head;
  HeadStrides at;
  std::vector<T> data;

  Tensor4(int64_t batch, int64_t seq, int64_t heads, int64_t head, bool heads_first, int64_t gap)
      : batch(batch), seq(seq), heads(heads), head(head) {
    const int64_t width = head + gap;
    if (heads_first) at = {seq * heads * width, width, seq * width};
    else at = {seq * heads * width, heads * width, width};
    data.assign(static_cast<size_t>(batch * seq * heads * width), T(77));
  }
  /// One that lies like another.
  template <class Other>
  explicit Tensor4(const Tensor4<Other>& like)
      : batch(like.batch),
        seq(like.seq),
        heads(like.heads),
        head(like.head),
        at(like.at),
        data(like.data.size(), T(77)) {}
  T& operator()(int64_t b, int64_t s, int64_t h, int64_t d) {
    return data[static_cast<size_t>(b * at.batch + s * at.seq + h * at.head + d)];
  }
  template <class Random>
  void fill(Random& random) {
    std::normal_distribution<double> normal;
    for (T& x : data)
      if constexpr (std::is_floating_point_v<T>) x = static_cast<T>(normal(random));
      else x = T(static_cast<float>(normal(random)));
  }
};

bool sees(const AttentionShape& s, int64_t query, int64_t key) {
  const int64_t q = s.query_begin + query, k = s.key_begin + key;
  return q - k >= s.least && q - k <= s.most;
}

template <class T, class In>
struct Problem {
  AttentionShape s;
  Tensor4<In> q, k, v;
  Tensor4<T> out;
  Tensor4<In> d_out;
  Tensor4<T> d_q, d_k, d_v;
  std::vector<T> log_sum;

  Problem(const AttentionShape& s, std::mt19937_64& random, bool heads_first, int64_t gap)
      : s(s),
        q(s.batch, s.queries, s.heads, s.head, heads_first, gap),
        k(s.batch, s.keys, s.key_heads, s.head, heads_first, gap),
        v(s.batch, s.keys, s.key_heads, s.value_head, !heads_first, gap),
        out(s.batch, s.queries, s.heads, s.value_head, heads_first, 0),
        d_out(out),
        d_q(q),
        d_k(k),
        d_v(v),
        log_sum(static_cast<size_t>(s.batch * s.heads * s.queries)) {
    q.fill(random), k.fill(random), v.fill(random), d_out.fill(random);
  }

  /// As if nothing had been computed.
  void forget() {
    for (std::vector<T>* results : {&out.data, &d_q.data, &d_k.data, &d_v.data, &log_sum})
      std::ranges::fill(*results, T(77));
  }

  AttentionForward<T, In> forward() {
    return {q.data.data(), k.data.data(), v.data.data(), q.at, k.at, v.at, out.data.data(), out.at, log_sum.data()};
  }
  AttentionBackward<T, In> backward() {
    return {q.data.data(),
            k.data.data(),
            v.data.data(),
            q.at,
            k.at,
            v.at,
            out.data.data(),
            out.at,
            log_sum.data(),
            d_out.data.data(),
            d_out.at,
            d_q.data.data(),
            d_k.data.data(),
            d_v.data.data(),
            d_q.at,
            d_k.at,
            d_v.at};
  }
};

// Part of the keys of a problem, as a rank meets it that has the queries.
template <class T, class In>
struct KeyPart {
  AttentionShape s;
  AttentionForward<T, In> forward;
  AttentionBackward<T, In> backward;
};
// The keys cut at these positions, in an order that begins at part `first` and goes backwards: each joins those before.
template <class T, class In>
std::vector<KeyPart<T, In>> parts_of(Problem<T, In>& p, const std::vector<int64_t>& begin, size_t first) {
  std::vector<KeyPart<T, In>> parts;
  const size_t count = begin.size() - 1;
  for (size_t i = 0; i < count; ++i) {
    const size_t part = (first + count - i) % count;
    KeyPart<T, In> one{p.s, p.forward(), p.backward()};
    one.s.keys = begin[part + 1] - begin[part];
    one.s.key_begin += begin[part];
    one.s.adds = i > 0;
    one.forward.k = one.backward.k += begin[part] * p.k.at.seq;
    one.forward.v = one.backward.v += begin[part] * p.v.at.seq;
    one.backward.d_k += begin[part] * p.d_k.at.seq;
    one.backward.d_v += begin[part] * p.d_v.at.seq;
    parts.push_back(one);
  }
  return parts;
}

/// What each element of a result is, and the sum of the absolute products that it adds up of numbers which may have
/// been rounded to be multiplied.
struct Expected {
  std::vector<Exact> value, magnitude;

  template <class T>
  explicit Expected(const Tensor4<T>& t)
      : value(static_cast<size_t>(t.batch * t.seq * t.heads * t.head)), magnitude(value.size()) {}
  void add(size_t at, Exact product, Exact size) {
    value[at] += product;
    magnitude[at] += size;
  }
};

/// What the formula gives for the inputs of a problem, element by element in the order of dims.
struct Formula {
  Expected out, d_q, d_k, d_v;
  struct LogSum {
    Exact value = 0, most = 0;  // of the scores
    bool of_nothing = false;    // no key is seen
  };
  std::vector<LogSum> log_sum;

  template <class T, class In>
  explicit Formula(Problem<T, In>& p) : out(p.out), d_q(p.q), d_k(p.k), d_v(p.v), log_sum(p.log_sum.size()) {
    const AttentionShape& s = p.s;
    const int64_t group = s.heads / s.key_heads;
    const auto at = [](const auto& t, int64_t b, int64_t x, int64_t h, int64_t d) {
      return static_cast<size_t>(((b * t.seq + x) * t.heads + h) * t.head + d);
    };
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.queries; ++i) {
          std::vector<Exact> w(static_cast<size_t>(s.keys)), dw(w);
          Exact most = -INFINITY, total = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            w[j] = -INFINITY;
            if (!sees(s, i, j)) continue;
            w[j] = 0;
            for (int64_t d = 0; d < s.head; ++d) w[j] += exact(p.q(b, i, h, d)) * exact(p.k(b, j, h / group, d));
            w[j] *= s.scale;
            most = std::max(most, w[j]);
          }
          for (Exact& x : w) x = std::isinf(x) ? 0 : std::exp(x - most), total += x;
          LogSum& all = log_sum[static_cast<size_t>((b * s.heads + h) * s.queries + i)];
          all = {most + std::log(total), most, total == 0};
          if (all.of_nothing) continue;
          Exact mean = 0, size_of_mean = 0;  // whose rounding is that of what forward gave
          for (int64_t j = 0; j < s.keys; ++j) {
            if (w[j] == 0) continue;  // it is not seen
            w[j] /= total;
            for (int64_t d = 0; d < s.value_head; ++d) {
              const Exact v = exact(p.v(b, j, h / group, d)), d_out = exact(p.d_out(b, i, h, d));
              out.add(at(p.out, b, i, h, d), w[j] * v, w[j] * std::abs(v));
              dw[j] += d_out * v;
              size_of_mean += w[j] * std::abs(d_out * v);
              d_v.add(at(p.v, b, j, h / group, d), w[j] * d_out, w[j] * std::abs(d_out));
            }
            mean += w[j] * dw[j];
          }
          for (int64_t j = 0; j < s.keys; ++j) {
            const Exact ds = w[j] * (dw[j] - mean) * s.scale, size = std::abs(ds) + w[j] * size_of_mean * s.scale;
            for (int64_t d = 0; d < s.head; ++d) {
              const Exact q = exact(p.q(b, i, h, d)), k = exact(p.k(b, j, h / group, d));
              d_q.add(at(p.q, b, i, h, d), ds * k, size * std::abs(k));
              d_k.add(at(p.k, b, j, h / group, d), ds * q, size * std::abs(q));
            }
          }
        }
  }
};

/// The largest error of all results: 1 is all that is allowed. `bound` is relative to the largest element of each
/// tensor (at least 1, as the inputs), `rounding` to the sum of absolute products.
template <class T, class In>
double worst_error(Problem<T, In>& p, const Formula& formula, double bound, double rounding) {
  double worst = 0;
  const auto compare = [&](Tensor4<T>& got, const Expected& want) {
    Exact scale = 1;
    for (const Exact x : want.value) scale = std::max(scale, std::abs(x));
    size_t i = 0;
    for (int64_t b = 0; b < got.batch; ++b)
      for (int64_t x = 0; x < got.seq; ++x)
        for (int64_t h = 0; h < got.heads; ++h)
          for (int64_t d = 0; d < got.head; ++d, ++i) {
            const Exact difference = std::abs(Exact(got(b, x, h, d)) - want.value[i]);
            const Exact error = difference / (bound * scale + rounding * want.magnitude[i]);
            worst = std::max(worst, std::isnan(error) ? 1e9 : double(error));
          }
  };
  for (size_t i = 0; i < p.log_sum.size(); ++i) {
    const T got = p.log_sum[i];
    const Formula::LogSum& want = formula.log_sum[i];
    if (want.of_nothing) {
      EXPECT_EQ(got, -std::numeric_limits<T>::infinity());
      continue;
    }
    const double off = double(std::abs(got - want.value) / std::max<Exact>(1, std::abs(want.most)));
    worst = std::max(worst, std::isnan(off) ? 1e9 : off / bound);
  }
  compare(p.out, formula.out), compare(p.d_q, formula.d_q), compare(p.d_k, formula.d_k), compare(p.d_v, formula.d_v);
  return worst;
}

/// What is added up, and what is read.
template <class Sum, class Read>
struct ReadAndSum {
  using T = Sum;
  using In = Read;
};

template <class Of>
class AttentionKernel : public testing::Test {
 protected:
  using T = typename Of::T;
  using In = typename Of::In;
  using OfThis = Problem<T, In>;
  using Forward = void (*)(const AttentionShape&, const AttentionForward<T, In>&);
  using Backward = void (*)(const AttentionShape&, const AttentionBackward<T, In>&);

  // Runs every variant on the shape; all must agree to the bit, but for that which adds up two products at a time, and
  // with the formula.
  void check(const AttentionShape& s) {
    std::mt19937_64 random(static_cast<uint64_t>(s.queries * 1000 + s.keys));
    const bool heads_first = random() % 2;
    OfThis p(s, random, heads_first, static_cast<int64_t>(random() % 3));
    const auto forwards = variants<Forward>(MESHRT_VARIANTS(attention<T, In>));
    const auto backwards = variants<Backward>(MESHRT_VARIANTS(attention_backward<T, In>));
    std::vector<std::vector<T>> first;
    for (size_t i = 0; i < forwards.size(); ++i) {
      p.forget();
      forwards[i].run(s, p.forward());
      backwards[i].run(s, p.backward());
      const std::vector<std::vector<T>> now = {p.out.data, p.log_sum, p.d_q.data, p.d_k.data, p.d_v.data};
      if (i == 0) first = now;
      EXPECT_EQ(now, first) << forwards[i].name;
    }
    const Formula formula(p);
    compare(p, formula, "alike on all instruction sets");
#if defined(__x86_64__)
    if constexpr (std::is_same_v<In, Bfloat16>) {
      if (supported_instruction_set() < InstructionSet::avx512_bf16) return;
      p.forget();
      avx512_bf16::attention(s, p.forward());
      avx512_bf16::attention_backward(s, p.backward());
      compare(p, formula, "by pairs");
    }
#endif
  }
  // The same of keys that come in parts, cut in each of these ways, through what programs call.
  template <class Change = void (*)(OfThis&)>
  void check_parts(
      const AttentionShape& s, const std::vector<std::vector<int64_t>>& cuts, Change change = [](OfThis&) {}) {
    std::mt19937_64 random(static_cast<uint64_t>(s.queries * 1000 + s.keys));
    for (const bool heads_first : {false, true}) {
      OfThis p(s, random, heads_first, (s.query_begin + heads_first) % 3);
      change(p);
      const Formula formula(p);
      for (const std::vector<int64_t>& begin : cuts)
        for (size_t first = 0; first + 1 < begin.size(); ++first) {
          const std::vector<KeyPart<T, In>> parts = parts_of(p, begin, first);
          for (const KeyPart<T, In>& part : parts) attention<T, In>(part.s, part.forward);
          for (const KeyPart<T, In>& part : parts) attention_backward<T, In>(part.s, part.backward);
          compare(p, formula, "in " + std::to_string(parts.size()) + " parts, first " + std::to_string(first));
          if (HasFatalFailure()) return;
          p.forget();
        }
    }
  }
  void compare(OfThis& p, const Formula& formula, const std::string& how) {
    const AttentionShape& s = p.s;
    const double error = worst_error(p, formula, bound, rounding);
    worst_ = std::max(worst_, error);
    ASSERT_LT(error, 1) << how << ": queries " << s.queries << " keys " << s.keys << " head " << s.head
                        << " value_head " << s.value_head << " keys from " << s.least << " to " << s.most << " at "
                        << s.query_begin << ", " << s.key_begin;
  }
  void TearDown() override { std::printf("worst error %.2g of what is allowed\n", worst_); }

  static constexpr double bound = sizeof(T) == 4 ? 4e-6 : 1e-14;
  // Half a last place of what is rounded, and what it brings.
  static constexpr double rounding = 1.01 * (std::is_same_v<In, Bfloat16>  ? 0x1p-8
                                             : std::is_same_v<In, Float16> ? 0x1p-11
                                                                           : 0);
  double worst_ = 0;
};
using AttentionNumbers = testing::Types<ReadAndSum<float, float>, ReadAndSum<double, double>,
                                        ReadAndSum<float, Bfloat16>, ReadAndSum<float, Float16>>;
TYPED_TEST_SUITE(AttentionKernel, AttentionNumbers);

AttentionShape plain(int64_t queries, int64_t keys, int64_t head) {
  AttentionShape s;
  s.batch = 2, s.heads = s.key_heads = 2;
  s.queries = queries, s.keys = keys, s.head = s.value_head = head;
  s.scale = 1 / std::sqrt(double(head));
  return s;
}

/// No mask, causal, windows, both, strictly before and after, and bands beside the diagonal.
constexpr int64_t any = AttentionShape::unbounded;
constexpr std::pair<int64_t, int64_t> masks[] = {{-any, any}, {0, any},  {0, 0},    {0, 4},    {0, 32},     {0, 63},
                                                 {-4, 4},     {-32, 32}, {-63, 63}, {1, any},  {1, 7},      {-any, 0},
                                                 {-any, -1},  {-9, -3},  {20, 40},  {64, any}, {-any, -70}, {-2, 11}};

TYPED_TEST(AttentionKernel, EverySmallExtent) {
  for (int64_t n = 1; n <= 40; ++n) {
    AttentionShape s = plain(n, 41 - n, 1 + n * 7 % 40);
    this->check(s);
    s.least = 0, s.keys = n, s.value_head = 1 + n * 11 % 37;
    this->check(s);
    if (this->HasFatalFailure()) return;
  }
}

TYPED_TEST(AttentionKernel, Masks) {
  for (const auto& [least, most] : masks)
    for (const int64_t query_begin : {0, 7, 40, 300})
      for (const int64_t key_begin : {0, 9, 64}) {
        AttentionShape s = plain(75, 90, 16);
        s.batch = 1, s.least = least, s.most = most, s.query_begin = query_begin, s.key_begin = key_begin;
        this->check(s);
        if (this->HasFatalFailure()) return;
      }
}

TYPED_TEST(AttentionKernel, QueryHeadsShareKeyHeads) {
  AttentionShape s = plain(50, 50, 24);
  s.heads = 6, s.least = 0;
  this->check(s);
  s.key_heads = 1;
  this->check(s);
}

// A rank that owns no query, or no head of those that share keys: its part of the gradient of keys and values is zero.
TYPED_TEST(AttentionKernel, KeysThatNothingReads) {
  using T = typename TypeParam::T;
  std::mt19937_64 random(3);
  AttentionShape no_head = plain(20, 30, 16), no_query = plain(0, 30, 16);
  no_head.heads = 0;
  for (const AttentionShape& s : {no_head, no_query}) {
    Problem<T, typename TypeParam::In> p(s, random, false, 0);
    std::ranges::fill(p.d_k.data, T(7));
    std::ranges::fill(p.d_v.data, T(7));
    attention_backward<T>(s, p.backward());
    EXPECT_TRUE(std::ranges::all_of(p.d_k.data, [](T x) { return x == 0; }));
    EXPECT_TRUE(std::ranges::all_of(p.d_v.data, [](T x) { return x == 0; }));
  }
}

TYPED_TEST(AttentionKernel, KeysInParts) {
  for (const auto& [least, most] : masks)
    for (const int64_t query_begin : {0, 20, 61, 300}) {
      AttentionShape s = plain(37, 90, 16);
      s.heads = 4, s.value_head = 9, s.least = least, s.most = most, s.query_begin = query_begin;
      this->check_parts(s, {{0, 90}, {0, 45, 90}, {0, 31, 32, 90}, {0, 1, 40, 71, 90}});
      if (this->HasFatalFailure()) return;
    }
}

// Scores so far apart that a part counts for nothing beside another, whichever comes first.
TYPED_TEST(AttentionKernel, PartsOfUnlikeWeight) {
  AttentionShape s = plain(20, 40, 1);
  s.value_head = 5;
  using In = typename TypeParam::In;
  this->check_parts(s, {{0, 20, 40}}, [](auto& p) {
    std::ranges::fill(p.q.data, In(1));
    for (int64_t b = 0; b < p.s.batch; ++b)
      for (int64_t h = 0; h < p.s.key_heads; ++h)
        for (int64_t j = 0; j < p.s.keys; ++j) p.k(b, j, h, 0) = In(j < 20 ? 0.F : -1000.F);
  });
}

TYPED_TEST(AttentionKernel, LongSequence) {
  AttentionShape s = plain(300, 300, 64);
  s.batch = 1, s.least = 0;
  this->check(s);
}

}  // namespace
}  // namespace meshrt
