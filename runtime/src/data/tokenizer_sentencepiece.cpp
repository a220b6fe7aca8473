// Tokenizer over libsentencepiece.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/utf8.h"
#include "files/file_bytes.h"
#include "meshrt/failure.h"
#include "meshrt/tokenizer.h"

namespace meshrt {

namespace {

/// Of a piece that stands for characters in UTF-8; the blanks before them are not what is meant.
std::string first_character(const std::string& piece) {
  const size_t begin = std::min(piece.find_first_not_of(' '), piece.size());
  size_t end = begin + 1;
  while (end < piece.size() && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80) ++end;
  return begin == piece.size() ? " " : piece.substr(begin, end - begin);
}

class SentencePiece final : public Tokenizer {
 public:
  explicit SentencePiece(const std::string& path) : Tokenizer(path) {
    const auto file = FileBytes::open(path, Compression::none);
    if (const std::string fault = load(file->bytes()); !fault.empty())
      throw Failure(Cause::data, fmt::format("`{}` is not a model of SentencePiece: {}", path, fault));
  }

  std::optional<std::string> encode(std::string_view line, std::vector<int32_t>& tokens) const override {
    if (const size_t at = valid_utf8(line); at < line.size()) return std::string(1, line[at]);
    const std::vector<int> ids = model_.EncodeAsIds({line.data(), line.size()});
    tokens.insert(tokens.end(), ids.begin(), ids.end());
    const auto unknown = std::ranges::find(ids, model_.unk_id());
    if (unknown == ids.end()) return std::nullopt;
    const auto pieces = model_.EncodeAsImmutableProto({line.data(), line.size()});
    const auto piece = pieces.pieces(static_cast<int>(unknown - ids.begin()));
    return first_character(piece.surface().empty() ? piece.piece() : piece.surface());
  }
  std::string decode(std::span<const int32_t> tokens) const override {
    return model_.DecodeIds({tokens.begin(), tokens.end()});
  }
  int32_t size() const override { return model_.GetPieceSize(); }
  std::optional<int32_t> end() const override {
    return model_.eos_id() < 0 ? std::nullopt : std::optional<int32_t>(model_.eos_id());
  }

 private:
  /// What is wrong with the bytes of a model; empty: nothing. The library tells some of it by exceptions.
  std::string load(std::span<const std::byte> bytes) {
    if (bytes.empty()) return "it is empty";
    try {
      const auto status = model_.LoadFromSerializedProto({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
      return status.ok() ? "" : status.ToString();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& error) {
      return error.what();
    }
  }

  sentencepiece::SentencePieceProcessor model_;
};

/// The number behind these words; empty: they do not stand there.
std::string number_behind(std::string_view said, std::string_view words) {
  const size_t at = said.find(words);
  if (at == said.npos) return "";
  const std::string_view from = said.substr(at + words.size());
  return std::string(from.substr(0, from.find_first_not_of("0123456789")));
}

/// The library speaks of options that we do not have.
std::string why_no_model(const std::string& said, int64_t size) {
  if (const std::string most = number_behind(said, "value <= "); !most.empty())
    return fmt::format("a vocabulary of {} is too large for these texts: they have {} pieces", size, most);
  if (const std::string least = number_behind(said, fmt::format("required_chars. {} vs ", size)); !least.empty())
    return fmt::format("a vocabulary of {} is too small for these texts: with the bytes, their characters are {}", size,
                       least);
  return fmt::format("SentencePiece cannot make a model: {}", said);
}

}  // namespace

std::shared_ptr<const Tokenizer> Tokenizer::open(const std::string& path) {
  return std::make_shared<const SentencePiece>(path);
}

void train_tokenizer(const std::vector<std::string>& texts, const std::string& path, int64_t size,
                     const std::string& method) {
  for (const std::string& text : texts) {
    FileBytes::open(text);  // says what cannot be read
    if (text.find(',') != std::string::npos)
      throw Failure(Cause::usage, fmt::format("SentencePiece takes no file with a comma in its name: `{}`", text));
  }
  std::string model;
  const auto status =
      sentencepiece::SentencePieceTrainer::Train({{"input", fmt::format("{}", fmt::join(texts, ","))},
                                                  {"vocab_size", std::to_string(size)},
                                                  {"model_type", method},
                                                  {"byte_fallback", "true"},  // what the texts did not have is not lost
                                                  {"num_threads", "1"},       // the same model each time
                                                  {"minloglevel", "1"}},
                                                 nullptr, &model);
  if (!status.ok()) throw Failure(Cause::data, why_no_model(status.ToString(), size));
  const std::span<const std::byte> part = std::as_bytes(std::span(model));
  write_file(path, {&part, 1});
}

}  // namespace meshrt
