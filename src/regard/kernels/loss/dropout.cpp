// Dropout of numbers by 16 bits each, in one pass.

#include "native/loops.hpp"

namespace {

constexpr int64_t kEach = 64, kCost = 2;  // operations for each number

// out = x · scale where its bits are at least `least`, else x · 0: inf and NaN stay, or become NaN.
template <typename T>
void dropped(const abi::Dropped<T>& call) {
    loops::share(call.size, kEach, call.threads, call.size * kCost, [=](int64_t begin, int64_t end) {
        const T kept = T(call.scale), *x = call.x;
        const int16_t* bits = call.bits;
        const int64_t least = call.least;
        T* out = call.out;
        for (int64_t i = begin; i < end; ++i) out[i] = x[i] * (bits[i] >= least ? kept : T(0));
    });
}

}  // namespace

extern "C" void dropped_float32(const abi::Dropped<float>& call) { dropped(call); }
extern "C" void dropped_float64(const abi::Dropped<double>& call) { dropped(call); }
