// Memory that is zero, aligned for the matrix unit, and in huge pages where the system has them.
//
// A step reads every weight once: with 4 KB pages a core of today's servers gets a third less of
// its memory bandwidth than with 2 MB pages.
#pragma once
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace twinfleet {

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t bytes) { reserve(bytes); }
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
    other.bytes_ = 0;
  }
  Buffer& operator=(Buffer&&) = delete;
  Buffer(const Buffer&) = delete;
  ~Buffer() { std::free(data_); }

  // At least so many bytes. What was there is gone when it grows.
  void reserve(size_t bytes) {
    if (bytes <= bytes_) return;
    std::free(data_);
    data_ = nullptr;
    bytes_ = 0;
#ifdef __SANITIZE_ADDRESS__
    const size_t page = 64;  // no room behind, so that a step beyond it is seen
#else
    const size_t page = bytes < kHugePage ? 4096 : kHugePage;
#endif
    const size_t rounded = (bytes + page - 1) / page * page;
    data_ = std::aligned_alloc(page, rounded);
    if (data_ == nullptr) throw std::bad_alloc();
    if (page == kHugePage) madvise(data_, rounded, MADV_HUGEPAGE);
    std::memset(data_, 0, rounded);
    bytes_ = rounded;
  }

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  static constexpr size_t kHugePage = 2 << 20;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace twinfleet
