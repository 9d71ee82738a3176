// CUDA devices for the bookkeeping of PyTorch: which one is current, and streams and events that
// do nothing. With it the autograd engine runs the backward pass in a thread of its own for each
// device, as it does with a card.
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace {

constexpr c10::DeviceIndex N_DEVICES = 2;
thread_local c10::DeviceIndex current = 0;

struct Guard final : c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA> {
  static c10::Device device(c10::DeviceIndex index) { return {c10::DeviceType::CUDA, index}; }
  c10::Device getDevice() const override { return device(current); }
  c10::Device exchangeDevice(c10::Device to) const override {
    return device(std::exchange(current, to.index()));
  }
  void setDevice(c10::Device to) const override { current = to.index(); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { current = to.index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return N_DEVICES; }
  c10::Stream getStream(c10::Device of) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, of);
  }
  c10::Stream exchangeStream(c10::Stream to) const noexcept override { return to; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
};

}  // namespace

namespace at {

// found by its name
struct CUDAHooks final : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return N_DEVICES; }
  DeviceIndex getCurrentDevice() const override { return current; }
  DeviceIndex current_device() const override { return current; }
  int getNumGPUs() const override { return N_DEVICES; }
};

REGISTER_CUDA_HOOKS(CUDAHooks)

}  // namespace at

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

// The device that was current; a negative index leaves it current.
extern "C" int exchange_device(int index) {
  return index < 0 ? current : std::exchange(current, static_cast<c10::DeviceIndex>(index));
}
