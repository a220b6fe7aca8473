// A program as meshc emits it, for two ranks.
#include "fit_mean.h"

int main(int argc, char** argv) {
  return meshrt::run_main(argc, argv,
                          []() -> std::unique_ptr<meshrt::Program> { return std::make_unique<meshrt::FitMean>(2); });
}
