// Smoothed cross-entropy of rows of logits, whether each target was the first choice, and the gradient of their sum: a
// row is gone through three times while it lies near.

#include <cmath>

#include "native/loops.hpp"

namespace {

using namespace loops;
constexpr int L = kLanes<float>;
using V = Vec<float>;

// work(whole vectors, -∞ where the last has no number; where they lie; how many numbers there are).
template <typename Work>
inline void through(int64_t size, const float* row, const Work& work) {
    int64_t i = 0;
    for (; i + L <= size; i += L) work(load(row + i), i, L);
    if (i < size) {
        float last[L];
        std::fill(last, last + L, -std::numeric_limits<float>::infinity());
        std::copy(row + i, row + size, last);
        work(load(last), i, int(size - i));
    }
}

bool first_of_all(const float* row, int64_t target, float most) {
    if (!(row[target] == most)) return false;
    for (int64_t i = 0; i < target; ++i)
        if (row[i] == most) return false;
    return true;
}

using Call = abi::CrossEntropy<float>;

// The loss of one row, to which `bias` is added where it lies, unless it is null. `gradient` is null or becomes its own,
// and may lie where the row does; it is added to `sums`, unless that is null.
float one_row(const Call& call, float* row, int64_t target, float* gradient, float* sums_of_slopes, uint8_t& right) {
    const int64_t size = call.size;
    const float smoothing = float(call.smoothing), *bias = call.bias;
    if (bias)
        for (int64_t i = 0; i < size; ++i) row[i] += bias[i];
    V most = all<float>(-std::numeric_limits<float>::infinity()), added = {}, sums = {};
    double of_last = 0;
    through(size, row, [&](V x, int64_t, int) { most = larger<float>(most, x); });
    // All is relative to the largest: beside a large number a logarithm would lose its digits.
    const float top = largest<float>(most), chosen = row[target] - top;
    right = first_of_all(row, target, top);
    through(size, row, [&](V x, int64_t i, int count) {
        V below = x - top, power = exponential<float>(below);
        sums += power;
        if (count == L)
            added += below;
        else
            for (int n = 0; n < count; ++n) of_last += below[n];
        if (!gradient) return;
        if (count == L)
            store<float>(gradient + i, power);
        else
            for (int n = 0; n < count; ++n) gradient[i + n] = power[n];
    });
    const float total = sum<float>(sums), normalizer = std::log(total);
    right = right && total == total;
    if (gradient) {
        float scale = 1 / total, share = smoothing / size;
        for (int64_t i = 0; i < size; ++i) gradient[i] = gradient[i] * scale - share;
        gradient[target] += smoothing - 1;
        if (sums_of_slopes)
            for (int64_t i = 0; i < size; ++i) sums_of_slopes[i] += gradient[i];
    }
    float loss = (1 - smoothing) * (normalizer - chosen);
    if (smoothing > 0) loss += smoothing * float(normalizer - (sum<float>(added) + of_last) / size);
    return loss;
}

constexpr int64_t kBlock = 32;  // rows whose gradients are added up by themselves: whatever the threads, in one order

}  // namespace

extern "C" int64_t cross_entropy_block() { return kBlock; }

// A row whose target is `ignored` has no loss and no gradient, whatever it holds. `bias` is null or added to each row,
// where it lies; `gradient` is null, or may be the logits themselves; `slopes` is null or gets, of each kBlock rows, the
// sum of their gradients.
extern "C" void cross_entropy_float32(const Call& call) {
    const int64_t rows = call.rows, size = call.size;
    share(rows, call.slopes ? kBlock : 1, call.threads, rows * size * 16, [&, size](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            float* slope = call.gradient ? call.gradient + r * size : nullptr;
            float* sums = call.slopes ? call.slopes + r / kBlock * size : nullptr;
            if (sums && r % kBlock == 0) std::fill(sums, sums + size, 0.0f);
            call.losses[r] = 0, call.right[r] = false;
            if (call.targets[r] != call.ignored)
                call.losses[r] = one_row(call, call.logits + r * size, call.targets[r], slope, sums, call.right[r]);
            else if (slope)
                std::fill(slope, slope + size, 0.0f);
        }
    });
}
