// Smoothed cross-entropy of rows of logits, whether each target was the first choice, and the gradient of their sum: a
// row is gone through three times while it lies near.

#include <cmath>

#include "loops.hpp"

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

// The loss of one row; `gradient` is null or becomes its own.
float one_row(int64_t size, const float* row, int64_t target, float smoothing, float* gradient, bool& right) {
    V most = all<float>(-std::numeric_limits<float>::infinity()), added = {}, sums = {};
    double of_last = 0;
    through(size, row, [&](V x, int64_t i, int count) {
        most = larger<float>(most, x);
        if (count == L)
            added += x;
        else
            for (int n = 0; n < count; ++n) of_last += row[i + n];
    });
    float top = largest<float>(most);
    through(size, row, [&](V x, int64_t i, int count) {
        V power = exponential<float>(x - top);
        sums += power;
        if (!gradient) return;
        if (count == L)
            store<float>(gradient + i, power);
        else
            for (int n = 0; n < count; ++n) gradient[i + n] = power[n];
    });
    float total = sum<float>(sums), normalizer = top + std::log(total);
    right = total == total && first_of_all(row, target, top);
    if (gradient) {
        float scale = 1 / total, share = smoothing / size;
        for (int64_t i = 0; i < size; ++i) gradient[i] = gradient[i] * scale - share;
        gradient[target] += smoothing - 1;
    }
    float loss = (1 - smoothing) * (normalizer - row[target]);
    if (smoothing > 0) loss += smoothing * float(normalizer - (sum<float>(added) + of_last) / size);
    return loss;
}

}  // namespace

// A row whose target is `ignored` has no loss and no gradient, whatever it holds.
extern "C" void cross_entropy(int64_t rows, int64_t size, int64_t threads, const float* logits, const int64_t* targets,
                              int64_t ignored, float smoothing, float* gradient, float* losses, bool* right) {
    share(rows, 1, threads, rows * size * 16, [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
            float* slope = gradient ? gradient + r * size : nullptr;
            losses[r] = 0, right[r] = false;
            if (targets[r] != ignored)
                losses[r] = one_row(size, logits + r * size, targets[r], smoothing, slope, right[r]);
            else if (slope)
                std::fill(slope, slope + size, 0.0f);
        }
    });
}
