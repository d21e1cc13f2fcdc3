// Classify pictures in two threads: classify_threads WEIGHTS PICTURE...
//
// The files are those of classify.c. A run keeps no state, so threads share the mapped weights, and each has an arena
// of its own.
#include "mobilenet.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kThreads = 2;

// Memory that begins where kernels want it.
template <typename T> class Aligned {
 public:
  explicit Aligned(std::size_t count)
      : data_(static_cast<T *>(::operator new(std::max<std::size_t>(count, 1) * sizeof(T), kPlace))) {}
  T *get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kPlace{MOBILENET_ALIGNMENT};
  struct Free {
    void operator()(T *data) const { ::operator delete(data, kPlace); }
  };
  std::unique_ptr<T, Free> data_;
};

// The mapped file; unmapped at the end of the scope.
class Weights {
 public:
  explicit Weights(const char *path) : status_(mobilenet_open_weights(&weights_, path)) {}
  ~Weights() {
    if (status_ == MOBILENET_OK) mobilenet_close_weights(&weights_);
  }
  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;
  mobilenet_status status() const { return status_; }
  const mobilenet_weights *get() const { return &weights_; }

 private:
  mobilenet_weights weights_{};
  mobilenet_status status_;
};

// One thread's memory, and what it says of a picture.
class Classifier {
 public:
  explicit Classifier(const Weights &weights) : weights_(weights) {}

  std::string operator()(const std::string &path) {
    const auto bytes = static_cast<std::streamsize>(MOBILENET_IMAGE_ELEMENTS * sizeof(float));
    std::ifstream file(path, std::ios::binary);
    if (!file.read(reinterpret_cast<char *>(picture_.get()), bytes)) return path + ": no such picture";
    const mobilenet_inputs inputs{picture_.get()};
    const mobilenet_outputs outputs{scores_.get()};
    const mobilenet_status status =
        mobilenet_run(&inputs, &outputs, arena_.get(), MOBILENET_ARENA_BYTES, weights_.get());
    if (status != MOBILENET_OK) return path + ": " + mobilenet_status_text(status);
    const float *first = scores_.get(), *best = std::max_element(first, first + MOBILENET_OUTPUT_0_ELEMENTS);
    char text[64];
    std::snprintf(text, sizeof text, ": %td (%.3f)", best - first, static_cast<double>(*best));
    return path + text;
  }

 private:
  const Weights &weights_;
  Aligned<unsigned char> arena_{MOBILENET_ARENA_BYTES};
  Aligned<float> picture_{MOBILENET_IMAGE_ELEMENTS}, scores_{MOBILENET_OUTPUT_0_ELEMENTS};
};

}  // namespace

int main(int count, char **words) {
  if (count < 3) {
    std::fputs("classify_threads WEIGHTS PICTURE...\n", stderr);
    return 2;
  }
  const Weights weights(words[1]);
  if (weights.status() != MOBILENET_OK) {
    std::fprintf(stderr, "%s: %s\n", words[1], mobilenet_status_text(weights.status()));
    return 2;
  }
  const std::vector<std::string> paths(words + 2, words + count);
  std::vector<std::string> said(paths.size());
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned number = 0; number < kThreads; ++number)
    threads.emplace_back([&] {
      Classifier classify(weights);
      for (std::size_t place; (place = next++) < paths.size();) said[place] = classify(paths[place]);
    });
  for (std::thread &thread : threads) thread.join();
  for (const std::string &line : said) std::puts(line.c_str());
  return 0;
}
