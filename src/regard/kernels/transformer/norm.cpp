// Layer normalization (Ba et al. 2016) of a sum, and its backward pass, each in one pass over rows that lie near.

#include <cmath>

#include "native/loops.hpp"

namespace {

using namespace loops;
constexpr int L = kLanes<float>;
using V = Vec<float>;

constexpr int64_t kRows = 64;  // whose gradients of weights are added up first: the order is the same for any threads

// A row in whole vectors: the numbers of the last one beyond the row's end are 0, and are not written.
template <bool kWhole>
struct Row {
    int64_t size;

    V read(const float* from, int64_t at) const {
        if (kWhole || at + L <= size) return load(from + at);
        V found = {};
        for (int64_t i = at; i < size; ++i) found[i - at] = from[i];
        return found;
    }
    void write(float* to, int64_t at, V numbers) const {
        if (kWhole || at + L <= size) {
            store<float>(to + at, numbers);
            return;
        }
        for (int64_t i = at; i < size; ++i) to[i] = numbers[i - at];
    }
    // Numbers beyond the end count nowhere, whatever a row's mean is.
    V inside(V numbers, int64_t at) const {
        if (!kWhole)
            for (int64_t i = std::max<int64_t>(0, size - at); i < L; ++i) numbers[i] = 0;
        return numbers;
    }
};

template <bool kWhole>
void forward(const abi::NormForward<float>& call) {
    const Row<kWhole> line{call.size};
    const int64_t size = call.size;
    share(call.rows, 1, call.threads, call.rows * size * 4, [&, size](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            const float *row = call.x + r * size, *more = call.more ? call.more + r * size : nullptr;
            V total = {};
            if (more) {
                float* sums = call.sums + r * size;
                for (int64_t i = 0; i < size; i += L) {
                    V one = line.read(row, i) + line.read(more, i);
                    line.write(sums, i, one);
                    total += one;
                }
                row = sums;
            } else {
                for (int64_t i = 0; i < size; i += L) total += line.read(row, i);
            }
            const float mean = halved<float>(total) / size;
            V squares = {};
            for (int64_t i = 0; i < size; i += L) {
                V apart = line.inside(line.read(row, i) - mean, i);
                squares += apart * apart;
            }
            const float scale = float(1 / std::sqrt(double(halved<float>(squares)) / size + call.epsilon));
            float* y = call.y + r * size;
            for (int64_t i = 0; i < size; i += L) {
                V found = (line.read(row, i) - mean) * scale * line.read(call.weight, i);
                if (call.bias) found += line.read(call.bias, i);
                line.write(y, i, found);
            }
            call.means[r] = mean, call.scales[r] = scale;
        }
    });
}

template <bool kWhole>
void backward(const abi::NormBackward<float>& call) {
    const Row<kWhole> line{call.size};
    const int64_t size = call.size;
    share(call.rows, kRows, call.threads, call.rows * size * 8, [&, size](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            float *of_weight = call.parts + r / kRows * 2 * size, *of_bias = of_weight + size;
            if (r % kRows == 0) std::fill(of_weight, of_weight + 2 * size, 0.0f);
            const float *above = call.above + r * size, *row = call.s + r * size;
            const float* past = call.past ? call.past + r * size : nullptr;
            float* to = call.to_s + r * size;
            const float mean = call.means[r], scale = call.scales[r];
            V of_mean = {}, of_scale = {};
            for (int64_t i = 0; i < size; i += L) {
                V one = line.read(above, i), apart = (line.read(row, i) - mean) * scale;
                V weighed = one * line.read(call.weight, i);
                of_mean += weighed;
                of_scale += line.inside(weighed * apart, i);
                line.write(of_weight, i, line.read(of_weight, i) + one * apart);
                if (call.to_bias) line.write(of_bias, i, line.read(of_bias, i) + one);
            }
            const float level = halved<float>(of_mean) / size, tilt = halved<float>(of_scale) / size;
            for (int64_t i = 0; i < size; i += L) {
                V apart = (line.read(row, i) - mean) * scale;
                V found = scale * (line.read(above, i) * line.read(call.weight, i) - level - apart * tilt);
                if (past) found += line.read(past, i);
                line.write(to, i, found);
            }
        }
    });
    std::fill(call.to_weight, call.to_weight + size, 0.0f);
    if (call.to_bias) std::fill(call.to_bias, call.to_bias + size, 0.0f);
    for (int64_t r = 0; r < call.rows; r += kRows) {
        const float* part = call.parts + r / kRows * 2 * size;
        for (int64_t i = 0; i < size; ++i) call.to_weight[i] += part[i];
        if (call.to_bias)
            for (int64_t i = 0; i < size; ++i) call.to_bias[i] += part[size + i];
    }
}

}  // namespace

extern "C" {

// y = (s − mean) / √(variance + ε) · weight [+ bias] for s = x [+ more]. `sums` (null without `more`) receives s, and
// `means` and `scales` (1 / √ …) a number a row.
void norm_forward_float32(const abi::NormForward<float>& call) {
    if (call.size % L)
        forward<false>(call);
    else
        forward<true>(call);
}

// `to_s` receives what comes back to s from what comes back to y (`above`), and `past` (or null) added to it: that which
// comes back to s from elsewhere. `to_weight` and `to_bias` (or null) receive the sums over rows; `parts` has room for
// two of them for each kRows rows.
void norm_backward_float32(const abi::NormBackward<float>& call) {
    if (call.size % L)
        backward<false>(call);
    else
        backward<true>(call);
}

}  // extern "C"
