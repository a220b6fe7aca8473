// products.cpp: the matrix products of one training step of gpt2_384.mesh (gpt2_124m: in the sizes of GPT-2 of 124M
// parameters), perceptron.mesh, convolution.mesh, resnet.mesh or mixtral.mesh (the argument) on one of two ranks, by
// OpenBLAS, and nothing else: the floor below which a step that computes whole products cannot come. Of a convolution,
// its patches and weights. Prints "median X ms".
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

namespace {

struct Product {
  bool transpose_a, transpose_b;
  int rows, cols, inner, times;
};

/// y = x w of so many rows: forward, gradient of x, gradient of w.
void linear(std::vector<Product>& all, int rows, int in, int out, int times) {
  all.push_back({false, false, rows, out, in, times});
  all.push_back({false, true, rows, in, out, times});
  all.push_back({true, false, in, out, rows, times});
}

std::vector<Product> of_gpt(int width, int heads, int layers, int vocab) {
  constexpr int sequences = 2, seq = 256, tokens = sequences * seq, head_dim = 64;
  const int ffn = 4 * width;
  std::vector<Product> products;
  linear(products, tokens, width, 3 * width, layers);
  linear(products, tokens, width, width, layers);
  linear(products, tokens, width, ffn, layers);
  linear(products, tokens, ffn, width, layers);
  linear(products, tokens, width, vocab, 1);
  const int attention = layers * sequences * heads;  // two products forward, four backward, each a head
  products.push_back({false, true, seq, seq, head_dim, 2 * attention});
  products.push_back({false, false, seq, head_dim, seq, 2 * attention});
  products.push_back({true, false, seq, head_dim, seq, 2 * attention});
  return products;
}

/// Half of the hidden units; the first layer has no gradient of its input.
std::vector<Product> of_perceptron() {
  constexpr int batch = 512, from = 1024, hidden = 2048, to = 1024;
  return {{false, false, batch, hidden, from, 1},
          {true, false, from, hidden, batch, 1},
          {false, false, batch, to, hidden, 1},
          {false, true, batch, hidden, to, 1},
          {true, false, hidden, to, batch, 1}};
}

/// Half of the pictures: forward, gradient of what is read, gradient of the weights.
std::vector<Product> of_convolution() {
  constexpr int pixels = 8 * 56 * 56, patch = 3 * 3 * 64, filters = 64;
  return {{false, false, pixels, filters, patch, 2}, {true, false, patch, filters, pixels, 1}};
}

/// Half of the pictures; nothing needs the gradient of the pictures themselves.
std::vector<Product> of_resnet() {
  constexpr int pictures = 32, large = pictures * 28 * 28, middle = pictures * 14 * 14, small = pictures * 7 * 7;
  constexpr int kernel = 3 * 3, wide = 32, deep = 64, classes = 10, units = 2;
  std::vector<Product> products = {{false, false, large, wide, kernel, 1}, {true, false, kernel, wide, large, 1}};
  linear(products, middle, kernel * wide, wide, 2 * units);
  linear(products, small, kernel * wide, deep, 1);
  linear(products, small, kernel * deep, deep, 1);
  linear(products, small, wide, deep, 1);
  linear(products, pictures, deep, classes, 1);
  return products;
}

/// Half of the lines. Every expert takes its slots of each line; attention looks at all keys.
std::vector<Product> of_mixtral() {
  constexpr int lines = 8, seq = 128, tokens = lines * seq, width = 128, heads = 4, kv = 2, head_dim = 32, experts = 8,
                slots = lines * 40, ffn = 192, vocab = 256, layers = 4;
  std::vector<Product> products;
  linear(products, tokens, width, (heads + 2 * kv) * head_dim, layers);
  linear(products, tokens, heads * head_dim, width, layers);
  linear(products, tokens, width, experts, layers);
  linear(products, slots, width, ffn, 2 * layers * experts);
  linear(products, slots, ffn, width, layers * experts);
  linear(products, tokens, width, vocab, 1);
  const int attention = layers * lines * heads;
  products.push_back({false, true, seq, seq, head_dim, 2 * attention});
  products.push_back({false, false, seq, head_dim, seq, 2 * attention});
  products.push_back({true, false, seq, head_dim, seq, 2 * attention});
  return products;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view spec = count > 1 ? arguments[1] : "gpt2_384";
  const std::vector<Product> products = spec == "perceptron"    ? of_perceptron()
                                        : spec == "convolution" ? of_convolution()
                                        : spec == "resnet"      ? of_resnet()
                                        : spec == "mixtral"     ? of_mixtral()
                                        : spec == "gpt2_124m"   ? of_gpt(768, 12, 12, 50257)
                                                                : of_gpt(384, 6, 6, 4096);
  size_t most = 0;
  for (const Product& p : products)
    most = std::max({most, size_t(p.rows) * p.inner, size_t(p.inner) * p.cols, size_t(p.rows) * p.cols});
  std::vector<float> a(most, 0.01f), b(most, 0.02f), c(most);
  std::vector<double> milliseconds;
  for (int round = 0; round < 6; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (const Product& p : products)
      for (int i = 0; i < p.times; ++i)
        cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans, p.transpose_b ? CblasTrans : CblasNoTrans,
                    p.rows, p.cols, p.inner, 1, a.data(), p.transpose_a ? p.rows : p.inner, b.data(),
                    p.transpose_b ? p.inner : p.cols, 0, c.data(), p.cols);
    if (round)
      milliseconds.push_back(
          std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  std::printf("median %.2f ms\n", milliseconds[milliseconds.size() / 2]);
}
