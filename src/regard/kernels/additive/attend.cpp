// Attention with additive scores in one loop over blocks of queries and keys: scores, bias, mask, softmax, dropout and
// read, forward and backward, without a table of queries × keys. The softmax is made as the keys come (Milakov &
// Gimelshein 2018); the backward pass recomputes each block's scores and needs of them the logarithm of their sum alone.

#include <cmath>

#include "additive/pairs.hpp"
#include "additive/sides.hpp"

namespace {

using namespace loops;

constexpr int64_t kBlock = pairs::kSome;  // queries and keys of a block

// What both ways are given: `kept` is exp(-2 b) or null, `keep` and `bias` are broadcast and may be null.
template <typename T>
struct Call : abi::AdditiveCall<T> {
    int64_t key_item(int64_t item) const {
        return item / this->heads * this->key_heads + item % this->heads / (this->heads / this->key_heads);
    }
    int64_t cost() const {
        return this->batch * this->heads * this->queries * this->keys * (this->wide + this->values);
    }
};

// Whether a weight is dropped, from its number alone (the finalizer of SplitMix64, Steele, Lea & Flood 2014).
inline bool dropped(uint64_t seed, uint64_t number, uint64_t limit) {
    uint64_t z = seed + number * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return ((z ^ (z >> 31)) >> 32) < limit;
}

// What the weights of a block of one item are made of.
template <typename T>
struct Block {
    const Call<T>& call;
    pairs::Sides<T>& sides;
    T total;
    int64_t item, first, rows, begin, count;  // queries from `first` on, of which sides.x holds those; keys from `begin`

    const unsigned char* mask(int64_t r) const {
        const View& keep = call.keep;
        return keep.of<const unsigned char>(item / call.heads, item % call.heads) + (first + r) * keep.row +
               begin * keep.column;
    }

    // Whether no query of the block attends to any of its keys.
    bool is_masked_out() const {
        if (call.causal && begin >= first + rows) return true;
        if (!call.keep.at) return false;
        for (int64_t r = 0; r < (call.keep.row ? rows : 1); ++r) {
            const unsigned char* keep = mask(r);
            unsigned char any = 0;
            if (call.keep.column == 1)
                for (int64_t k = 0; k < count; ++k) any |= keep[k];
            else
                for (int64_t k = 0; k < count; ++k) any |= keep[k * call.keep.column];
            if (any) return false;
        }
        return true;
    }

    // (score + bias) · scale, −inf where the key is masked out or there is no key any more; rows are kBlock long.
    void scores(const T* x, T* to) const {
        (sides.exponential ? pairs::scores<T, true> : pairs::scores<T, false>)(
            rows, count, call.wide, x, sides.y + begin * call.wide, call.v, total, to, kBlock);
        constexpr T none = -std::numeric_limits<T>::infinity();
        T scale = call.scale;
        for (int64_t r = 0; r < rows; ++r) {
            T* row = to + r * kBlock;
            if (call.bias.at) {
                const View& steps = call.bias;
                const T* bias = steps.of<const T>(item / call.heads, item % call.heads) + (first + r) * steps.row +
                                begin * steps.column;
                if (steps.column == 1)
                    for (int64_t k = 0; k < count; ++k) row[k] += bias[k];
                else
                    for (int64_t k = 0; k < count; ++k) row[k] += bias[k * steps.column];
            }
            for (int64_t k = 0; k < count; ++k) row[k] *= scale;
            if (call.keep.at) {
                const unsigned char* keep = mask(r);
                if (call.keep.column == 1)
                    for (int64_t k = 0; k < count; ++k) row[k] = keep[k] ? row[k] : none;
                else
                    for (int64_t k = 0; k < count; ++k) row[k] = keep[k * call.keep.column] ? row[k] : none;
            }
            int64_t end = call.causal ? std::max<int64_t>(0, std::min(count, first + r + 1 - begin)) : count;
            for (int64_t k = end; k < kBlock; ++k) row[k] = none;
        }
    }

    // 0 for a weight that is dropped, 1 / (1 − dropout) for any other.
    void factors(int64_t r, T* to) const {
        uint64_t limit = call.dropout * 4294967296.0;
        uint64_t number = ((uint64_t)item * call.queries + first + r) * call.keys + begin;
        T more = call.dropout < 1 ? 1 / (1 - call.dropout) : 0;
        for (int64_t k = 0; k < kBlock; ++k) to[k] = dropped(call.seed, number + k, limit) ? 0 : more;
    }
};

template <typename T>
T total_of(const Call<T>& call) {
    T total = 0;
    for (int64_t h = 0; h < call.wide; ++h) total += call.v[h];
    return total;
}

// The weights of a block's row from its scores, as parts of exp(most); returns their sum and moves `most` up.
template <typename T>
T weigh(T* row, T& most) {
    Vec<T> high = all<T>(most), sums = {};
    for (int64_t k = 0; k < kBlock; k += kLanes<T>) high = load(row + k) > high ? load(row + k) : high;
    most = largest<T>(high);
    for (int64_t k = 0; k < kBlock; k += kLanes<T>) {
        Vec<T> here = exponential<T>(load(row + k) - most);
        sums += here;
        store<T>(row + k, here);
    }
    return sum<T>(sums);
}

// -> out (items, queries, values), and the logarithm of each query's sum; a fully masked query gets a zero context.
template <typename T>
void forward(const abi::AdditiveAttendForward<T>& given) {
    const Call<T> call{given};
    T *out = given.out, *logarithms = given.logarithms;
    int64_t wide = call.wide, values = call.values, queries = call.queries, keys = call.keys;
    T total = total_of(call);
    share(call.batch * call.heads * queries, kBlock, call.threads, call.cost(), [&](int64_t start, int64_t end) {
        pairs::Sides<T> sides;
        std::vector<T> scores(kBlock * kBlock);
        T most[kBlock], sums[kBlock], factors[kBlock];
        while (start < end) {
            int64_t item = start / queries, first = start % queries, here = std::min(queries - first, end - start);
            int64_t other = call.key_item(item) * keys;
            sides.make(queries, keys, wide, first, here, 0, wide, call.a + item * queries * wide,
                       call.b + other * wide, call.kept ? call.kept + other * wide : nullptr);
            for (int64_t q = 0; q < here; q += kBlock) {
                int64_t rows = std::min(kBlock, here - q);
                T* read = out + (start + q) * values;
                std::fill(read, read + rows * values, T(0));
                std::fill(most, most + rows, std::numeric_limits<T>::lowest());
                std::fill(sums, sums + rows, T(0));
                for (int64_t k = 0; k < keys; k += kBlock) {
                    int64_t count = std::min(kBlock, keys - k);
                    Block<T> block{call, sides, total, item, first + q, rows, k, count};
                    if (block.is_masked_out()) continue;
                    block.scores(sides.x + q * wide, scores.data());
                    for (int64_t r = 0; r < rows; ++r) {
                        T *row = scores.data() + r * kBlock, before = most[r], added = weigh<T>(row, most[r]);
                        if (most[r] != before) {
                            T less = exponential<T>(all<T>(before - most[r]))[0];
                            sums[r] *= less;
                            for (int64_t n = 0; n < values; ++n) read[r * values + n] *= less;
                        }
                        sums[r] += added;
                        if (call.dropout > 0) {
                            block.factors(r, factors);
                            for (int64_t n = 0; n < kBlock; ++n) row[n] *= factors[n];
                        }
                    }
                    multiply<T, true>(rows, values, count, scores.data(), kBlock, 1, call.value + (other + k) * values,
                                      values, read, values);
                }
                for (int64_t r = 0; r < rows; ++r) {
                    bool masked = sums[r] == 0;
                    logarithms[start + q + r] =
                        masked ? std::numeric_limits<T>::infinity() : most[r] + std::log(sums[r]);
                    for (int64_t n = 0; n < values; ++n) read[r * values + n] = masked ? 0 : read[r * values + n] / sums[r];
                }
            }
            start += here;
        }
    });
}

// Adds to da, db, dvalue and dbias (or null), which are 0, and writes each key item's own sums to `dv`.
template <typename T>
void backward(const abi::AdditiveAttendBackward<T>& given) {
    const Call<T> call{given};
    int64_t wide = call.wide, values = call.values, queries = call.queries, keys = call.keys;
    int64_t group = call.heads / call.key_heads;
    T total = total_of(call), scale = call.scale;
    auto work = [&](int64_t start, int64_t end) {
        pairs::Sides<T> sides;
        std::vector<T> weights(kBlock * kBlock), steep(kBlock * kBlock), flipped(kBlock * values), inner(queries);
        std::vector<Vec<T>> scratch(pairs::scratch_of<T>(kBlock, wide));
        T factors[kBlock];
        std::fill(factors, factors + kBlock, T(1));
        for (int64_t at = start * group; at < end * group; ++at) {
            int64_t item = at, b = item / call.heads, h = item % call.heads;
            int64_t key_item = at / group, other = key_item * keys;
            const T *a = call.a + item * queries * wide, *grad = given.g + item * queries * values;
            sides.make(queries, keys, wide, 0, queries, 0, wide, a, call.b + other * wide,
                       call.kept ? call.kept + other * wide : nullptr);
            for (int64_t q = 0; q < queries; ++q) {
                Vec<T> sums = {};
                for (int64_t n = 0; n < values; n += kLanes<T>)
                    sums += load(grad + q * values + n) * load(given.out + (item * queries + q) * values + n);
                inner[q] = sum<T>(sums);
            }
            for (int64_t k = 0; k < keys; k += kBlock) {
                int64_t count = std::min(kBlock, keys - k);
                const T* value = call.value + (other + k) * values;
                for (int64_t n = 0; n < values; ++n)
                    for (int64_t c = 0; c < kBlock; ++c) flipped[n * kBlock + c] = c < count ? value[c * values + n] : 0;
                for (int64_t q = 0; q < queries; q += kBlock) {
                    int64_t rows = std::min(kBlock, queries - q);
                    Block<T> block{call, sides, total, item, q, rows, k, count};
                    if (block.is_masked_out()) continue;
                    block.scores(sides.x + q * wide, weights.data());
                    multiply<T, false>(rows, kBlock, values, grad + q * values, values, 1, flipped.data(), kBlock,
                                       steep.data(), kBlock);
                    for (int64_t r = 0; r < rows; ++r) {
                        if (call.dropout > 0) block.factors(r, factors);
                        T logarithm = given.logarithms[item * queries + q + r], mean = inner[q + r];
                        for (int64_t c = 0; c < kBlock; c += kLanes<T>) {
                            T *weight = weights.data() + r * kBlock + c, *slope = steep.data() + r * kBlock + c;
                            Vec<T> here = exponential<T>(load(weight) - logarithm), factor = load(factors + c);
                            store<T>(slope, here * (load(slope) * factor - mean) * scale);
                            store<T>(weight, here * factor);
                        }
                        if (given.dbias.at)
                            for (int64_t c = 0; c < count; ++c)
                                given.dbias.template of<T>(b, h)[(q + r) * given.dbias.row + (k + c) * given.dbias.column] +=
                                    steep[r * kBlock + c];
                    }
                    multiply<T, true>(count, values, rows, weights.data(), 1, kBlock, grad + q * values, values,
                                      given.dvalue + (other + k) * values, values);
                    (sides.exponential ? pairs::back<T, true, true> : pairs::back<T, false, true>)(
                        rows, count, wide, 0, wide, sides.x + q * wide, sides.y + k * wide, call.v, steep.data(),
                        kBlock, given.da + (item * queries + q) * wide, given.db + (other + k) * wide, given.dv + key_item * wide,
                        scratch.data());
                }
            }
        }
    };
    share(call.batch * call.key_heads, 1, call.threads, call.cost(), work);
}

}  // namespace

#define REGARD_ADDITIVE_ATTEND(NAME, T)                                                                             \
    extern "C" void additive_attend_forward_##NAME(const abi::AdditiveAttendForward<T>& call) { forward(call); }    \
    extern "C" void additive_attend_backward_##NAME(const abi::AdditiveAttendBackward<T>& call) { backward(call); }

REGARD_ADDITIVE_ATTEND(float32, float)
REGARD_ADDITIVE_ATTEND(float64, double)
