// The first of each row's largest logits, and its log-probability: the rows are read twice, in vectors.

#include <cmath>

#include "native/loops.hpp"

namespace {

using namespace loops;
constexpr int L = kLanes<float>;
using V = Vec<float>;
constexpr float kLowest = std::numeric_limits<float>::lowest(), kInfinite = std::numeric_limits<float>::infinity();

// The largest number; a NaN is passed over.
float top_of(int64_t size, const float* numbers) {
    V most = all<float>(-kInfinite);
    int64_t i = 0;
    for (; i + L <= size; i += L) {
        V given = load(numbers + i);
        most = given > most ? given : most;
    }
    float top = largest<float>(most);
    for (; i < size; ++i) top = numbers[i] > top ? numbers[i] : top;
    return top;
}

// Σ e^(x − top), NaN where one is. What a block sums in float32 is added up in float64.
double sum_of(int64_t size, const float* numbers, float top) {
    constexpr int64_t kBlock = 64 * L;
    double total = 0;
    int64_t i = 0;
    while (i + L <= size) {
        V sums = {};
        for (int64_t last = std::min(i + kBlock, size); i + L <= last; i += L)
            sums += exponential<float>(load(numbers + i) - top);
        total += sum<float>(sums);
    }
    if (i < size) {
        float rest[L];
        std::fill(rest, rest + L, -kInfinite);
        std::copy(numbers + i, numbers + size, rest);
        total += sum<float>(exponential<float>(load(rest) - top));
    }
    return total;
}

int64_t first_of(int64_t size, const float* numbers, float top) {
    int64_t i = 0;
    for (; i + L <= size; i += L) {
        auto same = load(numbers + i) == top;
        bool found = false;
        for (int lane = 0; lane < L; ++lane) found |= same[lane] != 0;
        if (found) break;
    }
    for (; i < size; ++i)
        if (numbers[i] == top) return i;
    return 0;
}

}  // namespace

extern "C" {

// `banned` is null or has a byte for each choice: a banned choice is not chosen,
// but counts in the sum. Where all is, or all is −inf, the first has −inf; false is given where a row has NaN or +inf.
bool first_of_rows_float32(const abi::FirstOfRows<float>& call) {
    bool fine = false;
    const int64_t choices = call.choices;
    const uint8_t* banned = call.banned;
    share(1, 1, 1, 0, [&](int64_t, int64_t) {  // which reports a lack of memory
        std::vector<float> allowed(banned ? choices : 0);
        for (int64_t r = 0; r < call.rows; ++r) {
            const float* row = call.logits + r * call.logits_strides[0];
            float top = top_of(choices, row);
            double total = sum_of(choices, row, std::max(top, kLowest));
            if (top == kInfinite || total != total) return;
            double least = std::numeric_limits<float>::min();
            double log_sum = std::max(top, kLowest) + std::log(std::max(total, least));
            float chosen = top;
            if (banned) {
                for (int64_t i = 0; i < choices; ++i) allowed[i] = banned[i] ? -kInfinite : row[i];
                row = allowed.data();
                chosen = top_of(choices, row);
            }
            call.best[r] = first_of(choices, row, chosen);
            call.log_probability[r] = chosen - log_sum;
        }
        fine = true;
    });
    return fine;
}

}  // extern "C"
