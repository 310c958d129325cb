// Dropout of numbers by 16 bits each, in one pass.

#include "native/loops.hpp"

namespace {

constexpr int64_t kEach = 64, kCost = 2;  // operations for each number

// out = x · scale where its bits are at least `least`, else x · 0: inf and NaN stay, or become NaN.
template <typename T>
void dropped(int64_t size, int64_t threads, const T* x, const int16_t* bits, int64_t least, double scale, T* out) {
    loops::share(size, kEach, threads, size * kCost, [=](int64_t begin, int64_t end) {
        const T kept = T(scale);
        for (int64_t i = begin; i < end; ++i) out[i] = x[i] * (bits[i] >= least ? kept : T(0));
    });
}

}  // namespace

extern "C" void dropped_float32(int64_t size, int64_t threads, const float* x, const int16_t* bits, int64_t least,
                                double scale, float* out) {
    dropped(size, threads, x, bits, least, scale, out);
}
extern "C" void dropped_float64(int64_t size, int64_t threads, const double* x, const int16_t* bits, int64_t least,
                                double scale, double* out) {
    dropped(size, threads, x, bits, least, scale, out);
}
