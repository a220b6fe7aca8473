// fuzz_files KIND SEED FIRST COUNT SECONDS FOLDER [FILES...]   reads mutants FIRST to FIRST + COUNT of files of a kind,
// for
//                                                     at most so many seconds; run files begin as FILES
// fuzz_files --write I KIND SEED FOLDER [FILES...]    leaves mutant I in the folder
//
// KIND is run_file, run_json (in the program with json_text.cpp), names, safetensors, llm_c, raw, megatron, idx, npy or
// gzip. A mutant is read or refused with a Failure; another exception, a crash, what the sanitizers find and ten
// seconds without an answer end the run with exit code 1 and the mutant's number. The address and undefined sanitizers
// are built in.
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "meshrt/checkpoint.h"
#include "meshrt/data.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/rename_map.h"
#include "meshrt/run_file.h"
#include "meshrt/run_keys.h"
#include "meshrt/safetensors.h"
#include "watchdog.h"

namespace {

using meshrt::FileType, meshrt::NumberFile, meshrt::Type;
using Random = std::mt19937_64;

constexpr size_t largest = 1 << 20;  // bytes of a mutant

size_t below(Random& random, size_t limit) { return limit == 0 ? 0 : random() % limit; }

template <class T>
std::string bytes_of(std::initializer_list<T> numbers) {
  std::string bytes;
  for (const T number : numbers) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

std::string reversed(std::string bytes) { return {bytes.rbegin(), bytes.rend()}; }

std::string some_numbers(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 37);
  return bytes;
}

// ---- what is right: a kind's files, by their names

using Files = std::map<std::string, std::string>;

std::string safetensors_seed() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b.c":{"dtype":"I64","shape":[],"data_offsets":[24,32]},"d":{"dtype":"BF16","shape":[0,4],"data_offsets":[32,32]}})";
  return bytes_of<uint64_t>({header.size()}) + header + some_numbers(32);
}

std::string llm_c_seed() {
  std::string header = bytes_of<int32_t>({20240520, 1, 20});
  header.resize(1024);
  return header + some_numbers(40);
}

Files megatron_seed() {
  std::string index("MMIDIDX\0\0", 9);
  index += bytes_of<uint64_t>({1}) + '\x08' + bytes_of<uint64_t>({3, 3}) + bytes_of<int32_t>({4, 5, 6});
  index += bytes_of<int64_t>({0, 8, 18}) + bytes_of<int64_t>({0, 2, 3});
  return {{"a.idx", index}, {"a.bin", some_numbers(30)}};
}

std::string idx_seed() {
  return std::string("\0\0\x08\x03", 4) + reversed(bytes_of<uint32_t>({5})) + reversed(bytes_of<uint32_t>({2})) +
         reversed(bytes_of<uint32_t>({3})) + some_numbers(30);
}

std::string npy_seed(bool fortran) {
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': {}, 'shape': (3, 4), }}", fortran ? "True" : "False");
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + bytes_of<uint16_t>({static_cast<uint16_t>(header.size())}) + header +
         some_numbers(48);
}

std::string packed(const std::string& plain) {
  std::string packed(1000, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// Two members.
std::string gzip_seed() { return packed(idx_seed().substr(0, 20)) + packed(idx_seed().substr(20)); }

/// Every key once, with values of its kind.
std::string run_file_seed() {
  return R"(data:
  token: { mix: [{file: a.bin, weight: 0.7, from: 1}, {file: a.bin, weight: 3e-1, type: u16}], window: seq, to: 95% }
  target: { of: token, shift: 1 }
  src: { file: a.bin, pad: 0, start: 1, end: 2, long: cut, from: 3, to: 12.5% }
  text: { file: a.bin, tokenizer: a.bin, type: bytes }
validation: { every: 5, whole: true, token: { from: 95% } }
train: { steps: 5_000, seed: 7, shuffle: true, lr: 3.0e-4, params: a.bin, names: a.bin, partial: true, timeout: 60, max_time: "1-23:50:00" }
checkpoint: { dir: out/ckpt, every: 500, keep: 3, resume: auto, async: false, file_size: 5 GB }
log:
  every: 10
  trace: { steps: 10..12, file: out/trace.json }
  jsonl: &file "out/m.jsonl"
  watch: [grad_norm, 'layer.attn.wq']
  nonfinite: warn
  profile: false
output: { u: {every: 100, file: "out/u_{step}.npy"} }
run: { dir: out/run }
)";
}

std::string run_json_seed() {
  return R"({ // the same in JSON
  "data": { "token": { "mix": [{"file": "a.bin", "weight": 0.7, "from": 1}, {"file": "a.bin", "type": "u16"}], "window": "seq", "to": "95%" },
            "target": { "of": "token", "shift": 1 }, "src": { "file": "a.bin", "pad": 0, "start": 1, "end": 2, "long": "cut" } },
  "validation": { "every": 5, "whole": true, "token": { "from": "95%" } }, /* and so on */
  "train": { "steps": 5000, "seed": 7, "shuffle": true, "lr": 3.0e-4, "max_time": "1-23:50:00", "timeout": 60 },
  "checkpoint": { "dir": "out/ckpt", "resume": "auto", "async": false, "file_size": "5 GB" },
  "log": { "every": 10, "watch": ["grad_norm"], "nonfinite": "warn", "trace": {"steps": "10..12"} }, "run": null
})";
}

std::string names_seed() {
  return "wte: wte.weight\nlayer.attn.w: h.{layer}.attn.c_attn.weight [embed, three * heads * head_dim]\n\"a\": "
         "'b.{i}'\n";
}

std::vector<Files> seeds(const std::string& kind, const std::vector<std::string>& texts) {
  if (kind == "safetensors") return {{{"a.safetensors", safetensors_seed()}}};
  if (kind == "llm_c") return {{{"a.bin", llm_c_seed()}}};
  if (kind == "raw") return {{{"a.bin", some_numbers(41)}}, {{"a.bin", llm_c_seed()}}};
  if (kind == "megatron") return {megatron_seed()};
  if (kind == "idx") return {{{"a.idx", idx_seed()}}};
  if (kind == "npy") return {{{"a.npy", npy_seed(false)}}, {{"a.npy", npy_seed(true)}}};
  if (kind == "gzip") return {{{"a.gz", gzip_seed()}}};
  if (kind == "names") return {{{"names.yaml", names_seed()}}};
  if (kind == "run_json") return {{{"run.yaml", run_json_seed()}}};
  std::vector<Files> all = {{{"run.yaml", run_file_seed()}}};
  for (const std::string& text : texts) all.push_back({{"run.yaml", text}});
  return all;
}

// ---- what is wrong with a mutant

void put_number(std::string& bytes, Random& random) {
  static constexpr uint64_t odd[] = {0,
                                     1,
                                     2,
                                     0x7f,
                                     0x80,
                                     0xff,
                                     0x7fff,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     0x3fffffffffffffff,
                                     0x4000000000000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xffffffffffffffff,
                                     0xfffffffffffffff8};
  uint64_t number = odd[below(random, std::size(odd))];
  const size_t size = size_t{1} << below(random, 4);
  if (below(random, 2) == 0) number = __builtin_bswap64(number) >> (64 - 8 * size);
  if (bytes.size() < size) return;
  std::memcpy(&bytes[below(random, bytes.size() - size + 1)], &number, size);
}

void change(std::string& bytes, Random& random, const std::vector<Files>& others) {
  static constexpr char odd[] = "\0\t\r\n\"'\\(){}[]<>*+-=:;,.&!|%@`#_ 0129aeAEZ\x7f\x80\xc3\xa9\xff";
  static const std::vector<std::string> words = {
      "null",         "true",       "~",         "1e999",     "-1",   "99999999999999999999",
      "{a: &a [*a]}", "!!binary x", "- -",       "? :",       "\n\n", "0x10",
      ".nan",         "1-1-1",      "100.0001%", "<<: *file", "[",    "[[[[[[[[[["};
  const size_t at = below(random, bytes.size() + 1), length = 1 + below(random, 20);
  switch (below(random, 9)) {
    case 0: bytes.insert(at, 1, odd[below(random, sizeof odd - 1)]); break;
    case 1: bytes.erase(std::min(at, bytes.size()), length); break;
    case 2: bytes.insert(at, bytes.substr(below(random, bytes.size()), length)); break;
    case 3: bytes.resize(at); break;
    case 4: put_number(bytes, random); break;
    case 5: bytes.insert(at, words[below(random, words.size())]); break;
    case 6:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
      break;
    case 7: {
      const std::string& other = others[below(random, others.size())].begin()->second;
      bytes.insert(at, other.substr(below(random, other.size()), 10 * length));
      break;
    }
    default:
      if (at < bytes.size()) bytes[at] = odd[below(random, sizeof odd - 1)];
  }
  if (bytes.size() > largest) bytes.resize(largest);
}

Files mutant(const std::vector<Files>& right, uint64_t seed, uint64_t number) {
  Random random(seed * 1'000'003 + number);
  Files files = right[below(random, right.size())];
  const size_t changes = below(random, 6);  // none, too: what is right is read
  for (size_t i = 0; i < changes; ++i)
    change(std::next(files.begin(), static_cast<int64_t>(below(random, files.size())))->second, random, right);
  return files;
}

// ---- reading one

uint64_t touched = 0;  // keeps what is read from being left out

template <class Byte>
void touch(std::span<const Byte> bytes) {
  for (const Byte byte : bytes) touched += static_cast<uint64_t>(byte);
}

void read_numbers(const NumberFile& file) {
  for (const auto& [type, size] : {std::pair{Type::f64, 8}, {Type::i32, 4}, {Type::u8, 1}}) {
    try {
      file.require(type, "the fuzzer");
      std::vector<std::byte> numbers(static_cast<size_t>(file.elements()) * static_cast<size_t>(size));
      file.read(0, file.elements(), type, type == Type::i32 ? 1000 : -1, "the fuzzer", numbers.data());
      touch<std::byte>(numbers);
    } catch (const meshrt::Failure&) {}
  }
  std::vector<std::byte> few(80);
  for (const int64_t first : {int64_t{-1}, file.elements() - 1, file.elements(), INT64_MAX - 2}) {
    try {
      file.read(first, 10, Type::f64, -1, "the fuzzer", few.data());
    } catch (const meshrt::Failure&) {}
  }
}

void read(const std::string& kind, const std::string& folder, const std::string& name, const std::string& content) {
  const std::string path = folder + "/" + name;
  if (kind.starts_with("run_")) {
    touched += meshrt::parse_run_file("run.yaml", content, folder).data.size();
  } else if (kind == "names") {
    const meshrt::RenameMap map = meshrt::RenameMap::read(path);
    const float number = 1;
    for (const std::string& tensor : map.tensors())
      touched += renamed({tensor, Type::f32, {1, 1}, std::as_bytes(std::span(&number, 1))}, map).size();
  } else if (kind == "safetensors") {
    const meshrt::SavedTensors saved = meshrt::SavedTensors::open(path);
    for (const meshrt::NamedArray& tensor : saved.tensors()) {
      touch(tensor.data);
      touched += numbers_as(Type::f64, tensor).size();
    }
  } else {
    const FileType type = kind == "llm_c"      ? FileType::llm_c
                          : kind == "megatron" ? FileType::megatron
                          : kind == "idx"      ? FileType::idx
                          : kind == "npy"      ? FileType::npy
                                               : FileType::detect;
    if (kind == "raw")
      for (const FileType one : {FileType::u16, FileType::i32, FileType::bytes})
        read_numbers(NumberFile::open(path, one));
    else read_numbers(NumberFile::open(path, type));
    if (kind == "npy") touched += meshrt::read_npy(path).data.size();
  }
}

void write_files(const std::string& folder, const Files& files) {
  for (const auto& [name, content] : files) std::ofstream(folder + "/" + name, std::ios::binary) << content;
}

bool read_mutant(const std::string& kind, const std::string& folder, const Files& files, uint64_t number) {
  mesh::fuzz::run_next(number);
  if (!kind.starts_with("run_")) write_files(folder, files);
  try {
    read(kind, folder, files.begin()->first, files.begin()->second);
    return true;
  } catch (const meshrt::Failure& failure) {
    touched += std::strlen(failure.what());
    return false;
  }
}

std::vector<std::string> read_texts(char** begin, char** end) {
  std::vector<std::string> texts;
  for (; begin < end; ++begin) {
    std::stringstream text;
    text << std::ifstream(*begin, std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

}  // namespace

// What the sanitizers find has the mutant's number beside it.
extern "C" void __asan_on_error() {
  (void)!write(STDERR_FILENO, mesh::fuzz::running(), std::strlen(mesh::fuzz::running()));
}

int main(int argc, char** argv) {
  if (argc >= 6 && std::string(argv[1]) == "--write") {
    write_files(argv[5],
                mutant(seeds(argv[3], read_texts(argv + 6, argv + argc)), std::stoull(argv[4]), std::stoull(argv[2])));
    return 0;
  }
  if (argc < 7) return 2;
  const std::string kind = argv[1], folder = argv[6];
  const uint64_t seed = std::stoull(argv[2]), first = std::stoull(argv[3]), count = std::stoull(argv[4]);
  const std::vector<Files> right = seeds(kind, read_texts(argv + 7, argv + argc));
  write_files(folder, {{"a.bin", "0123"}});  // what run files name
  mesh::fuzz::watch({SIGABRT});              // the sanitizer has the others
  const auto start = std::chrono::steady_clock::now(), end = start + std::chrono::seconds(std::stoll(argv[5]));
  uint64_t done = 0, accepted = 0;
  for (; done < count && std::chrono::steady_clock::now() < end; ++done) {
    try {
      accepted += read_mutant(kind, folder, mutant(right, seed, first + done), first + done) ? 1 : 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "mutant {}: {}\n", first + done, error.what());
      return 1;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{} mutants, {} accepted, {:.1f} s\n", done, accepted, seconds.count());
  return touched == 1 ? 3 : 0;
}
