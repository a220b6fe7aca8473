// conv.cpp: our convolutions against oneDNN's, both on one thread, taken in turns in one run: gigaflops a second and
// their ratio, medians over the turns.
//   tests/bench/conv [turns]
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "kernels/conv_onednn.h"
#include "kernels/conv_own.h"
#include "timing.h"

namespace {

using meshrt::ConvCall;
using meshrt::ConvResult;

/// Square pictures, or rows of `kernel` elements where `dims` is 1; padded to their size.
struct Shape {
  int dims;
  int64_t batch, size, groups, in, out, kernel, stride;
};

void measure(const meshrt::OneDnn& dnn, const Shape& s, ConvResult makes, int turns) {
  const int64_t narrow = (s.size + 2 * (s.kernel / 2) - s.kernel) / s.stride + 1;
  const meshrt::WindowDim moving{{s.size, 0, s.size}, {narrow, 0, narrow}, s.kernel, s.stride, 1, s.kernel / 2};
  const meshrt::WindowDims windows{meshrt::WindowDim{}, s.dims == 2 ? moving : meshrt::WindowDim{}, moving};
  const auto power = [&](int64_t n) { return s.dims == 2 ? n * n : n; };
  const std::vector<float> x(static_cast<size_t>(s.batch * power(s.size) * s.groups * s.in), 0.5f),
      y(static_cast<size_t>(s.batch * power(narrow) * s.groups * s.out), 0.5f),
      w(static_cast<size_t>(power(s.kernel) * s.groups * s.in * s.out), 0.5f);
  const auto& first = makes == ConvResult::x ? y : x;
  const auto& second = makes == ConvResult::w ? y : w;
  std::vector<float> result(makes == ConvResult::x ? x.size() : makes == ConvResult::y ? y.size() : w.size());
  const ConvCall<float> call{makes,        windows,       {s.batch, s.groups, s.in, s.out},
                             first.data(), second.data(), result.data()};
  const double flops = 2.0 * double(meshrt::multiplications(windows, call.extents));
  constexpr const char* names[] = {"conv", "transpose", "weights"};
  std::printf("%-9s %d-d %3ld x %3ld, %3ld x %3ld to %3ld, kernel %ld, stride %ld", names[static_cast<int>(makes)],
              s.dims, long(s.batch), long(s.size), long(s.groups), long(s.in), long(s.out), long(s.kernel),
              long(s.stride));
  if (!meshrt::convolve_onednn(dnn, call)) return static_cast<void>(std::printf("   oneDNN has no kernel\n"));
  std::vector<double> ours, theirs, ratios;
  for (int turn = 0; turn < turns; ++turn) {
    const double own = seconds([&] { meshrt::convolve_own(call); });
    const double other = seconds([&] { meshrt::convolve_onednn(dnn, call); });
    ours.push_back(flops / own * 1e-9), theirs.push_back(flops / other * 1e-9), ratios.push_back(other / own);
  }
  std::printf("   ours %6.1f   oneDNN %6.1f   ratio %.3f\n", median(ours), median(theirs), median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 15;
  const meshrt::OneDnn& dnn = meshrt::onednn();
  std::printf("gigaflops a second, one thread: ours against %s (ratio above 1: ours is faster)\n", dnn.name.c_str());
  const Shape shapes[] = {{2, 8, 56, 1, 64, 64, 3, 1},   {2, 32, 28, 1, 1, 32, 3, 1},   {2, 32, 14, 1, 32, 32, 3, 1},
                          {2, 32, 14, 1, 32, 64, 3, 2},  {2, 32, 7, 1, 64, 64, 3, 1},   {2, 1, 224, 1, 3, 64, 7, 2},
                          {2, 4, 28, 1, 128, 128, 3, 1}, {2, 4, 28, 1, 128, 256, 1, 2}, {2, 4, 56, 1, 64, 256, 1, 1},
                          {2, 8, 7, 1, 512, 512, 3, 1},  {2, 8, 28, 1, 48, 50, 3, 1},   {2, 8, 28, 1, 16, 16, 3, 1},
                          {2, 8, 28, 1, 24, 24, 3, 1},   {2, 8, 28, 1, 8, 8, 3, 1},     {2, 8, 28, 1, 8, 64, 3, 1},
                          {2, 8, 28, 1, 64, 8, 3, 1},    {2, 8, 28, 1, 4, 8, 3, 1},     {2, 8, 28, 1, 8, 4, 3, 1},
                          {2, 8, 28, 1, 3, 5, 3, 1},     {2, 8, 28, 8, 8, 8, 3, 1},     {2, 8, 28, 32, 2, 2, 3, 1},
                          {2, 8, 56, 64, 1, 1, 3, 1},    {1, 8, 512, 256, 1, 1, 4, 1},  {1, 32, 64, 1, 32, 32, 3, 1},
                          {1, 32, 64, 1, 16, 16, 3, 1},  {1, 32, 64, 1, 8, 8, 3, 1},    {1, 8, 1024, 1, 80, 384, 3, 1}};
  for (const ConvResult makes : {ConvResult::y, ConvResult::x, ConvResult::w})
    for (const Shape& shape : shapes) measure(dnn, shape, makes, turns);
}
