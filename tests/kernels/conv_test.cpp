// Convolutions against the definition in f64: windows of one to three dims with strides, dilations, paddings and
// groups, on ranks that hold parts of the dims with more or less around them. By our own kernels and by oneDNN, on one
// thread and on several. Run also where MESHRT_CONV asks for one of them, and where there is no oneDNN.
#include "meshrt/conv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "kernels/conv_choice.h"
#include "kernels/conv_onednn.h"
#include "kernels/conv_own.h"
#include "meshrt/failure.h"
#include "meshrt/threads.h"

namespace meshrt {
namespace {

constexpr uint32_t conv_seed = 20261126;

int64_t between(std::mt19937& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

/// A part of a dim that somebody answers for.
Held part_of(std::mt19937& random, int64_t size) {
  const int64_t begin = between(random, 0, size - 1);
  return {size, begin, between(random, 1, size - begin)};
}
/// What it takes to read elements first .. last, and a little more; some of it may lie outside of the dim.
Held around(std::mt19937& random, int64_t size, int64_t first, int64_t last) {
  first -= between(random, 0, 2), last += between(random, 0, 2);
  return {size, first, std::max<int64_t>(last - first + 1, 1)};
}

/// `makes` is the side of which a part is held; of the other what it needs.
WindowDim window_of(std::mt19937& random, ConvResult makes, bool whole) {
  WindowDim window;
  for (int64_t size = 0; size < 1;) {
    window.kernel = between(random, 1, 4), window.stride = between(random, 1, 3);
    window.dilation = between(random, 1, 2), window.before = between(random, 0, 3);
    window.wide.size = between(random, 1, 9);
    const int64_t room =
        window.wide.size + window.before + between(random, 0, 3) - window.dilation * (window.kernel - 1);
    size = window.narrow.size = room < 1 ? 0 : (room - 1) / window.stride + 1;
  }
  const int64_t reach = window.dilation * (window.kernel - 1);
  Held &wide = window.wide, &narrow = window.narrow;
  if (whole) {
    wide.count = wide.size, narrow.count = narrow.size;
  } else if (makes == ConvResult::x) {
    wide = part_of(random, wide.size);
    const auto meeting = [&](int64_t at) {
      return static_cast<int64_t>(std::floor(double(at) / double(window.stride)));
    };
    narrow = around(random, narrow.size, meeting(wide.begin + window.before - reach),
                    meeting(wide.begin + wide.count - 1 + window.before));
  } else {
    narrow = part_of(random, narrow.size);
    const int64_t first = window.stride * narrow.begin - window.before;
    wide = around(random, wide.size, first, first + window.stride * (narrow.count - 1) + reach);
  }
  return window;
}

struct ConvCase {
  ConvResult makes;
  WindowDims windows;
  ConvExtents extents;
};

ConvCase case_of(std::mt19937& random, ConvResult makes) {
  ConvCase c{makes, {}, {}};
  const int64_t dims = between(random, 1, 3);
  const bool whole = between(random, 0, 1) == 0;
  for (int64_t i = 3 - dims; i < 3; ++i) c.windows[static_cast<size_t>(i)] = window_of(random, makes, whole);
  const int64_t form = between(random, 0, 3);  // one channel each, groups, or dense
  const auto channels = [&] { return between(random, 0, 1) == 0 ? between(random, 1, 9) : 8 * between(random, 1, 3); };
  c.extents = {between(random, 1, 4), form > 1 ? 1 : between(random, 2, 9), form == 0 ? 1 : channels(),
               form == 0 ? 1 : channels()};
  return c;
}

/// f(x's place, w's, y's) for each product of two elements that are there, one group after the other.
template <class F>
void for_each_product(const ConvCase& c, F f) {
  const auto& [batch, groups, in, out] = c.extents;
  struct Meeting {
    int64_t wide, kernel, narrow;
  };
  std::array<std::vector<Meeting>, 3> meetings;
  for (size_t i = 0; i < 3; ++i) {
    const WindowDim& w = c.windows[i];
    const auto holds = [](const Held& held, int64_t at) {
      return at >= 0 && at < held.size && at >= held.begin && at < held.begin + held.count;
    };
    for (int64_t n = w.narrow.begin; n < w.narrow.begin + w.narrow.count; ++n)
      for (int64_t k = 0; k < w.kernel; ++k)
        if (const int64_t at = w.stride * n + w.dilation * k - w.before; holds(w.wide, at) && holds(w.narrow, n))
          meetings[i].push_back({at - w.wide.begin, k, n - w.narrow.begin});
  }
  const auto place = [&](int64_t sample, Held WindowDim::*side, int64_t a, int64_t b, int64_t d) {
    return ((sample * (c.windows[0].*side).count + a) * (c.windows[1].*side).count + b) * (c.windows[2].*side).count +
           d;
  };
  for (int64_t sample = 0; sample < batch; ++sample)
    for (const Meeting& p : meetings[0])
      for (const Meeting& q : meetings[1])
        for (const Meeting& r : meetings[2])
          for (int64_t g = 0; g < groups; ++g)
            for (int64_t i = 0; i < in; ++i)
              for (int64_t o = 0; o < out; ++o)
                f((place(sample, &WindowDim::wide, p.wide, q.wide, r.wide) * groups + g) * in + i,
                  ((((p.kernel * c.windows[1].kernel + q.kernel) * c.windows[2].kernel + r.kernel) * groups + g) * in +
                   i) * out +
                      o,
                  (place(sample, &WindowDim::narrow, p.narrow, q.narrow, r.narrow) * groups + g) * out + o);
}

/// Its tensors: random numbers, and none at all in held places that lie outside of a dim.
template <class T, class In = T>
struct ConvTensors {
  std::vector<In> x, w, y;  // what is read
  std::vector<T> result;

  ConvTensors(const ConvCase& c, std::mt19937& random) {
    const auto& [batch, groups, in, out] = c.extents;
    const auto side = [&](Held WindowDim::*held, int64_t channels) {
      std::vector<In> values;
      const auto& [p, q, r] = c.windows;
      for (int64_t sample = 0; sample < batch; ++sample)
        for (int64_t a = 0; a < (p.*held).count; ++a)
          for (int64_t b = 0; b < (q.*held).count; ++b)
            for (int64_t d = 0; d < (r.*held).count; ++d)
              for (int64_t i = 0; i < channels; ++i)
                values.push_back(inside(p.*held, a) && inside(q.*held, b) && inside(r.*held, d) ? number(random)
                                                                                                : In(nothing));
      return values;
    };
    x = side(&WindowDim::wide, groups * in), y = side(&WindowDim::narrow, groups * out);
    int64_t count = groups * in * out;
    for (const WindowDim& window : c.windows) count *= window.kernel;
    for (int64_t i = 0; i < count; ++i) w.push_back(number(random));
    // The result's own numbers must not matter.
    result.assign((c.makes == ConvResult::x ? x : c.makes == ConvResult::w ? w : y).size(), T(nothing));
  }

  ConvCall<T, In> call(const ConvCase& c) {
    const std::vector<In>&first = c.makes == ConvResult::x ? y : x, &second = c.makes == ConvResult::w ? y : w;
    return {c.makes, c.windows, c.extents, first.data(), second.data(), result.data()};
  }

 private:
  static constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
  static bool inside(const Held& held, int64_t at) { return held.begin + at >= 0 && held.begin + at < held.size; }
  static In number(std::mt19937& random) { return In(std::uniform_real_distribution<float>(-1, 1)(random)); }
};

/// Each sum is within what so many roundings can do to it.
template <class T, class In>
void expect_definition(const ConvCase& c, const ConvTensors<T, In>& given) {
  const std::vector<T>& got = given.result;
  std::vector<double> sum(got.size()), size(got.size()), terms(got.size());
  for_each_product(c, [&](int64_t x, int64_t w, int64_t y) {
    const auto at = [](const std::vector<In>& values, int64_t i) {
      return static_cast<double>(static_cast<T>(values[static_cast<size_t>(i)]));
    };
    const size_t to = static_cast<size_t>(c.makes == ConvResult::x ? x : c.makes == ConvResult::w ? w : y);
    const double product = c.makes == ConvResult::x   ? at(given.y, y) * at(given.w, w)
                           : c.makes == ConvResult::w ? at(given.x, x) * at(given.y, y)
                                                      : at(given.x, x) * at(given.w, w);
    sum[to] += product, size[to] += std::abs(product), terms[to] += 1;
  });
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(double(got[i]) - sum[i]), (terms[i] + 1) * std::numeric_limits<T>::epsilon() * size[i])
        << "element " << i;
}

std::string text_of(const ConvCase& c) {
  constexpr const char* names[] = {"y", "x", "w"};
  const auto& [batch, groups, in, out] = c.extents;
  std::string text = std::string(names[static_cast<int>(c.makes)]) + ", batch " + std::to_string(batch) + ", " +
                     std::to_string(groups) + " groups of " + std::to_string(in) + " to " + std::to_string(out);
  for (const WindowDim& w : c.windows) {
    for (const Held* held : {&w.wide, &w.narrow})
      text += "; " + std::to_string(held->count) + " from " + std::to_string(held->begin) + " of " +
              std::to_string(held->size);
    text += ", kernel " + std::to_string(w.kernel) + " stride " + std::to_string(w.stride) + " dilation " +
            std::to_string(w.dilation) + " before " + std::to_string(w.before);
  }
  return text;
}

/// std::mt19937 cases of all three results.
template <class F>
void for_each_case(int count, F f) {
  std::mt19937 random(conv_seed);
  for (int i = 0; i < count; ++i) {
    const ConvCase c = case_of(random, static_cast<ConvResult>(i % 3));
    SCOPED_TRACE(text_of(c));
    f(c, random);
    if (testing::Test::HasFatalFailure()) return;
  }
}

template <class T, class In = T>
void expect_own() {
  for_each_case(600, [](const ConvCase& c, std::mt19937& random) {
    ConvTensors<T, In> tensors(c, random);
    convolve_own(tensors.call(c));
    expect_definition(c, tensors);
  });
}

TEST(Conv, OursIsTheDefinition) { expect_own<float>(); }
TEST(Conv, OursIsTheDefinitionInF64) { expect_own<double>(); }
TEST(Conv, OursIsTheDefinitionOfRoundedNumbers) { expect_own<float, Bfloat16>(); }
TEST(Conv, OursIsTheDefinitionOfF16) { expect_own<float, Float16>(); }

/// What a program calls, whatever runs it.
template <class T, class In = T>
void expect_calls_of_programs() {
  for_each_case(600, [](const ConvCase& c, std::mt19937& random) {
    ConvTensors<T, In> tensors(c, random);
    const ConvCall<T, In> call = tensors.call(c);
    const auto& [slow, middle, fast] = c.windows;
    constexpr std::array calls{conv<T, In>, conv_transpose<T, In>, conv_weights<T, In>};
    calls[static_cast<size_t>(c.makes)](slow, middle, fast, c.extents, call.first, call.second, call.result);
    expect_definition(c, tensors);
  });
}

TEST(Conv, OfProgramsIsTheDefinition) { expect_calls_of_programs<float>(); }
TEST(Conv, OfProgramsIsTheDefinitionOfRoundedNumbers) { expect_calls_of_programs<float, Bfloat16>(); }
TEST(Conv, OfProgramsIsTheDefinitionOfF16) { expect_calls_of_programs<float, Float16>(); }

class ConvByOneDnn : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("MESHRT_ONEDNN")) GTEST_SKIP() << "MESHRT_ONEDNN names another library";
    dnn = &onednn();
  }
  const OneDnn* dnn = nullptr;
};

template <class In>
void expect_onednn(const OneDnn& dnn) {
  std::array<int, 3> done{};
  for_each_case(1500, [&](const ConvCase& c, std::mt19937& random) {
    ConvTensors<float, In> tensors(c, random);
    if (!convolve_onednn(dnn, tensors.call(c))) return;
    ++done[static_cast<size_t>(c.makes)];
    expect_definition(c, tensors);
  });
  EXPECT_THAT(done, testing::Each(testing::Gt(50)));  // of sizes like most of these it has no kernel of its own
}

TEST_F(ConvByOneDnn, IsTheDefinition) { expect_onednn<float>(*dnn); }
TEST_F(ConvByOneDnn, IsTheDefinitionOfRoundedNumbers) { expect_onednn<Bfloat16>(*dnn); }
TEST_F(ConvByOneDnn, IsTheDefinitionOfF16) { expect_onednn<Float16>(*dnn); }

// Windows that begin far in front of the slowest of three dims, and some that reach over both its ends.
TEST_F(ConvByOneDnn, OfDeepWindowsIsTheDefinition) {
  const WindowDim same{{3, 0, 3}, {3, 0, 3}, 3, 1, 1, 1};
  std::mt19937 random(conv_seed);
  for (int64_t kernel = 2; kernel <= 5; ++kernel)
    for (int64_t stride = 1; stride <= 3; ++stride)
      for (int64_t size = 1; size <= 6; ++size)
        for (int64_t before = 0; before < kernel; ++before)
          for (int64_t after = 0; after < kernel; ++after) {
            const int64_t room = size + before + after - kernel, windows = room / stride + 1;
            if (room < 0 || room % stride != 0) continue;
            const WindowDim deep{{size, 0, size}, {windows, 0, windows}, kernel, stride, 1, before};
            for (const ConvResult makes : {ConvResult::y, ConvResult::x, ConvResult::w}) {
              const ConvCase c{makes, {deep, same, same}, {2, 1, 16, 16}};
              SCOPED_TRACE(text_of(c));
              ConvTensors<float> tensors(c, random);
              if (convolve_onednn(*dnn, tensors.call(c))) expect_definition(c, tensors);
              if (HasFatalFailure()) return;
            }
          }
}

/// Large enough to be cut into pieces: samples, and rows of few samples.
const std::vector<ConvCase>& large_cases() {
  static const std::vector<ConvCase> cases = [] {
    std::vector<ConvCase> all;
    const WindowDim pictures{{19, 0, 19}, {19, 0, 19}, 3, 1, 1, 1}, halves{{19, 0, 19}, {10, 0, 10}, 3, 2, 1, 1};
    for (const ConvResult makes : {ConvResult::y, ConvResult::x, ConvResult::w})
      for (const WindowDim& window : {pictures, halves})
        for (const int64_t batch : {1, 3, 17}) {
          all.push_back({makes, {WindowDim{}, window, window}, {batch, 1, 40, 48}});
          all.push_back({makes, {WindowDim{}, window, window}, {batch, 64, 1, 1}});
        }
    return all;
  }();
  return cases;
}

void expect_same_on_threads(const std::function<bool(const ConvCall<float>&)>& run) {
  std::mt19937 random(conv_seed);
  for (const ConvCase& c : large_cases()) {
    SCOPED_TRACE(text_of(c));
    ConvTensors<float> tensors(c, random);
    if (!run(tensors.call(c))) continue;
    const std::vector<float> alone = tensors.result;
    expect_definition(c, tensors);
    for (const int count : {2, 3, 4, 7}) {
      const Threads threads(count);
      std::fill(tensors.result.begin(), tensors.result.end(), std::numeric_limits<float>::quiet_NaN());
      run(tensors.call(c));
      ASSERT_EQ(tensors.result, alone) << count << " threads";
    }
  }
}

TEST_F(ConvByOneDnn, HasTheBitsOfOneThreadOnSeveral) {
  expect_same_on_threads([&](const ConvCall<float>& call) { return convolve_onednn(*dnn, call); });
}

TEST(Conv, OursHasTheBitsOfOneThreadOnSeveral) {
  expect_same_on_threads([](const ConvCall<float>& call) {
    convolve_own(call);
    return true;
  });
}

TEST(ConvChoice, ClassesGoByWindowsAndChannels) {
  const WindowDim still, row{{9, 0, 9}, {9, 0, 9}, 3, 1, 1, 1}, skipping{{9, 0, 9}, {5, 0, 5}, 1, 2, 1, 0},
      halves{{9, 0, 9}, {5, 0, 5}, 3, 2, 1, 1};
  EXPECT_EQ(class_of({still, still, row}, {2, 64, 1, 1}), ConvClass::lines_by_channels);
  EXPECT_EQ(class_of({still, row, row}, {2, 64, 1, 1}), ConvClass::by_channels);
  EXPECT_EQ(class_of({still, skipping, skipping}, {2, 1, 64, 64}), ConvClass::sparse_points);
  EXPECT_EQ(class_of({still, row, row}, {2, 1, 64, 31}), ConvClass::narrow);
  EXPECT_EQ(class_of({still, row, halves}, {2, 1, 64, 64}), ConvClass::strided);
  EXPECT_EQ(class_of({still, row, row}, {2, 4, 32, 32}), ConvClass::dense);
}

TEST(ConvChoice, NamesWhatRuns) {
  const bool is_there = !std::getenv("MESHRT_ONEDNN");
  const std::string name = conv_name();
  if (wanted_conv_implementation() == ConvImplementation::onednn) EXPECT_THAT(name, testing::StartsWith("oneDNN 2."));
  else EXPECT_THAT(name, testing::StartsWith("own "));
  EXPECT_EQ(name.find("oneDNN") != std::string::npos,
            is_there && wanted_conv_implementation() != ConvImplementation::own);
  EXPECT_EQ(why_no_onednn() == "", is_there);
  EXPECT_EQ(conv_name({false, true}), name + ", f16 widened");
  EXPECT_THAT(conv_name({true, true}), testing::MatchesRegex(".*, bf16 (own by vdpbf16ps|widened), f16 widened"));
}

/// A variable of the environment, for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* given = std::getenv(name)) before_ = given;
    setenv(name, value, 1);
  }
  ~Variable() {
    if (before_) setenv(name_, before_->c_str(), 1);
    else unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(ConvChoice, SaysThatThereIsNoLibrary) {
  const Variable variable("MESHRT_ONEDNN", "/there/is/none");
  try {
    open_onednn();
    ADD_FAILURE() << "opened nothing";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.cause, Cause::environment);
    EXPECT_THAT(failure.what(), testing::StartsWith("oneDNN cannot be opened: /there/is/none: "));
  }
}

TEST(ConvChoice, RefusesAnUnknownImplementation) {
  const Variable variable("MESHRT_CONV", "cudnn");
  try {
    wanted_conv_implementation();
    ADD_FAILURE() << "took cudnn";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "MESHRT_CONV is `cudnn`; it may be `own` or `onednn`");
  }
}

}  // namespace
}  // namespace meshrt
