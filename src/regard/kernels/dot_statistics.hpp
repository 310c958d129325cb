// What the weights of dot.cpp are like, and if it's wanted the context too, from one product of queries and keys.
//
// The weights of some queries and all keys are held at once: what a key receives is known only when its row is complete.

#pragma once

#include "dot_call.hpp"
#include "dot_pack.hpp"

namespace dot {

constexpr int64_t kHeld = 1 << 17;  // weights at a time

// A bit for each number of the vector that is at least so large.
template <typename T>
inline uint32_t bits_from(Vec<T> numbers, T least) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>)
        return _mm512_cmp_ps_mask((__m512)numbers, _mm512_set1_ps(least), _CMP_GE_OQ);
    else
        return _mm512_cmp_pd_mask((__m512d)numbers, _mm512_set1_pd(least), _CMP_GE_OQ);
#else
    uint32_t found = 0;
    for (int i = 0; i < kLanes<T>; ++i) found |= uint32_t(numbers[i] >= least) << i;
    return found;
#endif
}

// The largest numbers so far, in descending order, the earlier first among equals.
template <typename T>
struct Largest {
    int64_t top, count = 0;
    T* numbers;
    int64_t* places;

    void add(T number, int64_t place) {
        if (count == top && !(number > numbers[top - 1])) return;
        int64_t n = count < top ? count++ : top - 1;
        for (; n > 0 && numbers[n - 1] < number; --n) numbers[n] = numbers[n - 1], places[n] = places[n - 1];
        numbers[n] = number, places[n] = place;
    }
};

// One row: scores from … to become weights (not yet divided). Their sum, and the largest of each column of vectors.
template <typename T>
struct Row {
    T total, mixed;  // Σ w and Σ w log2(w)
    Vec<T> most;

    Row(T* scores, int64_t from, int64_t to) {
        most = loops::all<T>(kNever<T>);
        for (int64_t c = from; c < to; c += kLanes<T>) most = loops::larger<T>(most, load(scores + c));
        T top = loops::largest<T>(most), safe = top > kNever<T> ? top : 0;  // where nothing is seen, or NaN
        Vec<T> sum{}, sum_mixed{};
        for (int64_t c = from; c < to; c += kLanes<T>) {
            Vec<T> score = load(scores + c) - safe, weight = loops::power_of_two<T>(score);
            store(scores + c, weight);
            sum += weight;
            sum_mixed += weight * loops::larger<T>(score, loops::all<T>(T(-2000)));  // 0 · −inf is 0 here
        }
        total = loops::sum<T>(sum), mixed = loops::sum<T>(sum_mixed);
        most = loops::power_of_two<T>(most - safe);
    }
    // Few numbers are larger than what the columns' largest say that the largest `top` are at least.
    T least(int64_t top) const {
        if (top > kLanes<T>) return 0;
        T sorted[kLanes<T>];
        store(sorted, most);
        std::nth_element(sorted, sorted + top - 1, sorted + kLanes<T>, [](T one, T other) { return one > other; });
        return sorted[top - 1];
    }
};

template <typename T>
void top_of_row(const Call& call, const Block& block, int64_t query, const T* weights, int64_t start, int64_t from,
                int64_t to, const Row<T>& row) {
    int64_t line = (block.item * call.heads + block.head) * call.queries + query;
    Largest<T> largest{call.top, 0, reinterpret_cast<T*>(call.top_weights) + line * call.top,
                       reinterpret_cast<int64_t*>(call.top_keys) + line * call.top};
    const T nan = std::numeric_limits<T>::quiet_NaN();
    if (row.total != row.total) {
        for (int64_t k = 0; k < call.keys && largest.count < call.top; ++k)
            if (call.sees(block.item, block.head, query, k)) largest.add(nan, k);
        for (int64_t k = 0; k < call.keys && largest.count < call.top; ++k)
            if (!call.sees(block.item, block.head, query, k)) largest.add(0, k);
        return;
    }
    const int64_t end = std::min(to, call.keys - start);
    T least = from < end ? row.least(call.top) : 0;
    for (int64_t c = from; c < end; c += kLanes<T>) {
        uint32_t bits = bits_from<T>(load(weights + c), least);
        if (bits == 0) continue;
        for (; bits; bits &= bits - 1) {
            int64_t i = c + __builtin_ctz(bits);
            if (i < end) largest.add(weights[i], start + i);
        }
        if (largest.count == call.top) least = std::max(least, largest.numbers[call.top - 1]);
    }
    T inverse = row.total > 0 ? 1 / row.total : 0;
    for (int64_t n = 0; n < largest.count; ++n) largest.numbers[n] *= inverse;
    for (int64_t k = 0; largest.count < call.top; ++k)  // beyond what was computed
        if (k < start + from || k >= start + end) largest.add(0, k);
}

template <typename S, typename T>
void statistics(const Call& call, double scale) {
    const int64_t width = whole<T>(call.dim), value_width = whole<T>(call.value_dim);
    const int64_t panels = call.context ? (call.value_dim + kPanel<T> - 1) / kPanel<T> : 0;
    const int64_t packed = (call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>, stride = packed + kLanes<T>;
    const int64_t rows = std::max(kStrip, std::min(kMostRows, kHeld / stride / kStrip * kStrip));
    int64_t cost = call.batch * call.heads * call.queries * call.keys * (call.dim + call.value_dim);
    share(call.batch * call.heads, 1, call.threads, cost, [&](int64_t from, int64_t to) {
        Buffer<T> keys(packed * call.dim), values(packed * panels * kPanel<T>), query(rows * width);
        Buffer<T> weights(rows * stride), context(rows * value_width), received(packed), inverse(rows);
        for (int64_t unit = from, ready = -1; unit < to; ++unit) {
            int64_t item = unit / call.heads, head = unit % call.heads, key_head = head / call.group();
            if (ready != item * call.key_heads + key_head) {
                turned_panels_of<S, T>(call.key.of<const S>(item, key_head), call.key.row, call.key.column,
                                       call.length(item), call.dim, keys.at);
                if (panels)
                    panels_of<S, T>(call.value.of<const S>(item, key_head), call.value.row, call.value.column,
                                    call.length(item), call.value_dim, values.at, packed);
                ready = item * call.key_heads + key_head;
            }
            T* all_received = reinterpret_cast<T*>(call.received) + unit * call.keys;
            std::memset(all_received, 0, call.keys * sizeof(T));
            for (int64_t first = 0; first < call.queries; first += rows) {
                Block block(call, item, head, first, rows);
                int64_t line = unit * call.queries + first, start = block.begin / kPanel<T> * kPanel<T>;
                rows_of<S, T>(call.query.of<const S>(item, head) + first * call.query.row, call.query.row,
                              call.query.column, block.rows, call.dim, T(scale * kLog2e), query.at, width);
                Tile<T> tile(call, block, start, packed);
                tile.product(query.at, call.dim, keys.at, width, weights.at);
                for (int64_t r = 0; r < block.rows; ++r) {
                    int64_t low = tile.first_vector(r / kStrip), high = tile.last_vector(r / kStrip);
                    T* here = weights.at + r * stride;
                    if (low < high) tile.finish(r, here, low, high);
                    Row<T> row(here, low, high);
                    inverse.at[r] = row.total == 0 ? 0 : 1 / row.total;
                    reinterpret_cast<T*>(call.maximum)[line + r] = inverse.at[r];
                    T entropy = row.total == 0 ? 0 : T(kLn2) * (std::log2(row.total) - row.mixed * inverse.at[r]);
                    reinterpret_cast<T*>(call.entropy)[line + r] = entropy < 0 ? 0 : entropy;
                    if (call.top) top_of_row(call, block, first + r, here, start, low, high, row);
                    if (inverse.at[r] != inverse.at[r]) {  // NaN is received from this row where it sees, and not beyond
                        for (int64_t c = low; c < high; ++c)
                            here[c] = call.sees(item, head, first + r, start + c) ? inverse.at[r] : 0;
                        inverse.at[r] = 1;
                    }
                }
                std::memset(received.at, 0, packed * sizeof(T));
                for (int64_t n = 0; n < block.strips(); ++n) {
                    int64_t low = tile.first_vector(n), size = tile.last_vector(n) - low;
                    loops::multiply<T, true>(1, size, block.rows_of(n), inverse.at + n * kStrip, 0, 1,
                                             weights.at + n * kStrip * stride + low, stride, received.at + low, 0);
                }
                for (int64_t c = 0; c < std::min(tile.columns, call.keys - start); ++c)
                    all_received[start + c] += received.at[c];
                if (!panels) continue;
                std::memset(context.at, 0, block.rows * value_width * sizeof(T));
                tile.read(weights.at, values.at, packed, value_width, context.at);
                for (int64_t r = 0; r < block.rows; ++r)
                    write_rows<S, T>(context.at + r * value_width, value_width, 1, call.value_dim, inverse.at[r],
                                     reinterpret_cast<S*>(call.context) + (line + r) * call.value_dim);
            }
        }
    });
}

}  // namespace dot
