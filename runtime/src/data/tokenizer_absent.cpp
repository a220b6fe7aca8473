// Tokenizer of a runtime that was built without libsentencepiece.
#include <fmt/format.h>

#include "meshrt/failure.h"
#include "meshrt/tokenizer.h"

namespace meshrt {

namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Failure(Cause::environment,
                fmt::format("{} needs SentencePiece, which this build of the runtime lacks: install "
                            "libsentencepiece-dev and build Meshwright again, or tokenize the text elsewhere",
                            what));
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::string& path) { fail(fmt::format("`{}`", path)); }

void train_tokenizer(const std::vector<std::string>&, const std::string& path, int64_t, const std::string&) {
  fail(fmt::format("`{}`", path));
}

}  // namespace meshrt
