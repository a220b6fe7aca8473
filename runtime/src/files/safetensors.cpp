#include "meshrt/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "files/file_bytes.h"
#include "meshrt/failure.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;

constexpr struct {
  const char* name;
  Type type;
} type_names[] = {{"F32", Type::f32}, {"F64", Type::f64}, {"BF16", Type::bf16}, {"F16", Type::f16},
                  {"I32", Type::i32}, {"I64", Type::i64}, {"U8", Type::u8},     {"BOOL", Type::boolean}};

class HeaderReader {
 public:
  HeaderReader(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  void read(std::vector<NamedArray>& tensors, std::map<std::string, std::string>& metadata) {
    const Json header = parse();
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") read_metadata(entry, metadata);
      else tensors.push_back(read_tensor(name, entry));
    }
    std::stable_sort(tensors.begin(), tensors.end(), [](const NamedArray& a, const NamedArray& b) {
      return std::pair(a.data.data(), a.data.size()) < std::pair(b.data.data(), b.data.size());
    });
    const std::byte* end = data_.data();
    for (const NamedArray& tensor : tensors) {
      if (tensor.data.data() != end) fail(tensor.name, "its numbers overlap others or leave a gap");
      end += tensor.data.size();
    }
    if (end != data_.data() + data_.size())
      fail("", fmt::format("{} bytes at its end belong to no tensor", data_.data() + data_.size() - end));
  }

 private:
  [[noreturn]] void fail(std::string_view tensor, const std::string& why) const {
    throw Failure(Cause::data, tensor.empty() ? fmt::format("`{}` is not a valid safetensors file: {}", path_, why)
                                              : fmt::format("`{}`: tensor `{}`: {}", path_, tensor, why));
  }

  /// What else is called weights, by its first bytes, which give a safetensors file a header of impossible length.
  std::string other_format() const {
    const auto begins = [&](std::string_view magic) {
      return bytes_.size() >= magic.size() && std::memcmp(bytes_.data(), magic.data(), magic.size()) == 0;
    };
    if (begins("PK\x03\x04") && path_.ends_with(".npz"))
      return "an archive of NumPy: `safetensors.numpy.save_file(dict(np.load(FILE)), \"w.safetensors\")` writes it "
             "anew";
    if (begins("PK\x03\x04") || begins("\x80\x02") || begins("\x80\x04"))
      return "a pickle of PyTorch: `safetensors.torch.save_file(torch.load(FILE), \"w.safetensors\")` writes it anew";
    if (begins("\x93NUMPY"))
      return "one array of NumPy: `safetensors.numpy.save_file({NAME: np.load(FILE)}, \"w.safetensors\")` names it";
    if (begins("\x89HDF")) return "HDF5: read it in Python, and write it by `safetensors.numpy.save_file`";
    if (begins("GGUF")) return "GGUF, whose numbers are packed: take the model's safetensors";
    return "";
  }

  Json parse() {
    constexpr uint64_t longest_header = 100'000'000;  // the reference implementation's limit
    uint64_t length = 0;
    if (bytes_.size() < sizeof length) fail("", "it is shorter than its first number");
    std::memcpy(&length, bytes_.data(), sizeof length);
    const bool too_long = length > longest_header || length > bytes_.size() - sizeof length;
    if (const std::string other = too_long ? other_format() : ""; !other.empty())
      throw Failure(Cause::data, fmt::format("`{}` is no safetensors file but {}", path_, other));
    if (too_long) fail("", fmt::format("its header would have {} bytes, but the file has {}", length, bytes_.size()));
    data_ = bytes_.subspan(sizeof length + length);
    const auto* text = reinterpret_cast<const char*>(bytes_.data()) + sizeof length;
    // A duplicated name would silently lose a tensor; depth is bounded so that nesting cannot exhaust the stack.
    std::vector<std::set<std::string>> names;
    const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > 4) fail("", "its header is nested too deeply");
      if (event == Json::parse_event_t::object_start) names.emplace_back();
      if (event == Json::parse_event_t::object_end) names.pop_back();
      if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
        fail("", fmt::format("its header has `{}` twice", parsed.get<std::string>()));
      return true;
    };
    Json header;
    try {
      header = Json::parse(text, text + length, check);
    } catch (const Json::exception& error) {
      fail("", fmt::format("its header is not JSON ({})", error.what()));
    }
    if (!header.is_object()) fail("", "its header is not a JSON object");
    return header;
  }

  void read_metadata(const Json& entry, std::map<std::string, std::string>& metadata) const {
    if (!entry.is_object()) fail("", "`__metadata__` is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("", fmt::format("`__metadata__.{}` is not a string", key));
      metadata[key] = value.get<std::string>();
    }
  }

  NamedArray read_tensor(const std::string& name, const Json& entry) const {
    if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
        !entry.contains("data_offsets"))
      fail(name, "its header needs `dtype`, `shape` and `data_offsets`");
    NamedArray tensor;
    tensor.name = name;
    tensor.type = type_of(name, entry["dtype"]);
    auto bytes = static_cast<unsigned __int128>(size_of(tensor.type));
    if (!entry["shape"].is_array()) fail(name, "its `shape` is not a list");
    for (const Json& size : entry["shape"]) {
      if (!size.is_number_unsigned()) fail(name, "its `shape` has an entry that is not a size");
      const auto extent = size.get<uint64_t>();
      if (extent > INT64_MAX) fail(name, "its shape is larger than any file");
      tensor.shape.push_back(static_cast<int64_t>(extent));
      bytes *= extent;
      if (bytes > static_cast<uint64_t>(INT64_MAX)) fail(name, "its shape is larger than any file");
    }
    const Json& offsets = entry["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
        !offsets[1].is_number_unsigned())
      fail(name, "its `data_offsets` are not two offsets");
    const auto begin = offsets[0].get<uint64_t>(), end = offsets[1].get<uint64_t>();
    if (begin > end || end > data_.size())
      fail(name, fmt::format("bytes {} to {} do not lie within the {} bytes of numbers", begin, end, data_.size()));
    if (end - begin != bytes)
      fail(name, fmt::format("{} x {} needs {} bytes, but it has {}", fmt::join(tensor.shape, " x "),
                             name_of(tensor.type), static_cast<uint64_t>(bytes), end - begin));
    tensor.data = data_.subspan(begin, end - begin);
    return tensor;
  }

  Type type_of(const std::string& name, const Json& dtype) const {
    if (dtype.is_string())
      for (const auto& known : type_names)
        if (dtype.get<std::string>() == known.name) return known.type;
    fail(name, fmt::format("its type {} is not one of F32, F64, BF16, F16, I32, I64, U8, BOOL", dtype.dump()));
  }

  const std::string& path_;
  std::span<const std::byte> bytes_, data_;
};

}  // namespace

Safetensors Safetensors::open(const std::string& path) {
  Safetensors result;
  result.file_ = FileBytes::open(path, Compression::none);  // a header of 35615 bytes looks like gzip's magic number
  HeaderReader(path, result.file_->bytes()).read(result.tensors_, result.metadata_);
  return result;
}

const NamedArray* Safetensors::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const NamedArray& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

std::string safetensors_head(std::span<const NamedArray> tensors, const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  size_t offset = 0;
  for (const NamedArray& tensor : tensors) {
    const auto named = std::find_if(std::begin(type_names), std::end(type_names),
                                    [&](const auto& known) { return known.type == tensor.type; });
    size_t bytes = size_of(tensor.type);
    for (const int64_t size : tensor.shape) bytes *= static_cast<size_t>(size);
    header[tensor.name] = {{"dtype", named->name}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the numbers begin at a multiple of eight
  const uint64_t length = text.size();
  std::string head(sizeof length, '\0');
  std::memcpy(head.data(), &length, sizeof length);
  return head + text;
}

void write_safetensors(const std::string& path, std::span<const NamedArray> tensors,
                       const std::map<std::string, std::string>& metadata) {
  const std::string head = safetensors_head(tensors, metadata);
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(head))};
  for (const NamedArray& tensor : tensors) parts.push_back(tensor.data);
  write_file(path, parts);
}

}  // namespace meshrt
