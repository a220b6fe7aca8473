// attention.cpp: attention of bf16 against that of f32, both on one thread, taken in turns in one run: gigaflops a
// second and the ratio of their times, medians over the turns, forward and backward.
//   build/tests/kernels/attention_bench [turns]
#include "meshrt/attention.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "timing.h"

namespace {

using meshrt::Bfloat16;

struct Shape {
  int64_t batch, heads, key_heads, positions, head;
  bool causal;
};

/// The same numbers in f32 and rounded.
struct Numbers {
  std::vector<float> wide;
  std::vector<Bfloat16> narrow;

  Numbers(int64_t count, std::mt19937& random) {
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < count; ++i) {
      narrow.emplace_back(normal(random));
      wide.push_back(static_cast<float>(narrow.back()));
    }
  }
  const float* of(float) const { return wide.data(); }
  const Bfloat16* of(Bfloat16) const { return narrow.data(); }
};

class Attention {
 public:
  explicit Attention(const Shape& s)
      : shape_(shape_of(s)),
        at_(lying(s, s.heads)),
        key_at_(lying(s, s.key_heads)),
        q_(numbers(s, s.heads)),
        k_(numbers(s, s.key_heads)),
        v_(numbers(s, s.key_heads)),
        d_out_(numbers(s, s.heads)),
        out_(q_.wide),
        d_q_(q_.wide),
        d_k_(k_.wide),
        d_v_(v_.wide),
        log_sum_(static_cast<size_t>(s.batch * s.heads * s.positions)) {}

  template <class In>
  double forward(In in) {
    return seconds([&] {
      meshrt::attention(shape_, meshrt::AttentionForward<float, In>{q_.of(in), k_.of(in), v_.of(in), at_, key_at_,
                                                                    key_at_, out_.data(), at_, log_sum_.data()});
    });
  }
  template <class In>
  double backward(In in) {
    return seconds([&] {
      meshrt::attention_backward(
          shape_, meshrt::AttentionBackward<float, In>{q_.of(in), k_.of(in), v_.of(in), at_, key_at_, key_at_,
                                                       out_.data(), at_, log_sum_.data(), d_out_.of(in), at_,
                                                       d_q_.data(), d_k_.data(), d_v_.data(), at_, key_at_, key_at_});
    });
  }

 private:
  static meshrt::AttentionShape shape_of(const Shape& s) {
    meshrt::AttentionShape shape;
    shape.batch = s.batch, shape.heads = s.heads, shape.key_heads = s.key_heads;
    shape.queries = shape.keys = s.positions, shape.head = shape.value_head = s.head;
    shape.scale = 1 / std::sqrt(double(s.head));
    if (s.causal) shape.least = 0;
    return shape;
  }
  static meshrt::HeadStrides lying(const Shape& s, int64_t heads) {
    return {s.positions * heads * s.head, heads * s.head, s.head};
  }
  Numbers numbers(const Shape& s, int64_t heads) { return {s.batch * s.positions * heads * s.head, random_}; }

  std::mt19937 random_{1};
  meshrt::AttentionShape shape_;
  meshrt::HeadStrides at_, key_at_;
  Numbers q_, k_, v_, d_out_;
  std::vector<float> out_, d_q_, d_k_, d_v_, log_sum_;
};

void measure(const Shape& s, int turns) {
  Attention attention(s);
  const double seen = s.causal ? (double(s.positions) + 1) / 2 : double(s.positions);
  const double product = 2.0 * double(s.batch * s.heads * s.positions * s.head) * seen;
  std::vector<double> wide[2], narrow[2], ratios[2];
  for (int turn = 0; turn <= turns; ++turn) {  // the first one warms caches and clocks, and is not counted
    const double f32[] = {attention.forward(0.0F), attention.backward(0.0F)},
                 bf16[] = {attention.forward(Bfloat16()), attention.backward(Bfloat16())};
    for (const int i : {0, 1})
      if (turn > 0) wide[i].push_back(f32[i]), narrow[i].push_back(bf16[i]), ratios[i].push_back(bf16[i] / f32[i]);
  }
  for (const int i : {0, 1}) {
    const double flops = (i == 0 ? 2 : 5) * product * 1e-9;
    std::printf(
        "%-8s %2ld x %2ld heads, %ld of keys, %4ld positions%s, head %3ld   f32 %6.1f   bf16 %6.1f   time %.3f\n",
        i == 0 ? "forward" : "backward", long(s.batch), long(s.heads), long(s.key_heads), long(s.positions),
        s.causal ? " causal" : "       ", long(s.head), flops / median(wide[i]), flops / median(narrow[i]),
        median(ratios[i]));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 15;
  std::printf("gigaflops a second, one thread, and the time of bf16 in that of f32\n");
  const Shape shapes[] = {{4, 6, 6, 256, 64, false}, {4, 6, 6, 256, 64, true},  {4, 6, 6, 1024, 64, false},
                          {4, 6, 6, 1024, 64, true}, {4, 8, 2, 256, 64, true},  {4, 6, 6, 256, 32, true},
                          {4, 6, 6, 256, 128, true}, {16, 4, 4, 128, 32, true}, {4, 6, 6, 255, 63, true}};
  for (const Shape& shape : shapes) measure(shape, turns);
}
