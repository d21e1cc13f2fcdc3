// Stands in for tvm/support/span.h, which TVM's wheel does not ship.
// Only TensorInfoNode::shape() in tvm/runtime/metadata.h names it, and nothing here calls that.
#pragma once

namespace tvm {
namespace support {

template <typename T, typename W>
class Span {
 public:
  Span(T* first, T* last) : first_(first), last_(last) {}
  T* begin_ptr() const { return first_; }
  T* end_ptr() const { return last_; }

 private:
  T* first_;
  T* last_;
};

}  // namespace support
}  // namespace tvm
